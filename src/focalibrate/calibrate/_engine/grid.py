r"""Criteria on a grid of gammas and temperatures: all of it, or only where the minimum can be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._engine.binned import equal_mass_error, equal_width_error, weighted_mean
from focalibrate.calibrate._engine.blocks import Workers, Workspace
from focalibrate.calibrate._engine.recovery import TemperedRows
from focalibrate.calibrate.compressed import CompressedLogits

RowIndex = NDArray[np.intp] | slice
"""Rows that one fit may see."""
GridCriterion = Literal["nll", "focal", "ece", "adaptive_ece"]

COARSE_STEP = 64
"""Step, in temperatures, of the coarse search before it narrows."""
SLACK = 0.25
"""How far, in shares of its change over an interval, the mean confidence may leave it."""
BUFFER_SHARE = 0.1
BUFFER_FLOOR = 2**20
"""Vectors of all rows may take this share of the logits' memory, or this many bytes."""
SCREEN_ABOVE = 2**17
"""Entries above which single-precision rows are looked at in float32 first."""
SCREEN_LEAST_GAMMA = -0.5
"""For lower gammas sums that float32 cannot hold matter still."""
SCREEN_ERROR, SCREEN_SWAPS = 2e-6, 4.0
"""What float32 may be off by: rounding, and this many rows on the wrong side of a bin's edge."""


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
        """Return whether a parameter is the least or the largest of several tried."""

        def is_end(value: float, tried: tuple[float, ...]) -> bool:
            return min(tried) < max(tried) and value in (min(tried), max(tried))

        return is_end(temperature, self.temperatures) or (
            gamma is not None and is_end(gamma, self.gammas)
        )


