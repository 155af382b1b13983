"""Fits of gamma and temperature together: by log loss, or by calibration error on a grid."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from focalibrate._array import Array, Floats
from focalibrate._check import check_choice, check_n_bins
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.fit_temperature import lowest_temperature
from focalibrate.calibrate.focal_rows import CompressedLogits, focal_rows, weighted_mean
from focalibrate.calibrate.grid import Criterion, at_the_edge, lowest_on_grid, read_grid
from focalibrate.calibrate.optimise import Minimum, warn
from focalibrate.calibrate.rows import Rows, in_threads, read_given, thin_rows
from focalibrate.calibrate.temperature import FocalTemperatureScaling

FocalTemperatureCriterion = Literal["nll", "ece", "adaptive_ece"]

FINE_TEMPERATURES = tuple(k / 100 for k in range(1, 501))
"""0.01 to 5 by 0.01 (Komisarenko & Kull 2024): the grid of `fit_focal_temperature`."""
FOCAL_GAMMAS: tuple[float, ...] = (-0.5, -0.25, 0.0, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0)
"""The exponents of `fit_focal_temperature` on a grid (Komisarenko & Kull 2024)."""
GAMMA_RANGE = (-1.0, 20.0)
"""Range of gamma by log loss unless `gammas` give another."""
STARTS = ((0.0, 1.0), (4.0, 4.5), (-1.0, 1.1))
"""Gamma, and T in units of that of plain temperature scaling, from which the minimum is sought."""
SAMPLE_ROWS = 1024
"""Minima are first sought on about this many rows."""
REACH = math.log(1e3)
"""Log T stays within this of that of plain temperature scaling."""
STEP = 1e-4
"""Step of the difference quotients in gamma and log T."""
NEARLY = 0.004
"""Minima of the sample up to this much above the lowest are sought on all rows too."""
MAX_NEWTON = 20
FEW_ENTRIES = 2**17
"""Up to this many entries times gammas, threads would take longer to start than to work."""


def fit_focal_temperature(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    criterion: FocalTemperatureCriterion = "nll",
    gammas: Sequence[float] | None = None,
    temperatures: Sequence[float] | None = None,
    n_bins: int = 15,
    whole_grid: bool = False,
    start: Calibrator | None = None,
) -> FocalTemperatureScaling:
    r"""Fit gamma and T of :math:`\Psi_\gamma(\operatorname{softmax}(z/T))` to validation data.

    By log loss both are free. By a calibration error, or where `temperatures` are given, the first
    minimum of a grid is taken, gamma by gamma, as in the paper.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1. -inf marks an impossible class. Memory maps are read block by
            block.
        labels: class indices ``[N]``, never of an impossible class.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        criterion: ``"nll"``, ``"adaptive_ece"`` (bins of equal mass, as in the paper) or
            ``"ece"``.
        gammas: exponents ``>= -1``, in order; by log loss their range counts, -1 to 20 by default.
            Default of a grid: the paper's ten.
        temperatures: grid, in order. Default: none by log loss, else 0.01 to 5 by 0.01.
        n_bins: number of bins of the binned criteria.
        whole_grid: evaluate every point of a grid, for ``calibrator.report.grid``; otherwise
            those are skipped that cannot be the minimum.
        start: gamma and T fitted to similar rows, such as all but another fold.

    Returns:
        `FocalTemperatureScaling`.

    Numerics:
        With more classes than about 440 (in float32) rows are compressed once into 48 atoms
        (`focal_rows`), which keeps confidences to about 1e-5; otherwise exact. By log loss
        the minimum of a sample is sought from several starts, those at gamma = -1 included, and
        polished on all rows by Newton's method with difference quotients. Points of a grid are
        skipped by the bound ``|mean confidence - accuracy| <= ECE``, where the mean confidence
        between two temperatures is taken to lie near its values at both. Deterministic.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((4000, 5))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> fit_focal_temperature(2.0 * truth, labels, criterion="ece").describe()
        'focal temperature scaling: gamma=0, T=1.98'

    References:
        Komisarenko & Kull (2024), Sec. 5.
    """
    check_choice(criterion, ("nll", "ece", "adaptive_ece"), name="criterion")
    check_n_bins(n_bins)
    rows = read_given(logits, labels, probs=probs, sample_weight=sample_weight)
    if criterion == "nll" and temperatures is None:
        bounds = GAMMA_RANGE if gammas is None else read_grid(gammas, name="gammas")
        found = lowest_focal_temperature(rows, (min(bounds), max(bounds)), start)
    else:
        some, grid = FOCAL_GAMMAS, FINE_TEMPERATURES
        if gammas is not None:
            some = read_grid(gammas, name="gammas")
        if temperatures is not None:
            grid = read_grid(temperatures, name="temperatures")
        measure = Criterion(focal_rows(rows), criterion, n_bins)
        found = lowest_on_grid(
            rows, measure, some, grid, FocalTemperatureScaling, whole=whole_grid
        )
    if found.report and found.report.at_bound:
        warn(at_the_edge(found, "`gammas` or `temperatures`"))
    return found


def lowest_focal_temperature(
    rows: Rows,
    gammas: tuple[float, float] = GAMMA_RANGE,
    start: Calibrator | None = None,
) -> FocalTemperatureScaling:
    """Return gamma and T of the lowest log loss, without a warning at a bound."""
    plain = lowest_temperature(rows, start=start)
    best, at_bound = Minimum(np.zeros(2), plain.report.value if plain.report else np.nan), True
    if not (plain.report and plain.report.at_bound):
        near = [start] if isinstance(start, FocalTemperatureScaling) else []
        loss = _Loss(focal_rows(rows), plain.temperature, gammas)
        best = _lowest(loss, [(s.gamma, s.temperature / plain.temperature) for s in near])
        at_bound = best.x[0] in gammas or abs(best.x[1]) >= REACH
    temperature = plain.temperature * math.exp(best.x[1])
    return rows.finish(
        FocalTemperatureScaling(float(best.x[0]), temperature), best, at_bound=at_bound
    )


@dataclass(frozen=True, eq=False)
class _Loss:
    """The mean log loss as a function of gamma and log T."""

    rows: CompressedLogits
    temperature: float
    gammas: tuple[float, float]

    def clipped(self, x: Floats) -> Floats:
        """Return the point moved into the range searched."""
        low, high = (self.gammas[0], -REACH), (self.gammas[1], REACH)
        return np.clip(x, low, high)

    def at(self, gammas: Floats, log_ts: Floats) -> Floats:
        """Return the loss at each pair of a temperature and a gamma, ``[T, G]``."""

        def row(log_t: float) -> list[float]:
            temperature = self.temperature * math.exp(log_t)
            tempered = self.rows.at(temperature, gammas.tolist())
            true = self.rows.log_odds_true(temperature)
            return [
                weighted_mean(tempered.log_loss(i, gamma, true), self.rows.counts)
                for i, gamma in enumerate(gammas.tolist())
            ]

        is_large = self.rows.atoms.size * len(gammas) > FEW_ENTRIES
        return np.array(list((in_threads if is_large else map)(row, log_ts.tolist())))

    def expanded(self, x: Floats) -> tuple[float, Floats, Floats]:
        """Return value, gradient and second derivatives, by differences around `x`."""
        low, high = self.gammas
        width = STEP if high - low >= 2 * STEP else 0.5 * (high - low)
        centre = float(np.clip(x[0], low + width, high - width))
        offset = x[0] - centre
        f = self.at(centre + width * np.array([-1.0, 0.0, 1.0]), x[1] + STEP * np.arange(-1.0, 2))
        h = max(width, 1e-300)
        slope = (f[:, 2] - f[:, 0]) / (2 * h)
        bend = (f[:, 2] - 2 * f[:, 1] + f[:, 0]) / h**2
        value = f[:, 1] + offset * slope + 0.5 * offset**2 * bend
        slope = slope + offset * bend
        second = (value[2] - 2 * value[1] + value[0]) / STEP**2
        mixed = (slope[2] - slope[0]) / (2 * STEP)
        gradient = np.array([slope[1], (value[2] - value[0]) / (2 * STEP)])
        return float(value[1]), gradient, np.array([[bend[1], mixed], [mixed, second]])


def _lowest(loss: _Loss, near: list[tuple[float, float]]) -> Minimum:
    """Return the lowest of the minima that are found from `near`, or else from `STARTS`.

    Its `x` is gamma, and log T relative to the plain temperature.
    """
    n_rows = loss.rows.n_rows
    starts = [loss.clipped(np.array([gamma, math.log(ratio)])) for gamma, ratio in near or STARTS]
    if n_rows >= 2 * SAMPLE_ROWS and not near:
        few = loss.rows.take(thin_rows(n_rows, at_most=SAMPLE_ROWS))
        sample = _Loss(few, loss.temperature, loss.gammas)
        seen = [_descend(sample, start, close=1e-4) for start in starts]
        least = min(found.value for found in seen)
        starts = _distinct([found.x for found in seen if found.value <= least + NEARLY])
    found = [_descend(loss, start, close=1e-6 if near else 1e-12) for start in starts]
    return min(found, key=lambda minimum: minimum.value)


def _distinct(points: list[Floats]) -> list[Floats]:
    kept: list[Floats] = []
    for x in points:
        # Gamma to a tenth: along the valley that leads to a minimum the loss is nearly flat.
        if all((np.abs(x - other) / (2.0 + abs(x[0]), 1.0)).max() > 0.1 for other in kept):
            kept.append(x)
    return kept


def _descend(loss: _Loss, x: Floats, *, close: float) -> Minimum:
    """Return a local minimum by Newton's method within the bounds, its steps halved."""
    value, gradient, hessian = loss.expanded(x)
    for step in range(1, MAX_NEWTON + 1):
        move = _newton_step(loss, x, gradient, hessian)
        gain = -float(gradient @ move)
        if gain <= close * max(1.0, value):
            last = loss.clipped(x + move)
            return Minimum(last, min(value, float(loss.at(last[:1], last[1:])[0, 0])), True, step)
        moved = loss.clipped(x + move)
        found = loss.expanded(moved)
        for _ in range(30):
            if found[0] < value - 1e-4 * gain:
                break
            move, gain = 0.4 * move, 0.4 * gain
            moved = loss.clipped(x + move)
            if loss.at(moved[:1], moved[1:])[0, 0] < value - 1e-4 * gain:
                found = loss.expanded(moved)
        else:  # rounding hides what is left to gain
            return Minimum(x, value, True, step)
        x, (value, gradient, hessian) = moved, found
    return Minimum(x, value, False, MAX_NEWTON)


def _newton_step(loss: _Loss, x: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """Return a step downhill, which leaves gamma at a bound that it would cross."""
    # Where the loss is not convex, by the absolute curvature in each direction.
    values, vectors = np.linalg.eigh(hessian)
    step = -vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), 1e-9))
    bounded = loss.clipped(x + step)[0] - x[0]
    if bounded != step[0]:
        curvature = max(float(abs(hessian[1, 1])), 1e-9)
        step = np.array([bounded, -(gradient[1] + hessian[0, 1] * bounded) / curvature])
    most = np.array([2.0 + abs(x[0]), 1.0])
    return np.asarray(step / max(1.0, float((np.abs(step) / most).max())))
