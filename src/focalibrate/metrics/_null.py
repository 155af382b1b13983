"""Outcomes drawn from the predictions, the tests made with them, and what the tests can find."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from focalibrate._array import Floats
from focalibrate.metrics._cells import SCALES, Cells, EventCells, Ints
from focalibrate.metrics._clusters import Clusters
from focalibrate.metrics.binning import bin_sums
from focalibrate.metrics.words import ALPHA

NORMAL_VARIANCE = 20.0
"""Cells whose number of hits has a larger variance are drawn from the normal distribution."""
COUNTED_TRIALS = 8
"""Up to this many trials, uniform numbers are faster than the binomial generator."""
POWER = 0.8
POWER_DRAWS = 250

Counts = NDArray[np.int64]


def draw_residuals(
    cells: Cells,
    n_draws: int,
    rng: np.random.Generator,
    truth: Floats | None = None,
    clusters: Clusters | None = None,
) -> Floats:
    r"""Return residual sums of the cells under :math:`y^* \sim c`, shape ``[M, n_draws]``.

    Hits of a cell are binomial with its mean probability, or normal if their variance is so
    large that it makes no difference. The residual is scaled to the exact variance of the cell,
    which differs from the binomial one where its rows differ in weight.

    Args:
        cells: cells of the predictions.
        n_draws: number of draws.
        rng: source of the draws.
        truth: true probability of each cell ``[M]``. Default: what was predicted.
        clusters: of the rows, which are drawn together.
    """
    if clusters is not None:
        return clusters.draw(n_draws, rng, None if truth is None else cells.mean - truth)
    n = np.rint(cells.rows).astype(np.int64)
    p = cells.mean
    q = p if truth is None else truth
    stated, true = cells.rows * p * (1.0 - p), cells.rows * q * (1.0 - q)
    ratio = np.divide(cells.variance, stated, out=np.zeros_like(stated), where=stated > 0)
    residual = np.empty((len(n), n_draws))
    is_normal = true >= NORMAL_VARIANCE
    normal = rng.standard_normal((int(is_normal.sum()), n_draws))
    residual[is_normal] = np.sqrt((ratio * true)[is_normal])[:, None] * normal
    few = ~is_normal
    hits = _binomial(n[few], q[few], n_draws, rng)
    expected = (cells.rows * q)[few, None]
    residual[few] = np.sqrt(ratio[few])[:, None] * (expected - hits)
    if truth is not None:
        residual += (cells.weight * (p - q))[:, None]
    return residual


def _binomial(n: Counts, p: Floats, n_draws: int, rng: np.random.Generator) -> Counts:
    """Return binomial draws ``[M, n_draws]``; those of a few trials are counted one by one."""
    if n.max(initial=0) > COUNTED_TRIALS:
        # cell by cell: the generator sets up each distribution only once
        return rng.binomial(n[:, None], p[:, None], size=(len(n), n_draws))
    hits = np.zeros((len(n), n_draws), dtype=np.int64)
    for trial in range(int(n.max(initial=0))):
        at = np.flatnonzero(n > trial)
        hits[at] += rng.random((len(at), n_draws)) < p[at, None]
    return hits


def indicator(index: Ints, n_bins: int) -> Floats:
    """Return the matrix ``[n_bins, M]`` that sums cells in the bins `index`."""
    matrix = np.zeros((n_bins, len(index)))
    matrix[index, np.arange(len(index))] = 1.0
    return matrix


@dataclass(frozen=True, eq=False)
class ScaleTest:
    r"""Is the mean residual of some bin too large, on any of six scales?

    .. math:: \max_B \frac{\sum_b S_b^2 / V_b - m_B}{s_B},\qquad B = 1, 2, 4, \dots, 32

    with the residual sums :math:`S_b` of bins of equal mass, their variances :math:`V_b` if the
    model is calibrated, and mean :math:`m_B` and standard deviation :math:`s_B` of the sum over
    the draws and what was seen: without the latter, which then is no longer one of them, the
    heavy tails of rare classes would reject calibrated models in 12 % of cases. One bin finds a
    constant offset, many find a local one.
    """

    sum_bins: Floats
    """indicator of the finest bins ``[SCALES, M]``"""
    variances: Sequence[Floats]
    """of each scale"""
    center: Floats
    spread: Floats
    null: Floats
    """statistic of the draws ``[D]``"""

    @classmethod
    def of(cls, event: EventCells, drawn: Floats, *, is_clustered: bool = False) -> "ScaleTest":
        """Return the test, standardised by residuals `drawn` of the cells ``[M, D]``.

        With clusters, the variances are those of the draws.
        """
        sum_bins = indicator(event.scale, SCALES)
        variances = pyramid(bin_sums(event.scale, event.sums.variance, SCALES))
        if is_clustered:
            variances = [np.mean(sums**2, axis=1) for sums in pyramid(sum_bins @ drawn)]
        chi2 = _chi_squares(sum_bins @ drawn, variances)
        seen = _chi_squares(sum_bins @ event.sums.residual[:, None], variances)
        both = np.hstack([chi2, seen]) if np.isfinite(seen).all() else chi2
        center, spread = both.mean(axis=1), both.std(axis=1)
        spread[spread <= 0.0] = 1.0
        null = ((chi2 - center[:, None]) / spread[:, None]).max(axis=0)
        return cls(sum_bins, variances, center, spread, null)

    def __call__(self, residual: Floats) -> Floats:
        """Return the statistic of each column of `residual` ``[M, D]``."""
        chi2 = _chi_squares(self.sum_bins @ residual, self.variances)
        found: Floats = ((chi2 - self.center[:, None]) / self.spread[:, None]).max(axis=0)
        return found


def pyramid(finest: Floats) -> list[Floats]:
    """Return sums over `SCALES` bins, over pairs of them, over pairs of those, …, over all."""
    levels = [finest]
    while len(levels[-1]) > 1:
        levels.append(levels[-1][0::2] + levels[-1][1::2])
    return levels


def _chi_squares(sums: Floats, variances: Sequence[Floats]) -> Floats:
    """Return the sum of S²/V on each scale ``[scales, D]``.

    A residual in a bin that cannot vary is impossible for a calibrated model: infinite.
    """
    found = []
    for s, v in zip(pyramid(sums), variances, strict=True):
        varies = v > 0
        chi2 = np.sum(s[varies] ** 2 / v[varies, None], axis=0)
        chi2[(np.abs(s[~varies]) > 1e-9).any(axis=0)] = np.inf
        found.append(chi2)
    return np.stack(found)


@dataclass(frozen=True, eq=False)
class LineTest:
    r"""Score test that the calibration line has intercept 0 and slope 1 (Cox).

    :math:`U^\top V^{-1} U` with :math:`U = \sum_i r_i (1, \operatorname{logit} c_i)` and its
    covariance :math:`V` if the model is calibrated.
    """

    design: Floats
    """``[2, M]``"""
    inverse: Floats
    """of V, ``[2, 2]``"""
    null: Floats

    @classmethod
    def of(cls, event: EventCells, drawn: Floats, *, is_clustered: bool = False) -> "LineTest":
        """Return the test of the cells; `drawn` are residuals of calibrated outcomes."""
        variance = event.sums.variance
        s = logit(np.clip(event.sums.mean, 1e-12, 1.0 - 1e-12))
        total = max(float(variance.sum()), 1e-300)
        design = np.stack([np.ones(len(s)), s - float(variance @ s) / total])
        design *= variance > 0  # a certain prediction has no log-odds
        covariance = (design * variance) @ design.T
        if is_clustered:
            covariance = (design @ drawn) @ (design @ drawn).T / drawn.shape[1]
        inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)
        test = cls(design, inverse, np.zeros(0))
        return cls(design, inverse, test(drawn))

    def __call__(self, residual: Floats) -> Floats:
        """Return the statistic of each column of `residual` ``[M, D]``."""
        score = self.design @ residual
        found: Floats = np.einsum("id,ij,jd->d", score, self.inverse, score)
        return found


@dataclass(frozen=True, eq=False)
class JointTest:
    """Several statistics as one test, by the smallest of their p-values (min-P).

    Each statistic is ranked among the same draws, and the smallest p-value among those of the
    draws: the level holds however the statistics depend on each other.
    """

    nulls: Floats
    """statistics of the draws ``[T, D]``"""
    ranks: Floats
    """how many draws reach each of them, itself included ``[T, D]``"""

    @classmethod
    def of(cls, nulls: Sequence[Floats]) -> "JointTest":
        """Return the test from the statistics of the draws, ``[D]`` each."""
        both = np.stack(nulls)
        return cls(both, np.stack([_exceeding(null, null) for null in both]))

    def each(self, seen: Floats) -> Floats:
        """Return the p-value of each statistic; `seen` is ``[T, J]``."""
        found = np.stack([_exceeding(null, s) for null, s in zip(self.nulls, seen, strict=True)])
        return np.asarray((1 + found) / (1 + self.nulls.shape[1]))

    def p_values(self, seen: Floats) -> Floats:
        """Return the p-values ``[J]`` of all statistics together."""
        each, n = self.each(seen), self.nulls.shape[1]
        if len(each) == 1:
            return np.asarray(each[0])
        least = each.min(axis=0)
        least[np.isinf(seen).any(axis=0)] = 0.0  # no draw is as extreme as the impossible
        # the rank of a draw among all, the seen one included, which moves draws below it by one
        is_below = seen[:, :, None] > self.nulls[:, None, :] + _slack(self.nulls)[:, None, :]
        ranks = (self.ranks[:, None, :] + is_below).min(axis=0) / (1 + n)
        return np.asarray((1 + (ranks <= least[:, None] + 1e-12).sum(axis=1)) / (1 + n))


def _slack(values: Floats) -> Floats:
    """Return the rounding within which statistics are equal."""
    return np.where(np.isfinite(values), 1e-9 * np.maximum(1.0, np.abs(values)), 0.0)


def _exceeding(null: Floats, seen: Floats) -> Floats:
    """Return how many of `null` reach each of `seen`."""
    found = len(null) - np.searchsorted(np.sort(null), seen - _slack(seen))
    return found.astype(np.float64)


def detectable_rms(
    cells: Cells,
    tests: Sequence[ScaleTest | LineTest],
    joint: JointTest,
    drawn: Floats,
    rng: np.random.Generator,
    others: Sequence[Floats] = (),
    clusters: Clusters | None = None,
) -> float:
    r"""Return the root-mean-square error that the joint test would find with probability .8.

    Two kinds of error are tried, a temperature (:math:`c(1-c)\operatorname{logit} c`) and a
    shift of the log-odds (:math:`c(1-c)`), both to first order and towards one half; the result
    is for the one that is harder to find. It is sought by moving the draws of the calibrated
    model, then checked, and enlarged if need be, by drawing outcomes from the wrong one. nan if
    no error can be found, as when every prediction is certain.

    Args:
        cells: cells of the predictions.
        tests: the tests that see the error.
        joint: these and the `others` together.
        drawn: residual sums of calibrated draws ``[M, D]``.
        rng: source of further draws.
        others: statistics of draws that do not see the error.
        clusters: of the rows.
    """
    p = cells.mean
    slope = p * (1.0 - p)
    towards_half = 1.0 if float(cells.weight @ (p - 0.5)) >= 0.0 else -1.0
    shapes = (slope * logit(np.clip(p, 1e-12, 1.0 - 1e-12)), towards_half * slope)
    share = cells.weight / cells.weight.sum()
    noise = drawn[:, :POWER_DRAWS]
    rest = [other[: noise.shape[1]] for other in others]
    found = []

    def is_found(residual: Floats) -> bool:
        p_values = joint.p_values(np.stack([*(test(residual) for test in tests), *rest]))
        return float(np.mean(p_values < ALPHA)) >= POWER

    for shape in shapes:
        rms = math.sqrt(float(share @ shape**2))
        if rms <= 1e-9:
            continue
        unit = shape / rms
        move = (cells.weight * unit)[:, None]

        def truth(size: float, unit: Floats = unit) -> Floats:
            return np.clip(p - size * unit, 0.0, 1.0)

        size = _smallest(lambda size, move=move: is_found(noise + size * move))  # type: ignore[misc]
        while size < 1.0 and not is_found(
            draw_residuals(cells, noise.shape[1], rng, truth(size), clusters)
        ):
            size = min(1.0, 1.1 * size)
        true = truth(size)
        found.append(1.0 if size >= 1.0 else math.sqrt(float(share @ (p - true) ** 2)))
    return max(found, default=math.nan)


def _smallest(is_found: Callable[[float], bool]) -> float:
    low, high = 1e-6, 1.0
    if not is_found(high):
        return 1.0
    for _ in range(12):  # geometric: to 0.4 % of the result
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high
