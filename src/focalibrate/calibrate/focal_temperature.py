"""Focal temperature scaling: fits of gamma and temperature together."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from focalibrate._array import Array
from focalibrate._check import check_choice, check_n_bins
from focalibrate.calibrate._engine.blocks import Workers
from focalibrate.calibrate._engine.grid import (
    GridEvaluator,
    GridValues,
    minimum_of_grid,
    whole_grid,
)
from focalibrate.calibrate._engine.joint import (
    minima_of_parts,
    minimise_jointly,
)
from focalibrate.calibrate._engine.joint_descent import JointMinimum
from focalibrate.calibrate._input import ScoredRows, read_scores
from focalibrate.calibrate._settings import (
    FINE_TEMPERATURES,
    FOCAL_GAMMAS,
    read_gammas,
    read_temperatures,
)
from focalibrate.calibrate.compressed import CompressedLogits, read_rows
from focalibrate.calibrate.fit_report import FitReport, warn
from focalibrate.calibrate.parametric import FocalTemperatureScaling
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.temperature import quiet_temperature, share_temperatures

FocalTemperatureCriterion = Literal["adaptive_ece", "ece", "nll"]
Search = Literal["full", "line", "continuous"]

LINE_POINTS = 101
"""Points looked at along the line, at most as many as there are temperatures."""
FEW_ENTRIES = 40_000
"""Up to this many logits every part is fitted by itself, as its minimum may be elsewhere."""
CONTINUOUS_GAMMAS = (-1.0, 20.0)
"""Range of gamma in the continuous search unless `gammas` give another."""


@overload
def fit_focal_temperature(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    criterion: FocalTemperatureCriterion = ...,
    search: Search = ...,
    gammas: Sequence[float] | None = ...,
    temperatures: Sequence[float] | None = ...,
    n_bins: int = ...,
    return_report: Literal[False] = ...,
) -> FocalTemperatureScaling: ...


@overload
def fit_focal_temperature(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    criterion: FocalTemperatureCriterion = ...,
    search: Search = ...,
    gammas: Sequence[float] | None = ...,
    temperatures: Sequence[float] | None = ...,
    n_bins: int = ...,
    return_report: Literal[True],
) -> tuple[FocalTemperatureScaling, FitReport]: ...


def fit_focal_temperature(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    criterion: FocalTemperatureCriterion = "adaptive_ece",
    search: Search = "full",
    gammas: Sequence[float] | None = None,
    temperatures: Sequence[float] | None = None,
    n_bins: int = 15,
    return_report: bool = False,
) -> FocalTemperatureScaling | tuple[FocalTemperatureScaling, FitReport]:
    r"""Fit gamma and T of :math:`\Psi_\gamma(\operatorname{softmax}(z/T))` to validation data.

    - ``search="full"``: the first minimum, gamma by gamma, of the whole grid.
    - ``search="line"``: the best T is close to linear in gamma. T is fitted at the least and
      the largest gamma, then gamma moves along the line between them: at most three times as
      many evaluations as there are temperatures, however many gammas.
    - ``search="continuous"``: by log loss, gamma and T free.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1. -inf marks an impossible class. Memory maps are read block by
            block.
        labels: class indices ``[N]``, never of an impossible class.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        criterion: ``"adaptive_ece"`` (bins of equal mass, as in the paper), ``"ece"`` or
            ``"nll"``; the continuous search needs ``"nll"``.
        search: see above.
        gammas: exponents ``>= -1``, in order; for the line and the continuous search their
            range counts. Default: the paper's ten; continuous: -1 to 20.
        temperatures: grid, in order. Default: 0.01 to 5 by 0.01; not for the continuous search.
        n_bins: number of bins of the binned criteria.
        return_report: also return a `FitReport`; ``"full"`` then evaluates the whole grid,
            which otherwise is skipped where it cannot hold the minimum.

    Returns:
        `FocalTemperatureScaling`.

    Numerics:
        With more classes than about 440 (in float32) rows are compressed once into 48 atoms
        (`CompressedLogits`), which keeps confidences to about 1e-5; otherwise exact. On large
        single-precision data binned criteria are looked at in float32 first, and again in
        float64 at every point that may be the minimum: values far from the minimum are within
        1e-6, or a row in another bin, of exact. Grid points are skipped by the bound ``|mean
        confidence - accuracy| <= ECE``, never by guess, so the result is that of the whole grid.
        Deterministic.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((4000, 5))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> fit_focal_temperature(2.0 * truth, labels, criterion="nll").describe()
        'focal temperature scaling: gamma=0, T=1.97'

    References:
        Komisarenko & Kull (2024), Sec. 5 (grid) and 5.2 (line).
    """
    check_choice(criterion, ("adaptive_ece", "ece", "nll"), name="criterion")
    check_choice(search, ("full", "line", "continuous"), name="search")
    check_n_bins(n_bins)
    given = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    if search == "continuous":
        found, report = _fit_continuous(given, criterion, gammas, temperatures)
    else:
        grid = (
            FOCAL_GAMMAS if gammas is None else read_gammas(gammas),
            FINE_TEMPERATURES if temperatures is None else read_temperatures(temperatures),
        )
        rows = read_rows(given)
        with Workers() as workers:
            evaluate = GridEvaluator(rows, criterion, n_bins, workers)
            if search == "line":
                found, report = _fit_on_line(evaluate, *grid)
            else:
                find = whole_grid if return_report else minimum_of_grid
                (values,) = find(evaluate, *grid)
                found, report = _first_minimum(rows, criterion, values)
    if report.at_bound:
        _warn_of_edge(found)
    found = given.stamp(found)
    return (found, report) if return_report else found


def cross_fit_focal_temperature(
    parts: Parts,
    *,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    n_bins: int = 15,
) -> list[FocalTemperatureScaling]:
    """Return what `fit_focal_temperature` with these options finds on each of several parts.

    What a row has at a grid point is computed once, whichever parts it is in; which points are
    looked at and what is best there, each part decides by its own rows.

    Args:
        parts: the rows of each fit. Warnings are those of the first.
        criterion: see `fit_focal_temperature`.
        n_bins: number of bins.
    """
    rows = read_rows(parts.rows)
    with Workers() as workers:
        evaluate = GridEvaluator(rows, criterion, n_bins, workers, parts=parts.index)
        grids = minimum_of_grid(evaluate, FOCAL_GAMMAS, FINE_TEMPERATURES)
    found = [_first_minimum(rows, criterion, grid) for grid in grids]
    if found[0][1].at_bound:
        _warn_of_edge(found[0][0])
    return [calibrator for calibrator, _ in found]


def cross_fit_continuous(parts: Parts) -> list[FocalTemperatureScaling]:
    """Return the minimum of the log loss over gamma and T on each of several parts.

    The first part is fitted as `fit_focal_temperature` does; the others have their minimum
    nearby. A part whose minimum is not is fitted by itself.

    Args:
        parts: the rows of each fit. Warnings are those of the first.
    """
    share_temperatures(parts)
    whole, report = _fit_continuous(parts[0], "nll", None, None)
    if report.at_bound:
        _warn_of_edge(whole)
    steps: list[FocalTemperatureScaling | None] = [None] * (len(parts) - 1)
    bounds = (min(CONTINUOUS_GAMMAS), max(CONTINUOUS_GAMMAS))
    is_at_gamma = whole.gamma in bounds
    is_large = parts.rows.logits.size > FEW_ENTRIES
    if is_large and report.converged and (is_at_gamma or not report.at_bound):
        with Workers() as workers:
            evaluate = GridEvaluator(read_rows(parts.rows), "nll", 1, workers)
            at = (whole.gamma, whole.temperature)
            steps = [
                None if x is None else FocalTemperatureScaling(*x)
                for x in minima_of_parts(evaluate, parts.index[1:], *at, bounds)
            ]
    found = [whole]
    for i, step in enumerate(steps, start=1):
        found.append(step or _fit_continuous(parts[i], "nll", None, None)[0])
    return found


def _warn_of_edge(found: FocalTemperatureScaling) -> None:
    warn(
        f"The best parameters, {found.describe()}, are at the edge of the range searched: the "
        "criterion still falls there. If every row is right, fit on harder data; if classes are "
        "masked by large finite logits, mask them with -inf; otherwise pass `gammas` or "
        "`temperatures` that reach further."
    )


def _report(rows: CompressedLogits, **parts: Any) -> FitReport:
    return FitReport(
        method=FocalTemperatureScaling.kind, n_rows=rows.n_rows, n_classes=rows.n_classes, **parts
    )


def _first_minimum(
    rows: CompressedLogits, criterion: str, grid: GridValues
) -> tuple[FocalTemperatureScaling, FitReport]:
    g, t = grid.argmin()
    found = FocalTemperatureScaling(grid.gammas[g], grid.temperatures[t])
    return found, _report(
        rows,
        criterion=criterion,
        value=float(grid.values[g, t]),
        n_evaluations=grid.n_evaluations,
        at_bound=grid.is_at_edge(found.temperature, found.gamma),
        gammas=grid.gammas,
        temperatures=grid.temperatures,
        grid=grid.values,
    )


def _fit_on_line(
    evaluate: GridEvaluator, gammas: tuple[float, ...], temperatures: tuple[float, ...]
) -> tuple[FocalTemperatureScaling, FitReport]:
    ends = tuple(sorted({min(gammas), max(gammas)}))
    (anchors,) = minimum_of_grid(evaluate, ends, temperatures)
    best = [temperatures[int(np.nanargmin(row))] for row in anchors.values]
    n_points = min(LINE_POINTS, len(temperatures))
    line = np.linspace(ends[0], ends[-1], n_points)
    along = np.interp(line, ends, best)
    points = [(float(t), (float(g),)) for g, t in zip(line, along, strict=True)]
    values = np.array([result[0, 0, 0] for result in evaluate(points)])
    i = int(np.argmin(values))
    found = FocalTemperatureScaling(float(line[i]), float(along[i]))
    return found, _report(
        evaluate.rows,
        criterion=evaluate.criterion,
        value=float(values[i]),
        n_evaluations=anchors.n_evaluations + n_points,
        at_bound=anchors.is_at_edge(found.temperature, found.gamma),
        gammas=ends,
        temperatures=temperatures,
        grid=anchors.values,
    )


def _fit_continuous(
    given: ScoredRows,
    criterion: str,
    gammas: Sequence[float] | None,
    temperatures: Sequence[float] | None,
) -> tuple[FocalTemperatureScaling, FitReport]:
    if criterion != "nll":
        raise ValueError(
            f"`criterion` must be 'nll' for search='continuous', got {criterion!r}: binned errors "
            "jump. Use search='full' or search='line' for them."
        )
    if temperatures is not None:
        raise ValueError(
            "`temperatures` must be left out for search='continuous', which tries every T > 0."
        )
    bounds = CONTINUOUS_GAMMAS if gammas is None else read_gammas(gammas)
    rows = read_rows(given)
    start, plain = quiet_temperature(given)
    best = JointMinimum(0.0, start, plain.value, True, True, 1)
    if not plain.at_bound:
        with Workers() as workers:
            evaluate = GridEvaluator(rows, "nll", 1, workers)
            best = minimise_jointly(evaluate, start, (min(bounds), max(bounds)))
    found = FocalTemperatureScaling(best.gamma, best.temperature)
    return found, _report(
        rows,
        criterion="nll",
        value=best.loss,
        n_evaluations=best.n_evaluations,
        converged=best.converged,
        at_bound=best.at_bound,
    )


def quiet_focal_temperature(rows: ScoredRows) -> tuple[float, float]:
    """Return gamma and T of the lowest log loss, without a warning at a bound."""
    found, _ = _fit_continuous(rows, "nll", None, None)
    return found.gamma, found.temperature
