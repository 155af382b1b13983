r"""Criteria on a grid of gammas and temperatures: all of it, or only where the minimum can be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate._binned import equal_mass_error, equal_width_error
from focalibrate.calibrate._blocks import Workers, Workspace
from focalibrate.calibrate._recovery import TemperedRows
from focalibrate.calibrate.compressed import CompressedLogits

Floats = NDArray[np.float64]
GridCriterion = Literal["nll", "focal", "ece", "adaptive_ece"]

COARSE_STEP = 32
"""Every so many temperatures are looked at before the search narrows."""
SLACK = 0.25
"""How far, in shares of its change over an interval, the mean confidence may leave it."""
BUFFER_SHARE = 0.1
BUFFER_FLOOR = 2**20
"""Vectors of all rows may take this share of the logits' memory, or this many bytes."""


@dataclass(frozen=True, eq=False)
class GridValues:
    """The criterion where it was evaluated, nan elsewhere."""

    gammas: tuple[float, ...]
    temperatures: tuple[float, ...]
    values: Floats
    """Shape ``[G, M]``."""

    @property
    def n_evaluations(self) -> int:
        """Number of grid points evaluated."""
        return int(np.isfinite(self.values).sum())

    def argmin(self) -> tuple[int, int]:
        """Return the indices of the first minimum, gamma by gamma."""
        g, t = np.unravel_index(int(np.nanargmin(self.values)), self.values.shape)
        return int(g), int(t)

    def is_at_edge(self, temperature: float, gamma: float | None = None) -> bool:
        """Say whether a parameter is the least or the largest of several tried."""

        def is_end(value: float, tried: tuple[float, ...]) -> bool:
            return min(tried) < max(tried) and value in (min(tried), max(tried))

        return is_end(temperature, self.temperatures) or (
            gamma is not None and is_end(gamma, self.gammas)
        )


