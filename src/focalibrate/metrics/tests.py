"""Calibration tests of the literature, by name.

The default is `focalibrate.metrics.assess`, which tests all scales at once. These are the
tests of the literature: each takes probabilities ``[N, K]`` or ``[N]`` of class 1 with labels,
looks at one event (the top label by default), and returns a `TestResult`. With weights
:math:`w_i` (and ``copies=False``, see `assess`), sums of residuals become
:math:`\\sum w_i (y_i - c_i)` and their variances :math:`\\sum w_i^2 c_i (1 - c_i)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.special import chdtrc, ndtr

from focalibrate._array import Array, Floats
from focalibrate._check import check_count
from focalibrate.metrics.binning import divided
from focalibrate.metrics.residuals import Line, Residuals, calibration_line, positions, ranks
from focalibrate.metrics.rows import Event, WeightOptions, read_event

__all__ = [
    "Event",
    "TestResult",
    "cox",
    "hosmer_lemeshow",
    "kolmogorov_smirnov",
    "kuiper",
    "spiegelhalter",
]


@dataclass(frozen=True)
class TestResult:
    """A statistic and its p-value."""

    __test__ = False  # not a test case of pytest

    statistic: float
    p_value: float


def kuiper(
    probs: Array, labels: Array, *, event: Event = "top label", **weights: Unpack[WeightOptions]
) -> TestResult:
    r"""Kuiper's test of the cumulative differences.

    .. math:: K = \frac{\max_k C_k - \min_k C_k}{\sqrt{\sum_i c_i(1-c_i)}},\qquad
              C_k = \sum_{i \le k} (y_i - c_i),\ C_0 = 0

    with rows sorted by probability :math:`c`, ties taken together. Under calibration
    :math:`K` is the range of a Brownian motion on [0, 1], to first order in :math:`1/\sqrt N`.

    Example:
        >>> p = np.linspace(0.05, 0.95, 200)
        >>> kuiper(p, (p > 0.5).astype(int), event=1).p_value < 0.05
        True

    References:
        Arrieta-Ibarra et al. (2022), *Metrics of calibration for probabilistic predictions*;
        Feller (1951), *The asymptotic distribution of the range of sums of independent
        random variables*.
    """
    cells = _cells(probs, labels, event, **weights)
    return _cumulative(cells, np.ptp, _range_tail)


def kolmogorov_smirnov(
    probs: Array, labels: Array, *, event: Event = "top label", **weights: Unpack[WeightOptions]
) -> TestResult:
    r"""Kolmogorov–Smirnov test of the cumulative differences.

    :math:`\max_k |C_k| / \sqrt{\sum c(1-c)}` with :math:`C_k` as in `kuiper`; under
    calibration the largest absolute value of a Brownian motion on [0, 1].

    Example:
        >>> p = np.linspace(0.05, 0.95, 200)
        >>> kolmogorov_smirnov(p, (p > 0.3).astype(int), event=1).p_value < 0.05
        True

    References:
        Arrieta-Ibarra et al. (2022), *Metrics of calibration for probabilistic predictions*;
        Erdős & Kac (1946), *On certain limit theorems of the theory of probability*.
    """
    cells = _cells(probs, labels, event, **weights)
    return _cumulative(cells, lambda steps: np.abs(steps).max(), _maximum_tail)


def spiegelhalter(
    probs: Array, labels: Array, *, event: Event = "top label", **weights: Unpack[WeightOptions]
) -> TestResult:
    r"""Spiegelhalter's Z: does the Brier score differ from what calibration implies?

    .. math:: Z = \frac{\sum_i (y_i - c_i)(1 - 2c_i)}{\sqrt{\sum_i (1-2c_i)^2 c_i(1-c_i)}}

    Normal under calibration. **Blind to shape**: errors that cancel in this one weighted sum
    go unseen, and confidence 0.5 does not count at all.

    Example:
        >>> p = np.tile([0.2, 0.8], 100)
        >>> round(spiegelhalter(p, (p > 0.5).astype(int), event=1).statistic, 2)
        -7.07

    References:
        Spiegelhalter (1986), *Probabilistic prediction in patient management and clinical
        trials*.
    """
    cells = _cells(probs, labels, event, **weights)
    slope = 1.0 - 2.0 * cells.mean
    variance, total = float(slope**2 @ cells.variance), -float(slope @ cells.residual)
    if variance == 0.0:
        return TestResult(0.0, 1.0) if total == 0.0 else TestResult(math.inf, 0.0)
    z = total / math.sqrt(variance)
    return TestResult(z, math.erfc(abs(z) / math.sqrt(2.0)))


def hosmer_lemeshow(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 10,
    degrees_of_freedom: int | None = None,
    event: Event = "top label",
    **weights: Unpack[WeightOptions],
) -> TestResult:
    r"""Hosmer–Lemeshow test on bins of equal mass.

    .. math:: H = \sum_b \frac{(\sum_{i\in b} y_i - c_i)^2}{n_b \bar c_b (1 - \bar c_b)}

    compared with the chi-square law. Degrees of freedom are the number of bins for data the
    model was not fitted on; pass ``n_bins - 2`` for its training data.

    Example:
        >>> p = np.linspace(0.05, 0.95, 200)
        >>> hosmer_lemeshow(p, (p > 0.5).astype(int), event=1).p_value < 0.001
        True

    References:
        Hosmer & Lemeshow (1980), *Goodness of fit tests for the multiple logistic regression
        model*.
    """
    check_count(n_bins, name="n_bins")
    cells = _cells(probs, labels, event, **weights)
    bins = cells.binned(ranks(positions(cells.mean, cells.weight), n_bins), n_bins)
    mean = divided(bins.probability, bins.weight)
    gap, variance = bins.residual, bins.spread * mean * (1.0 - mean)
    varies = variance > 0
    if (np.abs(gap[~varies]) > 1e-9).any():
        return TestResult(math.inf, 0.0)
    statistic = float(np.sum(gap[varies] ** 2 / variance[varies]))
    freedom = int(varies.sum()) if degrees_of_freedom is None else degrees_of_freedom
    if freedom < 1:
        return TestResult(statistic, 1.0)
    return TestResult(statistic, float(chdtrc(freedom, statistic)))


def cox(probs: Array, labels: Array, *, event: Event = "top label") -> Line:
    r"""Cox's recalibration line :math:`\operatorname{logit} P(y) = a + b \operatorname{logit} c`.

    Fitted by maximum likelihood (Newton); intervals are robust, the p-value is of the
    likelihood ratio against :math:`a = 0, b = 1` with 2 degrees of freedom. Probabilities
    are kept within 1e-12 of 0 and 1, where the log-odds would be infinite.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> s = rng.normal(size=5000)
        >>> y = (rng.uniform(size=5000) < 1 / (1 + np.exp(-s))).astype(int)
        >>> found = cox(1 / (1 + np.exp(-2 * s)), y, event=1)
        >>> found.slope.low < 0.5 < found.slope.high
        True

    References:
        Cox (1958), *Two further applications of a model for binary regression*.
    """
    line = calibration_line(_cells(probs, labels, event))
    if line is None:
        raise ValueError(
            "`cox` needs probabilities of at least two values and outcomes of both kinds "
            "that no threshold separates; use `kuiper`."
        )
    return line


def _cells(
    probs: Array,
    labels: Array,
    event: Event,
    sample_weight: Array | None = None,
    copies: bool = False,
) -> Residuals:
    """Return one cell per row, in order of the event's probability."""
    rows = read_event(probs, labels, event=event, sample_weight=sample_weight, copies=copies)
    return rows.cells()


