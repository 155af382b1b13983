"""Fits of a temperature: by log loss or focal loss (Newton), or by calibration error (grid)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_choice, check_gamma, check_n_bins
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.focal_rows import focal_rows
from focalibrate.calibrate.grid import Criterion, at_the_edge, lowest_on_grid, read_grid
from focalibrate.calibrate.optimise import Minimum, warn
from focalibrate.calibrate.rows import (
    Rows,
    in_threads,
    read_given,
    row_blocks,
    thin_rows,
    working_precision,
)
from focalibrate.calibrate.temperature import FocalTemperatureScaling, TemperatureScaling

TemperatureCriterion = Literal["nll", "ece", "adaptive_ece", "focal"]
TemperatureCalibrator = TemperatureScaling | FocalTemperatureScaling

COARSE_TEMPERATURES = tuple(k / 10 for k in range(1, 101))
"""0.1 to 10 by 0.1 (Mukhoti et al. 2020): the grid of `fit_temperature` by ECE."""
VANISHED = 800.0
"""exp(-800) is 0: a gap of 800 / beta stands for any larger one, infinite ones included."""
REACH = 1e3
"""T is first looked for within this factor of a typical gap between a row's top two logits."""
MAX_WIDENINGS = 8
"""How often the search moves on by that factor while the slope's sign says there is a minimum."""
PLAIN_SCALE = 1e6
"""Logits of a larger scale, or a smaller than its inverse, are divided by it first."""
LEAST_SCALE = 1e-290
SAMPLE_ROWS = (512, 4096)
"""The search starts on about this many rows, evenly spaced, where there are twice as many."""
MAX_STEPS = 100
N_SCAN = 25
TOLERANCE = {4: 1e-7, 8: 1e-13}
"""Largest relative error left in T, by the size in bytes of the working precision."""


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
    whole_grid: bool = False,
    start: Calibrator | None = None,
) -> TemperatureCalibrator:
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
        whole_grid: evaluate every point of a grid, for ``calibrator.report.grid``; otherwise
            those are skipped that cannot be the minimum.
        start: a temperature fitted to similar rows, such as all but another fold.

    Returns:
        `TemperatureScaling`, or `FocalTemperatureScaling` for ``criterion="focal"``.

    Numerics:
        Continuous: Newton's method, the rows in cache-sized blocks, in float64 (float32 for
        large single-precision logits); within 1e-6 of the optimum, relative. The
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
    rows = read_given(logits, labels, probs=probs, sample_weight=sample_weight)
    if temperatures is None and criterion in ("nll", "focal"):
        found = lowest_temperature(rows, gamma, start)
    else:
        grid = COARSE_TEMPERATURES
        if temperatures is not None:
            grid = read_grid(temperatures, name="temperatures")
        measure = Criterion(focal_rows(rows), criterion, n_bins, focal_gamma=gamma or 0.0)
        found = lowest_on_grid(
            rows, measure, (0.0,), grid, lambda _, t: _calibrator(t, gamma), whole=whole_grid
        )
    if found.report and found.report.at_bound:
        warn(at_the_edge(found, "`temperatures`"))
    return found


def lowest_temperature(
    rows: Rows, gamma: float | None = None, start: Calibrator | None = None
) -> TemperatureCalibrator:
    """Return the temperature of the lowest log loss, or focal loss; no warning at a bound."""
    best = _minimise(rows, gamma, getattr(start, "temperature", None))
    return rows.finish(
        _calibrator(best.x, gamma), best, criterion="nll" if gamma is None else "focal"
    )


def _calibrator(temperature: float, gamma: float | None) -> TemperatureCalibrator:
    if gamma is None:
        return TemperatureScaling(temperature)
    return FocalTemperatureScaling(float(gamma), temperature)


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


class Block(NamedTuple):
    """Gaps to the top logit of some rows."""

    gaps: NDArray[Any]
    """Shape ``[n, K]``, in the working precision."""
    true_gap: Floats
    """Gap of the label, shape ``[n]``."""
    weights: Floats | None

    def total(self, values: Floats) -> float:
        """Return the weighted sum over the rows."""
        return float(values.sum() if self.weights is None else values @ self.weights)


