"""One-sided bounds of the calibration error, for checks against a limit."""

import math
from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from focalibrate._array import Array, Floats
from focalibrate._check import check_open_interval
from focalibrate.metrics.binning import Ints, bin_sums
from focalibrate.metrics.event import read_event
from focalibrate.metrics.null import generator
from focalibrate.metrics.residuals import (
    BINS,
    SCALES,
    Residuals,
    event_cells,
    mean_variance,
    noncentrality,
)

LEVELS = tuple(2**i for i in range(int(math.log2(SCALES)) + 1))
"""Numbers of bins of the lower bound: 1, 2, 4, … 32, each cut in two for the next."""
N_DRAWS = 1999
"""Draws of the noise behind the lower bound of ECE."""
FINEST = 0.005
"""Smallest error rate that the draws can resolve: ten of them exceed it."""
ErrorName = Literal["ece", "rms"]


class BoundOptions(TypedDict, total=False):
    """The options of `calibration_bounds` that are not about rows."""

    error: ErrorName
    limit: float
    alpha: float
    alpha_high: float | None
    seed: int | np.random.Generator


@dataclass(frozen=True)
class ErrorBounds:
    """A calibration error with a lower and an upper bound, each one-sided."""

    estimate: float
    """as measured, in 15 bins of equal mass: noise included for ECE, subtracted for RMS"""
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
    confidence: Array | None = None,
    correct: Array | None = None,
    event: int | Literal["top label"] | None = None,
    error: ErrorName = "ece",
    limit: float = 0.0,
    alpha: float = 0.05,
    alpha_high: float | None = None,
    sample_weight: Array | None = None,
    copies: bool = False,
    seed: int | np.random.Generator = 0,
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

    Args:
        probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        confidence: instead of `probs`, see `assess`.
        correct: instead of `labels`.
        event: see `assess`.
        error: ``"ece"`` or ``"rms"``.
        limit: the limit that the upper bound is for. Outcomes vary more where predictions are
            off: the upper bound allows for the variance of a model that is off by `limit`.
        alpha: probability that the lower bound is too high.
        alpha_high: probability that the upper bound is too low. Default: `alpha`.
        sample_weight: weights ``[N]``, see `assess`.
        copies: whether weights are numbers of identical rows.
        seed: random seed of the draws of the noise, or a `numpy.random.Generator`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=20_000)
        >>> y = (rng.uniform(size=20_000) < p).astype(int)
        >>> calibration_bounds(p, y).low, calibration_bounds(p, y).high < 0.02
        (0.0, True)
        >>> calibration_bounds(p**2, y).low > 0.15
        True
    """
    rows = read_event(
        probs,
        labels,
        confidence=confidence,
        correct=correct,
        event=event,
        sample_weight=sample_weight,
        copies=copies,
    )
    return bounds_of_cells(
        rows.cells(), error=error, limit=limit, alpha=alpha, alpha_high=alpha_high, seed=seed
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
    bound = ece_bounds if error == "ece" else rms_bounds
    cells = event_cells(fine)
    return bound(cells.sums, cells.bin, cells.scale, limit, alpha, upper, generator(seed))


def ece_bounds(
    cells: Residuals,
    bin_index: Ints,
    scale: Ints,
    limit: float,
    alpha: float,
    alpha_high: float,
    rng: np.random.Generator,
) -> ErrorBounds:
    """Return the bounds of the expected calibration error of `cells`.

    Args:
        cells: sums over cells of neighbouring rows.
        bin_index: which of 15 bins of equal mass each cell is in.
        scale: which of 32 bins of equal mass.
        limit: see `calibration_bounds`.
        alpha: error rate of the lower bound.
        alpha_high: error rate of the upper bound.
        rng: source of the noise.
    """
    low = _lowest_ece(cells.binned(scale, SCALES), alpha, rng)
    bins = cells.binned(bin_index, BINS)
    share, mean = _share_and_mean(bins)
    variance = _variance(cells, bins, bin_index, limit)
    estimate = float(share @ np.abs(mean))
    margin = float(ndtri(1.0 - alpha_high)) * math.sqrt(float(share**2 @ variance))
    typical = math.sqrt(2.0 / math.pi) * float(share @ np.sqrt(variance)) + margin
    high = min(1.0, max(estimate + margin, low))
    return ErrorBounds(estimate, low, high, alpha, alpha_high, min(1.0, typical))


def rms_bounds(
    cells: Residuals,
    bin_index: Ints,
    scale: Ints,
    limit: float,
    alpha: float,
    alpha_high: float,
    rng: np.random.Generator,
) -> ErrorBounds:
    """Return the bounds of the root-mean-square calibration error; see `ece_bounds`."""
    bins = cells.binned(bin_index, BINS)
    share, mean = _share_and_mean(bins)
    pairs = bins.weight**2 - bins.spread
    several = pairs > 1e-9 * bins.weight**2
    unbiased = np.divide(bins.residual**2 - bins.square, pairs, out=np.zeros(BINS), where=several)
    estimate = math.sqrt(max(0.0, float(share @ unbiased)))
    seen = float(share @ mean**2)
    low = _rms_at(seen, share, mean_variance(bins, least=1.0), 1.0 - alpha)
    variance = _variance(cells, bins, bin_index, limit)
    noise = float(share @ variance)
    high = _rms_at(max(seen, noise), share, variance, alpha_high)
    typical = _rms_at(noise, share, variance, alpha_high)
    return ErrorBounds(estimate, low, max(high, low), alpha, alpha_high, typical)


def _lowest_ece(bins: Residuals, alpha: float, rng: np.random.Generator) -> float:
    r"""Return the lower bound from 32 bins and those that they add up to.

    An `alpha` below `FINEST`, needed for many groups, is beyond what the draws can resolve. The
    largest standardised noise is a function of independent normal numbers that changes by at most
    :math:`L` times their distance, so that its quantiles rise by at most :math:`L` times those of
    the normal law (Borell 1975): :math:`q_{1-\alpha} \le q_{1-\alpha_0} + L\,(z_{1-\alpha}
    - z_{1-\alpha_0})`.
    """
    share, mean = _share_and_mean(bins)
    sd = np.sqrt(mean_variance(bins, least=1.0))
    noise = share[:, None] * sd[:, None] * rng.standard_normal((SCALES, N_DRAWS))
    drawn = np.stack([_size(noise, n) for n in LEVELS])
    seen = np.array([float(_size((share * mean)[:, None], n)[0]) for n in LEVELS])
    typical, spread = drawn.mean(axis=1), drawn.std(axis=1)
    if not spread.all():  # certain predictions: there is no noise
        return float(seen.max())
    largest = ((drawn - typical[:, None]) / spread[:, None]).max(axis=0)
    level = max(alpha, FINEST)
    steepness = float(np.sqrt(np.sum((share * sd) ** 2)) / spread.min())
    beyond = steepness * float(ndtri(1.0 - alpha) - ndtri(1.0 - level))
    reached = typical + spread * (np.quantile(largest, 1.0 - level) + beyond)
    return max(0.0, float((seen - reached).max()))


def _size(weighted: NDArray[np.float64], n_bins: int) -> Floats:
    r"""Return :math:`\sum_b |\sum_{j \in b} w_j g_j|` over `n_bins` of the rows' bins."""
    sums = weighted.reshape(n_bins, SCALES // n_bins, -1).sum(axis=1)
    found: Floats = np.abs(sums).sum(axis=0)
    return found


def _share_and_mean(bins: Residuals) -> tuple[Floats, Floats]:
    w = bins.weight
    mean = np.divide(bins.residual, w, out=np.zeros_like(w), where=w > 0)
    return w / w.sum(), mean


def _variance(cells: Residuals, bins: Residuals, index: Ints, limit: float) -> Floats:
    """Return the variance of each bin's mean residual for an upper bound.

    The larger of two variances: that of the sample, and that of a model whose true frequencies
    are closer to one half by `limit`. A few rows without a single error have no variance.
    """
    away = np.maximum(np.abs(cells.mean - 0.5) - limit, 0.0)
    worst = bin_sums(index, cells.spread * (0.25 - away**2), len(bins.weight))
    w = bins.weight
    at_limit = np.divide(worst, w**2, out=np.zeros_like(w), where=w > 0)
    return np.maximum(mean_variance(bins, least=1.0), at_limit)


def _rms_at(seen: float, share: Floats, variance: Floats, probability: float) -> float:
    first, second = float(share @ variance), float(share**2 @ variance**2)
    if second <= 0.0:
        return math.sqrt(seen)
    a, nu = second / first, first**2 / second
    return min(1.0, math.sqrt(a * noncentrality(seen / a, nu, probability)))
