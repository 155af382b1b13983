"""One-sided bounds of the calibration error, for checks against a limit."""

import math
from dataclasses import dataclass
from typing import Literal, Unpack

import numpy as np
from scipy.special import ndtri

from focalibrate._array import Array, Floats
from focalibrate._check import check_open_interval
from focalibrate.metrics.binning import Ints, bin_sums, divided
from focalibrate.metrics.null import generator, pyramid
from focalibrate.metrics.residuals import (
    BINS,
    SCALES,
    EventCells,
    Residuals,
    event_cells,
    mean_variance,
    rms_estimate,
    rms_limit,
)
from focalibrate.metrics.rows import EventArguments, read_event

N_DRAWS = 1999
"""Draws of the noise behind the lower bound of ECE."""
FINEST = 0.005
"""Smallest error rate that the draws can resolve: ten of them exceed it."""
ErrorName = Literal["ece", "rms"]


@dataclass(frozen=True)
class ErrorBounds:
    """A calibration error with a lower and an upper bound, each one-sided."""

    estimate: float
    """as measured, in 15 bins of equal mass (of fewer than 30 rows, bins of two): noise included
    for ECE, subtracted for RMS"""
    low: float
    """the true error is at least this, with probability ``1 - alpha``"""
    high: float
    """the true error is at most this, with probability ``1 - alpha_high``"""
    alpha: float
    alpha_high: float
    calibrated_high: float
    """the upper bound that a calibrated model with these predictions typically has"""


def calibration_bounds(
    probs: Array | None = None,
    labels: Array | None = None,
    *,
    error: ErrorName = "ece",
    limit: float = 0.0,
    alpha: float = 0.05,
    alpha_high: float | None = None,
    seed: int | np.random.Generator = 0,
    **rows: Unpack[EventArguments],
) -> ErrorBounds:
    r"""Bound the calibration error of a model from below and from above.

    The error is that of the event of `assess`: class 1 of two classes, the predicted class of
    more. With mean residuals :math:`g_b = \mu_b +
    \varepsilon_b` of bins with weight :math:`w_b`, the expected calibration error is :math:`\theta
    = \sum_b w_b |\mu_b|`.

    - **Lower bound**, from :math:`B = 1, 2, 4, \dots, 32` bins at once. By the triangle
      inequality :math:`\sum_b w_b |g_b| \le \theta + \sum_b w_b |\varepsilon_b|`, whatever the
      :math:`\mu_b` are, so that

      .. math:: \theta \ge \max_B \Big( \sum_b w_b |g_b| - q_B \Big)

      with probability :math:`1 - \alpha`, where the :math:`q_B` are exceeded by the noise
      :math:`\sum_b w_b |\varepsilon_b|` of any B with probability :math:`\alpha`. Coarse bins
      have little noise, fine ones see errors that cancel. Every B is a lower bound of the error
      without bins too.
    - **Upper bound**, from 15 bins: noise makes :math:`\sum_b w_b |g_b|` larger on average,
      never smaller, so that :math:`\theta \le \sum_b w_b |g_b| + z_{1-\alpha}
      (\sum_b w_b^2 s_b^2)^{1/2}`. An error that varies within the bins is not seen.

    For the root-mean-square error both come from the noncentral chi-square law, as in `assess`.

    With clusters the noise of the bins has the covariance of sums over clusters, across bins too;
    the margin of the upper bound is the largest of those for errors of any sign that are tried:
    all alike, as observed, and independent.

    Args:
        probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        error: ``"ece"`` or ``"rms"``.
        limit: the limit that the upper bound is for. Outcomes vary more where predictions are
            off: the upper bound allows for the variance of a model that is off by `limit`.
        alpha: probability that the lower bound is too high.
        alpha_high: probability that the upper bound is too low. Default: `alpha`.
        seed: random seed of the draws of the noise, or a `numpy.random.Generator`.
        rows: ``confidence``, ``correct``, ``event``, ``sample_weight``, ``copies`` and
            ``cluster``, as in `assess`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=20_000)
        >>> y = (rng.uniform(size=20_000) < p).astype(int)
        >>> calibration_bounds(p, y).low, calibration_bounds(p, y).high < 0.02
        (0.0, True)
        >>> calibration_bounds(p**2, y).low > 0.15
        True
    """
    given = read_event(probs, labels, **rows)
    return bounds_of_cells(
        given.cells(), error=error, limit=limit, alpha=alpha, alpha_high=alpha_high, seed=seed
    )


def bounds_of_cells(
    fine: Residuals,
    *,
    error: ErrorName = "ece",
    limit: float = 0.0,
    alpha: float = 0.05,
    alpha_high: float | None = None,
    seed: int | np.random.Generator = 0,
) -> ErrorBounds:
    """Return the bounds of the error of `fine` cells, in order of the event's probability.

    The arguments are those of `calibration_bounds`.
    """
    check_open_interval(alpha, low=0.0, high=0.5, name="alpha")
    upper = alpha if alpha_high is None else alpha_high
    check_open_interval(upper, low=0.0, high=0.5, name="alpha_high")
    cells = event_cells(fine)
    bins = _Bins.of(cells, cells.bin, BINS)
    share, variance = bins.share, _largest_variance(cells, bins, limit)
    both = bins.covariance(variance)
    if error == "rms":
        estimate = rms_estimate(bins.sums)
        seen, noise = float(share @ bins.mean**2), float(share @ variance)
        low = _rms_at(seen, share, bins.covariance(bins.variance), 1.0 - alpha)
        high, typical = (_rms_at(x, share, both, upper) for x in (max(seen, noise), noise))
    else:
        low = _lowest_ece(_Bins.of(cells, cells.scale, SCALES), alpha, generator(seed))
        estimate = float(share @ np.abs(bins.mean))
        signs = (share, share * np.sign(bins.mean))
        spread = max(float(share**2 @ variance), *(float(one @ both @ one) for one in signs))
        margin = float(ndtri(1.0 - upper)) * math.sqrt(spread)
        high = estimate + margin
        typical = math.sqrt(2.0 / math.pi) * float(share @ np.sqrt(variance)) + margin
    high, typical = min(1.0, max(high, low)), min(1.0, typical)
    return ErrorBounds(estimate, low, high, alpha, upper, typical)