class GridEvaluator:
    """Evaluates one criterion at grid points; temperatures are shared out to threads.

    Several fits to parts of the same rows, such as those of a cross-fit, share what each row
    has at a grid point; their criteria are their own.

    Args:
        rows: the validation rows.
        criterion: mean log loss or focal loss, ECE on bins of equal width or of equal mass.
        n_bins: number of bins.
        workers: threads.
        focal_gamma: exponent of the focal loss; 0, and it is the log loss.
        parts: the rows of each fit, P of them. Default: one fit to all rows.
    """

    def __init__(
        self,
        rows: CompressedLogits,
        criterion: GridCriterion,
        n_bins: int,
        workers: Workers,
        *,
        focal_gamma: float = 0.0,
        parts: Sequence[RowIndex] = (slice(None),),
    ) -> None:
        self.rows = rows
        self.criterion = criterion
        self.n_bins = n_bins
        self.focal_gamma = focal_gamma
        self.workers = workers
        self.parts = parts
        self.correct = [rows.correct[part] for part in parts]
        self.weights = [None if rows.counts is None else rows.counts[part] for part in parts]
        self.accuracies = [
            weighted_mean(correct, weights)
            for correct, weights in zip(self.correct, self.weights, strict=True)
        ]
        logit_bytes = rows.n_rows * rows.n_classes * 4
        budget = max(BUFFER_FLOOR, BUFFER_SHARE * logit_bytes)
        self.batch = max(1, int(budget / (8 * rows.n_rows * workers.n_threads)) - 3)

    @property
    def is_loss(self) -> bool:
        """Whether the criterion is a mean of losses, not a binned error."""
        return self.criterion in ("nll", "focal")

    def can_screen(self, gammas: Sequence[float]) -> bool:
        """Return whether a first look in float32 saves time and finds the minimum's neighbours."""
        atoms = self.rows.atoms
        is_large = atoms.size > SCREEN_ABOVE and atoms.dtype.itemsize <= 4
        return is_large and not self.is_loss and min(gammas) >= SCREEN_LEAST_GAMMA

    @property
    def screen_error(self) -> float:
        """How far a binned error in float32 may be from that in float64."""
        shares = [
            1.0 / len(correct) if weights is None else float(weights.max() / weights.sum())
            for correct, weights in zip(self.correct, self.weights, strict=True)
        ]
        return SCREEN_ERROR + SCREEN_SWAPS * max(shares)

    def __call__(
        self, points: Sequence[tuple[float, Sequence[float]]], *, dtype: Any = np.float64
    ) -> list[Floats]:
        """Return, for each ``(temperature, gammas)``, criterion and mean confidence ``[P, 2, G]``.

        The mean confidence is nan for a loss, which does not need it.
        """
        tasks = [
            (temperature, gammas[i : i + self.batch], dtype)
            for temperature, gammas in points
            for i in range(0, len(gammas), self.batch)
        ]
        found = list(self.workers.map(self._evaluate, tasks))
        out, at = [], 0
        for _, gammas in points:
            n_tasks = -(-len(gammas) // self.batch)
            out.append(np.concatenate(found[at : at + n_tasks], axis=2))
            at += n_tasks
        return out

    def _evaluate(self, task: tuple[float, Sequence[float], Any], space: Workspace) -> Floats:
        temperature, gammas, dtype = task
        tempered = self.rows.at(temperature, gammas, space, dtype=dtype)
        measure = self._losses if self.is_loss else self._binned
        return np.stack(
            [measure(tempered, i, gamma, temperature) for i, gamma in enumerate(gammas)], axis=-1
        )

    def _losses(
        self, tempered: TemperedRows, index: int, gamma: float, temperature: float
    ) -> Floats:
        loss = tempered.log_loss(index, gamma, self.rows.log_odds_true(temperature))
        if self.focal_gamma:
            loss *= (-np.expm1(-loss)) ** self.focal_gamma
        return np.array(
            [
                (weighted_mean(loss[part], weights), np.nan)
                for part, weights in zip(self.parts, self.weights, strict=True)
            ]
        )

    def _binned(
        self, tempered: TemperedRows, index: int, gamma: float, temperature: float
    ) -> Floats:
        error = equal_width_error if self.criterion == "ece" else equal_mass_error
        confidence = tempered.confidence(index, gamma)
        return np.array(
            [
                (
                    error(confidence[part], correct, self.n_bins, weights=weights),
                    weighted_mean(confidence[part], weights),
                )
                for part, correct, weights in zip(
                    self.parts, self.correct, self.weights, strict=True
                )
            ]
        )


def whole_grid(
    evaluate: GridEvaluator, gammas: Sequence[float], temperatures: Sequence[float]
) -> list[GridValues]:
    """Evaluate every point, for each part.

    Where float32 is enough for all but the minimum, points near it are evaluated again.
    """
    dtype = np.float32 if evaluate.can_screen(gammas) else np.float64
    columns = evaluate([(t, gammas) for t in temperatures], dtype=dtype)
    values = np.stack([column[:, 0] for column in columns], axis=2)
    if dtype == np.float32:
        _look_again(evaluate, values, gammas, temperatures)
    return [GridValues(tuple(gammas), tuple(temperatures), part) for part in values]


def minimum_of_grid(
    evaluate: GridEvaluator, gammas: Sequence[float], temperatures: Sequence[float]
) -> list[GridValues]:
    r"""Evaluate only points that can be the minimum of a part; its first minimum is among them.

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
    known = np.full((len(evaluate.parts), 2, len(gammas), len(ordered)), np.nan)
    is_wanted = np.zeros(known.shape[2:], dtype=bool)
    is_wanted[:, ::COARSE_STEP] = is_wanted[:, -1] = True
    screens = evaluate.can_screen(gammas)
    spare = evaluate.screen_error if screens else 1e-12
    while is_wanted.any():
        _look(evaluate, known, is_wanted, gammas, ordered, np.float32 if screens else np.float64)
        is_wanted[:] = False
        for part, accuracy in zip(known, evaluate.accuracies, strict=True):
            select = _near_minima if evaluate.is_loss else _within_reach(accuracy)
            best = float(np.nanmin(part[0])) + spare
            for g in range(len(gammas)):
                nodes = np.flatnonzero(np.isfinite(part[0, g]))
                is_open = select(part[:, g, nodes], best)
                middle = (nodes[:-1] + nodes[1:]) // 2
                is_wanted[g, middle[is_open & (np.diff(nodes) > 1)]] = True
        is_wanted &= np.isnan(known[0, 0])
    if screens:
        _look_again(evaluate, known[:, 0], gammas, ordered)
    values = np.empty_like(known[:, 0])
    values[:, :, order] = known[:, 0]
    return [GridValues(tuple(gammas), tuple(temperatures), part) for part in values]


def _look(
    evaluate: GridEvaluator,
    known: Floats,
    is_wanted: NDArray[np.bool_],
    gammas: Sequence[float],
    temperatures: Sequence[float],
    dtype: Any,
) -> None:
    """Fill in what is wanted, for all parts: `known` is ``[P, 2, G, M]``."""
    at = np.flatnonzero(is_wanted.any(axis=0)).tolist()
    picks = [np.flatnonzero(is_wanted[:, t]).tolist() for t in at]
    points = [(temperatures[t], [gammas[g] for g in p]) for t, p in zip(at, picks, strict=True)]
    for t, p, result in zip(at, picks, evaluate(points, dtype=dtype), strict=True):
        known[:, :, p, t] = result


def _look_again(
    evaluate: GridEvaluator,
    values: Floats,
    gammas: Sequence[float],
    temperatures: Sequence[float],
) -> None:
    """Replace float32 values ``[P, G, M]`` by exact ones if one may be its part's minimum."""
    least = np.nanmin(values, axis=(1, 2), keepdims=True)
    is_near = (values <= least + 2.0 * evaluate.screen_error).any(axis=0)
    exact = np.full((len(values), 2, *is_near.shape), np.nan)
    _look(evaluate, exact, is_near, gammas, temperatures, np.float64)
    np.copyto(values, exact[:, 0], where=is_near)


def _within_reach(accuracy: float) -> Callable[[Floats, float], NDArray[np.bool_]]:
    def select(known: Floats, best: float) -> NDArray[np.bool_]:
        ends = np.sort(np.stack([known[1, :-1], known[1, 1:]]), axis=0)
        slack = SLACK * (ends[1] - ends[0]) + best
        is_open: NDArray[np.bool_] = (ends[0] - slack <= accuracy) & (accuracy <= ends[1] + slack)
        return is_open

    return select


def _near_minima(known: Floats, best: float) -> NDArray[np.bool_]:
    loss = np.concatenate([[np.inf], known[0], [np.inf]])
    is_low = (loss[1:-1] <= loss[:-2]) & (loss[1:-1] <= loss[2:])
    is_open: NDArray[np.bool_] = is_low[:-1] | is_low[1:]
    return is_open
