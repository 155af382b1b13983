"""Temperature scaling."""

from collections.abc import Sequence
from typing import Literal, overload

import numpy as np

from focalibrate._array import Array
from focalibrate._check import check_choice, check_gamma, check_n_bins
from focalibrate.calibrate._engine.blocks import Workers
from focalibrate.calibrate._engine.descent import Minimum, minima_nearby, minimise
from focalibrate.calibrate._engine.grid import GridEvaluator, minimum_of_grid, whole_grid
from focalibrate.calibrate._engine.passes import LogitPasses, focal_loss_sums, log_loss_sums
from focalibrate.calibrate._input import ScoredRows, read_scores
from focalibrate.calibrate._settings import COARSE_TEMPERATURES, read_temperatures
from focalibrate.calibrate.compressed import read_rows
from focalibrate.calibrate.fit_report import FitReport, warn
from focalibrate.calibrate.parametric import FocalLossTemperature, TemperatureScaling
from focalibrate.calibrate.parts import Parts

TemperatureCriterion = Literal["nll", "ece", "adaptive_ece", "focal"]
TemperatureCalibrator = TemperatureScaling | FocalLossTemperature

KNOWN = "temperature"
"""Key under which rows keep their temperature."""


@overload
def fit_temperature(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    criterion: TemperatureCriterion = ...,
    gamma: float | None = ...,
    temperatures: Sequence[float] | None = ...,
    n_bins: int = ...,
    return_report: Literal[False] = ...,
) -> TemperatureCalibrator: ...


@overload
def fit_temperature(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    criterion: TemperatureCriterion = ...,
    gamma: float | None = ...,
    temperatures: Sequence[float] | None = ...,
    n_bins: int = ...,
    return_report: Literal[True],
) -> tuple[TemperatureCalibrator, FitReport]: ...


def fit_temperature(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    criterion: TemperatureCriterion = "nll",
    gamma: float | None = None,
    temperatures: Sequence[float] | None = None,
    n_bins: int = 15,
    return_report: bool = False,
) -> TemperatureCalibrator | tuple[TemperatureCalibrator, FitReport]:
    r"""Fit the temperature of :math:`\operatorname{softmax}(z/T)` to validation data.

    .. math:: T = \arg\min_T \frac1N \sum_i \ell(\operatorname{softmax}(z_i/T), y_i)

    By log loss the problem is convex in :math:`1/T` and has one optimum; by ECE the first
    minimum of a grid is taken; by focal loss the temperature is meant to be followed by
    :math:`\Psi_\gamma`, which the calibrator returned does.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1. -inf marks an impossible class. Memory maps are read block by
            block.
        labels: class indices ``[N]``, never of an impossible class.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        criterion: ``"nll"``, ``"ece"`` (bins of equal width), ``"adaptive_ece"`` (of equal
            mass) or ``"focal"``.
        gamma: the exponent ``>= 0`` of ``criterion="focal"``; not allowed otherwise.
        temperatures: grid to search, in order. Default: none for ``"nll"`` and ``"focal"``,
            which are minimised continuously; 0.1 to 10 by 0.1 for the others.
        n_bins: number of bins of the binned criteria.
        return_report: also return a `FitReport`, with the criterion on the whole grid.

    Returns:
        `TemperatureScaling`, or `FocalLossTemperature` for ``criterion="focal"``.

    Numerics:
        Continuous: Newton with derivatives up to the fourth on cache-sized blocks, in float64
        (float32 for large single-precision logits); within 1e-6 of the optimum, relative. The
        search starts within a factor 1000 of the median gap between a row's top two logits and
        moves on while the sign of the slope says so; finite masks (-1e9) do not move it. If
        every row is right, or no temperature beats the uniform distribution, the loss has no
        minimum, and the result is that bound, with a warning. Deterministic, whatever the
        number of threads.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((4000, 5))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> fit_temperature(3.0 * truth, labels).describe()
        'temperature scaling: T=2.957'

    References:
        Guo et al. (2017); Mukhoti et al. (2020), App. C (grid of 0.1); Charoenphakdee et al.
        (2021), Sec. 6 (focal loss).
    """
    check_choice(criterion, ("nll", "ece", "adaptive_ece", "focal"), name="criterion")
    check_n_bins(n_bins)
    _check_gamma_is_for_focal(criterion, gamma)
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    if temperatures is None and criterion in ("nll", "focal"):
        found, report = _fit_continuous(rows, gamma)
    else:
        grid = COARSE_TEMPERATURES if temperatures is None else read_temperatures(temperatures)
        found, report = _fit_on_grid(rows, criterion, gamma, grid, n_bins, whole=return_report)
    if report.at_bound:
        warn(
            f"The best temperature, {found.temperature:g}, is at the edge of the range searched: "
            "the criterion still falls there. If every row is right, fit on harder data; if "
            "classes are masked by large finite logits, mask them with -inf; otherwise pass "
            "`temperatures` that reach further."
        )
    found = rows.stamp(found)
    return (found, report) if return_report else found