@dataclass(frozen=True, eq=False)
class _Bins:
    """Bins of equal mass, and what clusters add to their noise."""

    sums: Residuals
    share: Floats
    """of the weight in each bin"""
    mean: Floats
    """of its residuals"""
    variance: Floats
    """of that mean"""
    shared: Floats | None
    """sums of each cluster's residuals about the mean of its bin ``[G, B]``"""

    @classmethod
    def of(cls, cells: EventCells, index: Ints, n_bins: int) -> "_Bins":
        sums, shared = cells.binned(index, n_bins), None
        mean = divided(sums.residual, sums.weight)
        if cells.fine.code is not None:
            alone = cells.sums.binned(index, n_bins)
            ratio = divided(sums.square, alone.square, 1.0).clip(1.0)
            sums = sums._replace(variance=alone.variance * ratio)
            residual, weight = cells.cluster_sums(index, n_bins)
            shared = residual - weight * mean
        share = sums.weight / sums.weight.sum()
        return cls(sums, share, mean, mean_variance(sums, least=1.0), shared)

    @property
    def inflation(self) -> float:
        """By how much clusters raise the variance of the mean residual of all rows."""
        if self.shared is None:
            return 1.0
        apart = float(np.sum(self.variance * self.sums.weight**2))
        together = float(np.sum(self.shared.sum(axis=1) ** 2))
        return max(1.0, together / apart) if apart > 0 else 1.0

    def covariance(self, variance: Floats) -> Floats:
        """Return the covariance of the mean residuals, with `variance` on its diagonal."""
        if self.shared is None:
            return np.diag(variance)
        raw = self.shared.T @ self.shared
        scale = divided(np.sqrt(variance), np.sqrt(np.diag(raw)))
        found: Floats = raw * np.outer(scale, scale)
        found[np.diag_indices(len(found))] = variance
        return found


def _lowest_ece(bins: _Bins, alpha: float, rng: np.random.Generator) -> float:
    r"""Return the lower bound from 32 bins and those that they add up to.

    An `alpha` below `FINEST`, needed for many groups, is beyond what the draws can resolve. The
    largest standardised noise is a function of independent normal numbers that changes by at most
    :math:`L` times their distance, so that its quantiles rise by at most :math:`L` times those of
    the normal law (Borell 1975): :math:`q_{1-\alpha} \le q_{1-\alpha_0} + L\,(z_{1-\alpha}
    - z_{1-\alpha_0})`.
    """
    root = np.diag(np.sqrt(bins.variance))
    if bins.shared is not None:
        values, vectors = np.linalg.eigh(bins.covariance(bins.variance))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
    weighted = bins.share[:, None] * root
    drawn = _sizes(weighted @ rng.standard_normal((SCALES, N_DRAWS)))
    seen = _sizes((bins.share * bins.mean)[:, None])[:, 0]
    typical, spread = drawn.mean(axis=1), drawn.std(axis=1)
    if not spread.all():  # certain predictions: there is no noise
        return float(seen.max())
    largest = ((drawn - typical[:, None]) / spread[:, None]).max(axis=0)
    level = max(alpha, FINEST)
    reach = np.sqrt(np.sum(weighted**2))  # of bins that are independent; else at most this:
    if bins.shared is not None:
        reach = min(
            np.sqrt((weighted**2).sum(axis=1)).sum(),
            math.sqrt(SCALES) * np.linalg.norm(weighted, 2),
        )
    steepness = float(reach / spread.min())
    beyond = steepness * float(ndtri(1.0 - alpha) - ndtri(1.0 - level))
    reached = typical + spread * (np.quantile(largest, 1.0 - level) + beyond)
    return max(0.0, float((seen - reached).max()))


def _sizes(weighted: Floats) -> Floats:
    r"""Return :math:`\sum_b |\sum_{j \in b} w_j g_j|` over 32, 16, … and 1 of the rows' bins."""
    return np.stack([np.abs(level).sum(axis=0) for level in pyramid(weighted)])


def _largest_variance(cells: EventCells, bins: _Bins, limit: float) -> Floats:
    """Return the variance of each bin's mean residual for an upper bound.

    The larger of two variances: that of the sample, and that of a model whose true frequencies
    are closer to one half by `limit`. A few rows without a single error have no variance.
    """
    away = np.maximum(np.abs(cells.sums.mean - 0.5) - limit, 0.0)
    w = bins.sums.weight
    worst = bin_sums(cells.bin, cells.sums.spread * (0.25 - away**2), len(w))
    return np.maximum(bins.variance, bins.inflation * divided(worst, w**2))


def _rms_at(seen: float, share: Floats, covariance: Floats, probability: float) -> float:
    noise, square = float(share @ np.diag(covariance)), float(share @ covariance**2 @ share)
    if square <= 0.0:
        return math.sqrt(seen)
    scale = square / noise
    if np.count_nonzero(covariance) > len(share):
        # an error along the largest common noise, as a shift of all rows is, varies most
        root = np.sqrt(share)
        scale = float(np.linalg.eigvalsh(covariance * np.outer(root, root))[-1])
    return rms_limit(seen, noise, scale, probability)