class GridEvaluator:
    """Evaluates one criterion at grid points; temperatures are shared out to threads.

    Args:
        rows: the validation rows.
        criterion: mean log loss or focal loss, ECE on bins of equal width or of equal mass.
        n_bins: number of bins.
        workers: threads.
        focal_gamma: exponent of the focal loss; 0, and it is the log loss.
    """

    def __init__(
        self,
        rows: CompressedLogits,
        criterion: GridCriterion,
        n_bins: int,
        workers: Workers,
        *,
        focal_gamma: float = 0.0,
    ) -> None:
        self.rows = rows
        self.criterion = criterion
        self.n_bins = n_bins
        self.focal_gamma = focal_gamma
        self.workers = workers
        self.accuracy = float(rows.correct.mean())
        logit_bytes = rows.n_rows * rows.n_classes * 4
        budget = max(BUFFER_FLOOR, BUFFER_SHARE * logit_bytes)
        self.batch = max(1, int(budget / (8 * rows.n_rows * workers.n_threads)) - 3)

    @property
    def is_loss(self) -> bool:
        """Whether the criterion is a mean of losses, not a binned error."""
        return self.criterion in ("nll", "focal")

    def __call__(self, points: Sequence[tuple[float, Sequence[float]]]) -> list[Floats]:
        """Return, for each ``(temperature, gammas)``, criterion and mean confidence ``[2, G]``.

        The mean confidence is nan for a loss, which does not need it.
        """
        tasks = [
            (temperature, gammas[i : i + self.batch])
            for temperature, gammas in points
            for i in range(0, len(gammas), self.batch)
        ]
        parts = list(self.workers.map(self._evaluate, tasks))
        out, at = [], 0
        for _, gammas in points:
            n_parts = -(-len(gammas) // self.batch)
            out.append(np.concatenate(parts[at : at + n_parts], axis=1))
            at += n_parts
        return out

    def _evaluate(self, task: tuple[float, Sequence[float]], space: Workspace) -> Floats:
        temperature, gammas = task
        tempered = self.rows.at(temperature, gammas, space)
        measure = self._loss if self.is_loss else self._binned
        return np.array(
            [measure(tempered, i, gamma, temperature) for i, gamma in enumerate(gammas)]
        ).T

    def _loss(
        self, tempered: TemperedRows, index: int, gamma: float, temperature: float
    ) -> tuple[float, float]:
        loss = tempered.log_loss(index, gamma, self.rows.log_odds_true(temperature))
        if self.focal_gamma:
            loss *= (-np.expm1(-loss)) ** self.focal_gamma
        return float(loss.mean()), np.nan

    def _binned(
        self, tempered: TemperedRows, index: int, gamma: float, temperature: float
    ) -> tuple[float, float]:
        error = equal_width_error if self.criterion == "ece" else equal_mass_error
        confidence = tempered.confidence(index, gamma)
        mean = float(confidence.mean())
        return error(confidence, self.rows.correct, self.n_bins), mean


def whole_grid(
    evaluate: GridEvaluator, gammas: Sequence[float], temperatures: Sequence[float]
) -> GridValues:
    """Evaluate every point."""
    columns = evaluate([(t, gammas) for t in temperatures])
    values = np.stack([column[0] for column in columns], axis=1)
    return GridValues(tuple(gammas), tuple(temperatures), values)


def minimum_of_grid(
    evaluate: GridEvaluator, gammas: Sequence[float], temperatures: Sequence[float]
) -> GridValues:
    r"""Evaluate only points that can be the minimum; the first minimum is among them.

    Starting from every `COARSE_STEP`-th temperature, intervals are halved where they may hold
    the minimum.

    - Binned errors: by the triangle inequality
      :math:`|\overline{\mathrm{conf}} - \mathrm{acc}| \le \mathrm{ECE}` for any bins, and the
      mean confidence runs between its values at the interval's ends (it falls with the
      temperature; `SLACK` allows for exceptions). An interval whose mean confidences all miss
      the accuracy by more than the best value so far is left out.
    - Losses: intervals beside a local minimum of the points known so far. For ``gamma = 0``
      the log loss is convex in :math:`1/T` and this is exact; for other gammas it is assumed to
      have no second minimum narrower than the coarse step.
    """
    order = np.argsort(np.asarray(temperatures), kind="stable")
    ordered = [temperatures[i] for i in order]
    known = np.full((2, len(gammas), len(ordered)), np.nan)
    is_wanted = np.zeros(known.shape[1:], dtype=bool)
    is_wanted[:, ::COARSE_STEP] = is_wanted[:, -1] = True
    select = _near_minima if evaluate.is_loss else _within_reach(evaluate.accuracy)
    while is_wanted.any():
        at = np.flatnonzero(is_wanted.any(axis=0)).tolist()
        picks = [np.flatnonzero(is_wanted[:, t]).tolist() for t in at]
        points = [(ordered[t], [gammas[g] for g in p]) for t, p in zip(at, picks, strict=True)]
        for t, p, result in zip(at, picks, evaluate(points), strict=True):
            known[:, p, t] = result
        is_wanted[:] = False
        for g in range(len(gammas)):
            nodes = np.flatnonzero(np.isfinite(known[0, g]))
            is_open = select(known[:, g, nodes], float(np.nanmin(known[0])))
            middle = (nodes[:-1] + nodes[1:]) // 2
            is_wanted[g, middle[is_open & (np.diff(nodes) > 1)]] = True
    values = np.empty_like(known[0])
    values[:, order] = known[0]
    return GridValues(tuple(gammas), tuple(temperatures), values)


def _within_reach(accuracy: float) -> Callable[[Floats, float], NDArray[np.bool_]]:
    def select(known: Floats, best: float) -> NDArray[np.bool_]:
        ends = np.sort(np.stack([known[1, :-1], known[1, 1:]]), axis=0)
        slack = SLACK * (ends[1] - ends[0]) + best + 1e-12
        is_open: NDArray[np.bool_] = (ends[0] - slack <= accuracy) & (accuracy <= ends[1] + slack)
        return is_open

    return select


def _near_minima(known: Floats, best: float) -> NDArray[np.bool_]:
    loss = np.concatenate([[np.inf], known[0], [np.inf]])
    is_low = (loss[1:-1] <= loss[:-2]) & (loss[1:-1] <= loss[2:])
    is_open: NDArray[np.bool_] = is_low[:-1] | is_low[1:]
    return is_open