def _cumulative(
    cells: Residuals, size: Callable[[Floats], Any], tail: Callable[[float], float]
) -> TestResult:
    """Test the size of the cumulative differences from 0, after each distinct value."""
    last = np.append(np.flatnonzero(np.diff(cells.mean) > 1e-15), len(cells.mean) - 1)
    found = float(size(np.concatenate([[0.0], -np.cumsum(cells.residual)[last]])))
    scale = math.sqrt(float(cells.variance.sum()))
    if scale == 0.0:
        return TestResult(0.0, 1.0) if found <= 1e-9 else TestResult(math.inf, 0.0)
    return TestResult(found / scale, tail(found / scale))


def _maximum_tail(x: float) -> float:
    r"""Return :math:`P(\max_{[0,1]} |W| \ge x)`."""
    if x <= 0.1:
        return 1.0
    # 4 sum of (-1)^k Φ(-(2k + 1) x), not 1 minus the rest, which is 0 from x = 8.3 on
    k = np.arange(0, max(2, math.ceil(40.0 / x)))
    return float(np.clip(4.0 * np.sum((-1.0) ** k * ndtr(-(2 * k + 1) * x)), 0.0, 1.0))


def _range_tail(x: float) -> float:
    r"""Return :math:`P(\max W - \min W \ge x) = 8\sum_k (-1)^{k-1} k\,\Phi(-kx)` on [0, 1]."""
    if x <= 0.3:
        return 1.0
    k = np.arange(1, max(2, math.ceil(40.0 / x)) + 1)
    return float(np.clip(8.0 * np.sum((-1.0) ** (k - 1) * k * ndtr(-k * x)), 0.0, 1.0))
