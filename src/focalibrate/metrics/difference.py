"""Which of two models has the larger calibration error?"""

import math

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_sample_weight, is_whole
from focalibrate.metrics._cells import BINS, Cells, Ints, equal_mass_ranks
from focalibrate.metrics._intervals import mean_variance, rms_interval
from focalibrate.metrics._rows import read, top_label
from focalibrate.metrics.interval import ConfidenceInterval

MAX_CORRELATION = 0.8
"""The correlation is limited: that of two similar models is often overestimated."""


def rms_difference(
    probs_a: Array, probs_b: Array, labels: Array, *, sample_weight: Array | None = None
) -> ConfidenceInterval:
    r"""Difference of the root-mean-square calibration errors of two models on the same rows.

    With errors :math:`\hat\theta_a, \hat\theta_b`, their intervals :math:`[l_a, u_a]`,
    :math:`[l_b, u_b]` (those of `assess`) and the correlation :math:`\rho` of the estimates:

    .. math:: U = \hat\theta_a - \hat\theta_b + \sqrt{x^2 + y^2 - 2\rho xy},\qquad
              x = u_a - \hat\theta_a,\ y = \hat\theta_b - l_b

    or :math:`U = u_a` where :math:`l_b = 0`; the lower limit is the same with the models
    exchanged. Unlike the bootstrap this holds where both errors are 0: two calibrated models
    are called different less than 5 % of the time. The interval is cautious: it covers more often
    than 95 %.

    Args:
        probs_a: probabilities of the first model, ``[N, K]``, or ``[N]`` of class 1.
        probs_b: those of the second model for the same rows.
        labels: class indices ``[N]``.
        sample_weight: weights ``[N]``, see `assess`.

    Returns:
        `ConfidenceInterval` of the first error minus the second; where it excludes 0 the
        models are called different.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=2000)
        >>> y = (rng.uniform(size=2000) < p).astype(int)
        >>> rms_difference(p**2, p, y).low > 0
        True

    References:
        Zou & Donner (2008), *Construction of confidence limits about effect measures*.
    """
    first, second = (read(p, labels, binary=np.ndim(p) == 1) for p in (probs_a, probs_b))
    n = len(first[0])
    w = np.ones(n) if sample_weight is None else check_sample_weight(sample_weight, n_rows=n)
    return difference_of_rows(*top_label(*first), *top_label(*second), w)


def difference_of_rows(
    confidence_a: Floats,
    correct_a: NDArray[np.bool_],
    confidence_b: Floats,
    correct_b: NDArray[np.bool_],
    weights: Floats,
) -> ConfidenceInterval:
    """Return the same from confidences and correctness ``[N]`` already known to be good."""
    spread = weights if is_whole(weights) else weights**2
    bins, index, residual = [], [], []
    for confidence, correct in ((confidence_a, correct_a), (confidence_b, correct_b)):
        at = equal_mass_ranks(confidence, weights, BINS)
        table = Cells.of_rows(confidence, correct.astype(np.float64), weights).binned(at, BINS)
        mean = np.divide(table.residual, table.weight, out=np.zeros(BINS), where=table.weight > 0)
        bins.append(table)
        index.append(at)
        residual.append(confidence - correct - mean[at])
    a, b = (rms_interval(table) for table in bins)
    rho = _correlation(bins, index, residual, spread)
    return ConfidenceInterval(a.estimate - b.estimate, -_upper(b, a, rho), _upper(a, b, rho))


def _upper(a: ConfidenceInterval, b: ConfidenceInterval, rho: float) -> float:
    """Return the upper limit of a minus b."""
    if b.low <= 0.0:  # the estimate of b is cut off at 0, so too high on average
        return a.high
    x, y = a.high - a.estimate, b.estimate - b.low
    return a.estimate - b.estimate + math.sqrt(x * x + y * y - 2.0 * rho * x * y)


def _correlation(
    bins: list[Cells], index: list[Ints], residual: list[Floats], spread: Floats
) -> float:
    r"""Return the correlation of the two sums :math:`\sum_b w_b g_b^2`, both normal in g."""
    w_a, w_b = (table.weight for table in bins)
    share_a, share_b = w_a / w_a.sum(), w_b / w_b.sum()
    mean_a, mean_b = (
        np.divide(t.residual, t.weight, out=np.zeros(BINS), where=t.weight > 0) for t in bins
    )
    joint = np.bincount(
        index[0] * BINS + index[1], spread * residual[0] * residual[1], BINS * BINS
    ).reshape(BINS, BINS)
    size = np.outer(w_a, w_b)
    covariance = np.divide(joint, size, out=np.zeros_like(joint), where=size > 0)
    common = 4.0 * (share_a * mean_a) @ covariance @ (share_b * mean_b)
    common -= 2.0 * share_a @ covariance**2 @ share_b
    variances = [
        _quadratic_variance(share, mean, mean_variance(table))
        for share, mean, table in ((share_a, mean_a, bins[0]), (share_b, mean_b, bins[1]))
    ]
    product = math.sqrt(variances[0] * variances[1])
    return 0.0 if product <= 0.0 else min(MAX_CORRELATION, max(0.0, float(common) / product))


def _quadratic_variance(share: Floats, mean: Floats, variance: Floats) -> float:
    noise = 2.0 * float((share * variance) @ (share * variance))
    return max(noise, 4.0 * float((share * mean) ** 2 @ variance) - noise)