def quiet_temperature(rows: ScoredRows) -> tuple[float, FitReport]:
    """Return the temperature of the lowest log loss and its report; no warning at a bound."""
    found, report = _fit_continuous(rows, None)
    return found.temperature, report


def share_temperatures(parts: Parts) -> None:
    """Find the temperature of every part: all but the first from one pass that they share.

    `quiet_temperature` and the fits of single parts then know it.
    """
    if all(KNOWN in parts.known(i) for i in range(len(parts))):
        return
    _, whole = quiet_temperature(parts[0])
    temperature = parts.known(0)[KNOWN][0].temperature
    if len(parts) == 1 or whole.at_bound or not whole.converged:
        return
    rows = parts.rows
    weights = np.stack([parts.row_weights(i) for i in range(1, len(parts))], axis=1)
    with Workers() as workers:
        passes = LogitPasses(rows.logits, rows.labels, workers)
        found = minima_nearby(passes, log_loss_sums, temperature, weights)
    for i, best in enumerate(found, start=1):
        if best is not None:
            n_rows = int(np.count_nonzero(weights[:, i - 1]))
            parts.known(i)[KNOWN] = _reported(best, None, n_rows, rows.n_classes)


def cross_fit_temperature(parts: Parts) -> list[TemperatureCalibrator]:
    """Return the temperature scaling of each part. Warnings are those of the first."""
    share_temperatures(parts)
    found: list[TemperatureCalibrator] = [fit_temperature(parts[0])]
    for i in range(1, len(parts)):
        known = parts.known(i)  # looked up first: taking a part of large data copies most of it
        found.append(known[KNOWN][0] if KNOWN in known else _fit_continuous(parts[i], None)[0])
    return found


def _check_gamma_is_for_focal(criterion: str, gamma: float | None) -> None:
    if criterion == "focal" and gamma is None:
        raise ValueError(
            "`gamma` must be given for criterion='focal', got None. Pass the training gamma."
        )
    if criterion != "focal" and gamma is not None:
        raise ValueError(
            f"`gamma` must be left out for criterion={criterion!r}, got {gamma!r}. For a "
            "temperature with a gamma use `fit_focal_temperature`."
        )
    if gamma is not None:
        check_gamma(gamma)


def _calibrator(temperature: float, gamma: float | None) -> TemperatureCalibrator:
    if gamma is None:
        return TemperatureScaling(temperature)
    return FocalLossTemperature(float(gamma), temperature)


def _fit_continuous(
    rows: ScoredRows, gamma: float | None
) -> tuple[TemperatureCalibrator, FitReport]:
    if gamma is None and KNOWN in rows.known:
        known: tuple[TemperatureCalibrator, FitReport] = rows.known[KNOWN]
        return known
    kernel = log_loss_sums if gamma is None else focal_loss_sums(gamma)
    with Workers() as workers:
        passes = LogitPasses(rows.logits, rows.labels, workers, weights=rows.weights)
        best = minimise(passes, kernel, is_convex=gamma is None)
    found = _reported(best, gamma, rows.n_rows, rows.n_classes)
    if gamma is None:
        rows.known[KNOWN] = found
    return found


def _reported(
    best: Minimum, gamma: float | None, n_rows: int, n_classes: int
) -> tuple[TemperatureCalibrator, FitReport]:
    found = _calibrator(best.temperature, gamma)
    return found, FitReport(
        method=found.kind,
        criterion="nll" if gamma is None else "focal",
        value=best.loss,
        n_rows=n_rows,
        n_classes=n_classes,
        n_evaluations=best.n_evaluations,
        converged=best.converged,
        at_bound=best.at_bound,
    )


def _fit_on_grid(
    given: ScoredRows,
    criterion: TemperatureCriterion,
    gamma: float | None,
    temperatures: tuple[float, ...],
    n_bins: int,
    *,
    whole: bool,
) -> tuple[TemperatureCalibrator, FitReport]:
    rows = read_rows(given)
    with Workers() as workers:
        evaluate = GridEvaluator(rows, criterion, n_bins, workers, focal_gamma=gamma or 0.0)
        search = whole_grid if whole else minimum_of_grid
        (grid,) = search(evaluate, (0.0,), temperatures)
    g, t = grid.argmin()
    found = _calibrator(temperatures[t], gamma)
    return found, FitReport(
        method=found.kind,
        criterion=criterion,
        value=float(grid.values[g, t]),
        n_rows=rows.n_rows,
        n_classes=rows.n_classes,
        n_evaluations=grid.n_evaluations,
        at_bound=grid.is_at_edge(temperatures[t]),
        temperatures=temperatures,
        grid=grid.values,
    )
