r"""Criteria on a grid of gammas and temperatures: all of it, or only where the minimum can be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats, is_array_api_obj, to_numpy
from focalibrate._check import check_gamma
from focalibrate.calibrate.calibrator import Calibrator, check_temperature
from focalibrate.calibrate.focal_rows import CompressedLogits, TemperedRows, weighted_mean
from focalibrate.calibrate.rows import C, Rows, available_cores, in_threads
from focalibrate.metrics.binning import equal_width_edges, equal_width_index
from focalibrate.metrics.cells import Cells

COARSE_STEP = 64
"""Step, in temperatures, of the coarse search before it narrows."""
SLACK = 0.25
"""Between two grid temperatures the mean confidence may lie outside its two values by this share
of their difference."""
BUFFER_SHARE = 0.1
BUFFER_FLOOR = 2**20
"""Vectors of all rows may take this share of the logits' memory, or this many bytes."""


def read_grid(values: Any, *, name: Literal["gammas", "temperatures"]) -> tuple[float, ...]:
    """Return the points of a grid as checked numbers, in the order given."""
    array = to_numpy(values) if is_array_api_obj(values) else np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "fiu":
        raise ValueError(
            f"`{name}` must be a non-empty sequence of numbers, got {values!r}. "
            "Leave it out for the papers' grid."
        )
    grid = tuple(array.astype(np.float64).tolist())
    for value in grid:
        if name == "gammas":
            check_gamma(value, minimum=-1.0, name=name)
        else:
            check_temperature(value, name=name)
    return grid


@dataclass(frozen=True, eq=False)
class Criterion:
    """Mean log loss or focal loss, or ECE on bins of equal width or of equal mass, of rows."""

    rows: CompressedLogits
    name: Literal["nll", "focal", "ece", "adaptive_ece"]
    n_bins: int
    focal_gamma: float = 0.0
    """Exponent of the focal loss; 0, and it is the log loss."""

    @property
    def is_loss(self) -> bool:
        """Whether the criterion is a mean of losses, not a binned error."""
        return self.name in ("nll", "focal")

    def at(self, points: Sequence[tuple[float, Sequence[float]]]) -> list[Floats]:
        """Return, for each ``(temperature, gammas)``, criterion and mean confidence ``[2, G]``.

        The mean confidence is nan for a loss, which does not need it.
        """
        n_bytes = max(BUFFER_FLOOR, BUFFER_SHARE * self.rows.n_rows * self.rows.n_classes * 4)
        batch = max(1, int(n_bytes / (8 * self.rows.n_rows * available_cores())) - 3)
        tasks = [
            (place, temperature, gammas[i : i + batch])
            for place, (temperature, gammas) in enumerate(points)
            for i in range(0, len(gammas), batch)
        ]
        found: list[list[Floats]] = [[] for _ in points]
        for (place, _, _), values in zip(tasks, in_threads(self._evaluate, tasks), strict=True):
            found[place].append(values)
        return [np.concatenate(parts, axis=1) for parts in found]

    def _evaluate(self, task: tuple[int, float, Sequence[float]]) -> Floats:
        _, temperature, gammas = task
        tempered = self.rows.at(temperature, gammas)
        pairs = [self._measure(tempered, i, g, temperature) for i, g in enumerate(gammas)]
        return np.array(pairs).T

    def _measure(
        self, tempered: TemperedRows, index: int, gamma: float, temperature: float
    ) -> tuple[float, float]:
        weights = self.rows.counts
        if self.is_loss:
            loss = tempered.log_loss(index, gamma, self.rows.log_odds_true(temperature))
            if self.focal_gamma:
                loss *= (-np.expm1(-loss)) ** self.focal_gamma
            return weighted_mean(loss, weights), np.nan
        confidence = tempered.confidence(index, gamma)
        if self.name == "ece":
            cell, edges = (
                equal_width_index(confidence, self.n_bins),
                equal_width_edges(self.n_bins),
            )
            cells = Cells.of_index(cell, confidence, self.rows.correct, edges, weights)
        else:
            cells = Cells.of_equal_mass(confidence, self.rows.correct, self.n_bins, weights)
        return float(cells.ece()), weighted_mean(confidence, weights)


def searched(
    criterion: Criterion,
    gammas: Sequence[float],
    temperatures: Sequence[float],
    *,
    whole: bool = False,
) -> Floats:
    r"""Return the `whole` grid ``[G, M]``, or only points that can be its minimum, else nan.

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
    known = np.full((2, len(gammas), len(order)), np.nan)
    is_wanted = np.zeros(known.shape[1:], dtype=bool)
    is_wanted[:, :: 1 if whole else COARSE_STEP] = is_wanted[:, -1] = True
    accuracy = weighted_mean(criterion.rows.correct, criterion.rows.counts)
    select = _near_minima if criterion.is_loss else _within_reach(accuracy)
    while is_wanted.any():
        at = np.flatnonzero(is_wanted.any(axis=0)).tolist()
        picks = [np.flatnonzero(is_wanted[:, t]).tolist() for t in at]
        points = [
            (temperatures[order[t]], [gammas[g] for g in pick])
            for t, pick in zip(at, picks, strict=True)
        ]
        for t, pick, result in zip(at, picks, criterion.at(points), strict=True):
            known[:, pick, t] = result
        is_wanted[:] = False
        best = float(np.nanmin(known[0])) + 1e-12
        for g in range(len(gammas)):
            nodes = np.flatnonzero(np.isfinite(known[0, g]))
            middle = (nodes[:-1] + nodes[1:]) // 2
            is_open = select(known[:, g, nodes], best) & (np.diff(nodes) > 1)
            is_wanted[g, middle[is_open]] = True
    values: Floats = np.empty_like(known[0])
    values[:, order] = known[0]
    return values


def lowest_on_grid(
    rows: Rows,
    criterion: Criterion,
    gammas: Sequence[float],
    temperatures: Sequence[float],
    calibrator: Callable[[float, float], C],
    *,
    whole: bool = False,
) -> C:
    """Return ``calibrator(gamma, temperature)`` of the first minimum, gamma by gamma."""
    values = searched(criterion, gammas, temperatures, whole=whole)
    g, t = divmod(int(np.nanargmin(values)), len(temperatures))
    pairs = ((gammas[g], gammas), (temperatures[t], temperatures))
    found = calibrator(gammas[g], temperatures[t])
    return rows.finish(
        found,
        criterion=criterion.name,
        value=float(values[g, t]),
        n_evaluations=int(np.isfinite(values).sum()),
        at_bound=any(len(set(all_)) > 1 and x in (min(all_), max(all_)) for x, all_ in pairs),
        gammas=tuple(gammas) if found.kind == "focal_temperature" else None,
        temperatures=tuple(temperatures),
        grid=values,
    )


def at_the_edge(found: Calibrator, options: str) -> str:
    """Return a warning that the best fit is at the edge of the range that `options` give."""
    return (
        f"The best fit, {found.describe()}, is at the edge of the range searched: the criterion "
        "still falls there. If every row is right, fit on harder data; if classes are masked by "
        f"large finite logits, mask them with -inf; otherwise pass {options} that reach further."
    )


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