def _loss_sums(gamma: float | None, block: Block, beta: float) -> Floats:
    r"""Return the sums of the loss and its first two derivatives in :math:`\beta = 1/T`.

    Of the log loss :math:`\ell(\beta) = \log\sum_k e^{-\beta d_k} + \beta d_y` these are
    :math:`d_y` minus the mean of :math:`d` under the softmax, and its variance. Of the focal loss
    :math:`f = (1-p)^\gamma \ell` they follow from :math:`f' = (1-p)^\gamma (1 + \gamma r)` and
    :math:`f'' = \gamma (1-p)^{\gamma-1} p\,(2 - \ell + (\gamma - 1) r)`,
    :math:`r = \ell p / (1-p)`.
    """
    gaps, true_gap = block.gaps, block.true_gap
    e = np.multiply(gaps, -beta)
    np.exp(e, out=e)
    total = (e @ np.ones(e.shape[1], dtype=e.dtype)).astype(np.float64)
    mean = np.vecdot(e, gaps) / total
    e *= gaps
    bend = np.vecdot(e, gaps) / total - mean * mean
    loss, slope = np.log(total) + beta * true_gap, true_gap - mean
    if gamma is None:
        return np.array([block.total(x) for x in (loss, slope, bend)])
    loss = np.maximum(loss, np.finfo(np.float64).tiny)  # where p rounds to 1
    p, rest = np.exp(-loss), -np.expm1(-loss)
    r, power = loss * p / rest, rest**gamma
    first = power * (1.0 + gamma * r)
    second = gamma * power / rest * p * (2.0 - loss + (gamma - 1.0) * r)
    derivatives = power * loss, first * slope, second * slope**2 + first * bend
    return np.array([block.total(x) for x in derivatives])


@dataclass(frozen=True, eq=False)
class _Passes:
    """Rows that are passed over in blocks of gaps, counted in `unit`."""

    rows: Rows
    dtype: Any
    """To work in."""
    gamma: float | None
    """Of the focal loss; None: the log loss."""
    unit: float = 1.0

    def samples(self) -> "list[_Passes]":
        n = self.rows.n_rows
        parts = [thin_rows(n, at_most=size) for size in SAMPLE_ROWS if n >= 2 * size]
        return [replace(self, rows=self.rows.take(part)) for part in parts]

    def loss(self, beta: float) -> list[float]:
        r"""Return the mean loss at :math:`\beta = 1/T` and its first two derivatives there."""

        def sums(block: Block) -> Floats:
            with np.errstate(invalid="ignore", over="ignore"):
                total = _loss_sums(self.gamma, block, beta)
            if not np.isfinite(total).all():
                np.minimum(block.gaps, VANISHED / beta, out=block.gaps)
                total = _loss_sums(self.gamma, block, beta)
            return total

        return self._mean(sums)

    def typical_gap(self) -> float:
        """Return the median gap between a row's two largest different logits, 0 if all are equal.

        A median over rows, as a finite mask (-1e9 for a class ruled out) or a single row of
        another scale would decide any mean.
        """
        found: list[Floats] = []
        for part in row_blocks(self.rows.n_rows, row_bytes=8 * self.rows.n_classes):
            gaps = self._block(part, np.float64).gaps
            gaps[gaps <= 0] = np.inf
            least = gaps.min(axis=-1)
            found.append(least[np.isfinite(least)])
        every = np.concatenate(found)
        return float(np.median(every)) if len(every) else 0.0

    def _mean(self, sums: Callable[[Block], Floats]) -> list[float]:
        weights = self.rows.weights
        blocks = row_blocks(self.rows.n_rows, row_bytes=4 * self.rows.n_classes)
        found = in_threads(lambda part: sums(self._block(part, self.dtype)), blocks)
        total = reduce(np.add, found)
        mass = self.rows.n_rows if weights is None else weights.sum()
        means: list[float] = (total / mass).tolist()
        return means

    def _block(self, part: slice, dtype: Any) -> Block:
        top, true = (values[part] for values in self.rows.ends)
        gaps = np.subtract(top[:, None], self.rows.logits[part], dtype=dtype)
        true_gap = top.astype(np.float64) - true
        if self.unit != 1.0:  # squares of large gaps overflow
            gaps /= self.unit
            true_gap /= self.unit
        weights = None if self.rows.weights is None else self.rows.weights[part]
        return Block(gaps, true_gap, weights)


def _minimise(rows: Rows, gamma: float | None, near: float | None) -> Minimum:
    r"""Return the temperature of the least mean loss, searched over :math:`\beta` by Newton.

    A guess from a sample of the rows is improved on all of them. Signs of the slope seen so far
    bracket the root: a step never leaves the bracket.

    Args:
        rows: the logits.
        gamma: of the focal loss, which is not convex: the sample is scanned for its best
            :math:`\beta` first and the search stays within the scan's step.
        near: a temperature close to the one sought; then no sample is needed.
    """
    rows.check()  # all of them, before a sample is taken
    passes = _Passes(rows, working_precision(rows.logits), gamma)
    scale = (passes.samples() or [passes])[0].typical_gap() or passes.typical_gap()
    if scale == 0:  # every row is constant: the loss does not depend on T
        return Minimum(1.0, passes.loss(1.0)[0], True, 1)
    if scale < LEAST_SCALE:
        raise ValueError(
            f"`logits` must differ by more than {LEAST_SCALE:g} within a row, but they typically "
            f"differ by {scale:.3g}, which has no digits left to scale. Multiply them by 1e200."
        )
    is_separated = np.array_equal(*rows.ends)
    unit = 1.0 if 1.0 / PLAIN_SCALE < scale < PLAIN_SCALE else scale
    passes = replace(passes, unit=unit)
    low, high = unit / scale / REACH, unit / scale * REACH
    first = None if near is None or not low < unit / near < high else unit / near
    for _ in range(1 + MAX_WIDENINGS):
        found = _search(passes, (low, high), first)
        beta = 1.0 / found.x
        is_low, is_high = (bool(np.isclose(beta, end, rtol=1e-9)) for end in (low, high))
        if not (is_low or is_high):
            break
        # At T = inf the loss still falls, or every label is on top: there is no minimum beyond.
        if passes.loss(1e-9 * low)[1] >= 0 if is_low else is_separated:
            found = replace(found, at_bound=True)
            break
        low, high, first = (low / REACH, low, None) if is_low else (high, high * REACH, None)
        # An end shared with the interval before is not a bound of the search.
        low, high = low * (1.0 - 1e-6 * is_high), high * (1.0 + 1e-6 * is_low)
    else:
        found = replace(found, at_bound=True)
    return replace(found, x=unit * found.x)


def _search(passes: _Passes, bounds: tuple[float, float], first: float | None) -> Minimum:
    """Return the minimum within `bounds`."""
    beta, bracket = first or math.sqrt(bounds[0] * bounds[1]), bounds
    samples = passes.samples()
    if passes.gamma is not None:
        grid = np.geomspace(*bounds, N_SCAN)
        sample = samples[-1] if samples else passes
        losses = [sample.loss(float(x))[0] for x in grid]
        best = int(np.flatnonzero(losses == np.min(losses))[-1])  # ties: it underflowed to 0
        beta = float(grid[best])
        bracket = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, N_SCAN - 1)]))
    if first is None:
        for sample in samples:
            beta = 1.0 / _descend(sample, beta, bracket, close=1e-3).x
    return _descend(passes, beta, bracket)


def _descend(
    passes: _Passes, beta: float, bracket: tuple[float, float], *, close: float = 0.0
) -> Minimum:
    low, high = bracket
    tolerance = max(TOLERANCE[np.dtype(passes.dtype).itemsize], close)
    last, push = 0.0, 1.0
    for step in range(1, MAX_STEPS + 1):
        loss, slope, bend = passes.loss(beta)
        low, high = (beta, high) if slope <= 0 else (low, beta)
        move = -slope / bend if bend > 0 else math.copysign(math.inf, -slope)
        ratio = abs(move) / beta
        if low <= beta + move <= high and ratio < 0.5 and ratio**2 <= tolerance:
            value = loss + move * (slope + 0.5 * move * bend)
            return Minimum(1.0 / (beta + move), value, True, step)
        if high <= low * (1.0 + tolerance):
            return Minimum(1.0 / beta, loss, True, step)
        # Steps that do not shrink: the slope dies away, and the root is far, or nowhere.
        push = 2.0 * push if move * last > 0 and abs(move) > 0.5 * abs(last) else 1.0
        last, move = move, push * move
        # By at most a factor of 8; halve the bracket where it is left.
        proposed = min(max(beta + move, beta / 8.0), 8.0 * beta)
        if low < proposed < high:
            beta = proposed
        elif high == bracket[1] and proposed >= high:
            beta = high  # the slope has not changed sign yet: look at the bound itself
        elif low == bracket[0] and proposed <= low:
            beta = low
        else:
            beta = math.sqrt(low * high)
    return Minimum(1.0 / beta, loss, False, MAX_STEPS)
