"""Sums of residuals over neighbouring rows, and the intervals that follow from them."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, chndtrinc, expit, log_expit, logit, ndtri

from focalibrate._array import Floats
from focalibrate.metrics.binning import Ints, bin_sums, divided, equal_width_index
from focalibrate.metrics.interval import NORMAL_95, Interval

MAX_CELLS = 512
"""Number of cells of equal mass; with fewer rows, each row has its own cell."""
SCALES = 32
"""Bins of the finest scale of the test."""
BINS = 15
"""Bins of the root-mean-square error, and of ECE, AdaECE and MCE beside their noise."""
LEAST_NOISE = 0.05
"""Outcomes between 0 and 1 vary less than yes and no; at least this share is assumed."""


class Residuals(NamedTuple):
    r"""Sums over cells of neighbouring examples; every array has shape ``[M]``.

    A row has probability :math:`c`, outcome :math:`y \in [0, 1]`, residual :math:`r = c - y`,
    weight :math:`w`, and enters variances with :math:`u`. A weight scales a row's residual:
    :math:`u = w^2`. Weights that count copies of a row, which are independent: :math:`u = w`.
    """

    rows: Floats
    """rows, copies included"""
    weight: Floats
    """sum of w"""
    spread: Floats
    """sum of u"""
    probability: Floats
    """sum of w c"""
    outcome: Floats
    """sum of w y"""
    square: Floats
    """sum of u r²"""
    variance: Floats
    """sum of u c (1 - c), the variance of the residual sum if c is the truth"""
    code: Ints | None = None
    """number of the cluster of each row, where rows are dependent; sums over rows have none"""

    @classmethod
    def of_rows(
        cls,
        value: Floats,
        outcome: NDArray[Any],
        weights: Floats | None,
        *,
        copies: bool = False,
        code: Ints | None = None,
    ) -> "Residuals":
        """Return one cell per row, in order of the probability `value` ``[N]``."""
        order = np.argsort(value, kind="stable")
        c, y, one = value[order], outcome[order].astype(np.float64), np.ones(len(value))
        code = None if code is None else code[order]
        square, variance = (c - y) ** 2, c * (1.0 - c)
        variance *= _noise_share(y, variance)
        if weights is None:
            return cls(one, one, one, c, y, square, variance, code=code)
        w = weights[order]
        u = w if copies else w**2
        return cls(w if copies else one, w, u, w * c, w * y, u * square, u * variance, code=code)

    @property
    def residual(self) -> Floats:
        """Sum of w r."""
        return self.probability - self.outcome

    @property
    def mean(self) -> Floats:
        """Mean probability of each cell."""
        return np.clip(divided(self.probability, self.weight), 0.0, 1.0)

    def binned(self, index: Ints, n_bins: int) -> "Residuals":
        """Return the sums over `n_bins` bins that `index` sorts the cells into."""
        return Residuals._make([*(bin_sums(index, x, n_bins) for x in self[:-1]), None])

    def summed_from(self, first: Ints) -> "Residuals":
        """Return the sums over runs of neighbouring cells that begin at `first`."""
        return Residuals._make([*(np.add.reduceat(x, first) for x in self[:-1]), None])

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters; None where rows are independent."""
        return None if self.code is None else int(self.code.max()) + 1

    @property
    def effective_rows(self) -> float:
        r"""Return :math:`(\sum w)^2 / \sum u`: the number of rows if all weights were equal."""
        return float(self.weight.sum() ** 2 / self.spread.sum())


def cluster_sums(values: Floats, code: Ints, index: Ints | int = 0, n_bins: int = 1) -> Floats:
    """Return the sums ``[G, n_bins]`` of rows by the number of their cluster and their bin."""
    n = int(code.max()) + 1
    return bin_sums(code * n_bins + index, values, n * n_bins).reshape(n, n_bins)


def _noise_share(outcome: Floats, variance: Floats) -> float:
    """Return the variance of the outcomes as a share of that of yes and no.

    If a fractional outcome y has mean c, its variance is c (1 - c) minus the mean of y (1 - y).
    """
    between = float((outcome * (1.0 - outcome)).sum())
    total = float(variance.sum())
    return 1.0 if between == 0.0 or total == 0.0 else max(LEAST_NOISE, 1.0 - between / total)


@dataclass(frozen=True, eq=False)
class EventCells:
    """About 512 cells of the rows of one event, in order of its probability, and their bins."""

    fine: Residuals
    """cells in order of probability, such as one per row; with clusters always rows"""
    sums: Residuals
    rank: Ints
    """rank among cells of equal mass, shape ``[M]``"""
    scale: Ints
    """rank among `SCALES` bins of equal mass, shape ``[M]``"""
    bin: Ints
    """rank among `BINS` bins of equal mass, shape ``[M]``"""
    cell_of_row: Ints
    """cell of each of the fine cells, ascending, shape ``[N]``"""

    def binned(self, index: Ints, n_bins: int) -> Residuals:
        """Return the sums over bins that `index` ``[M]`` sorts the cells into.

        With clusters, squares are of the sums of a cluster in a bin.
        """
        found = self.sums.binned(index, n_bins)
        if self.fine.code is None:
            return found
        square, spread = ((x * x).sum(axis=0) for x in self.cluster_sums(index, n_bins))
        return found._replace(square=square, spread=spread)

    def cluster_sums(self, index: Ints, n_bins: int) -> tuple[Floats, Floats]:
        """Return each cluster's residuals and its weights in each bin ``[G, n_bins]``."""
        assert self.fine.code is not None  # noqa: S101  (asked of clusters only)
        code, rows = self.fine.code, index[self.cell_of_row]
        residual, weight = self.fine.residual, self.fine.weight
        return cluster_sums(residual, code, rows, n_bins), cluster_sums(weight, code, rows, n_bins)


def event_cells(fine: Residuals, *, n_cells: int = MAX_CELLS) -> EventCells:
    """Gather fine cells, in order of probability, into about `n_cells`; ties stay together.

    Fewer than 2 `BINS` rows fall into fewer bins, of two: one row alone says nothing about noise.
    """
    value = fine.mean
    at = positions(value, fine.weight)
    n_bins = max(1, min(BINS, round(fine.effective_rows) // 2))
    rank, fifteenth = ranks(at, n_cells), ranks(at, n_bins)
    first = _starts(rank, equal_width_index(value, BINS), fifteenth)
    rank = rank[first]
    return EventCells(
        fine,
        fine.summed_from(first),
        rank,
        rank // (n_cells // SCALES),
        fifteenth[first],
        np.repeat(np.arange(len(first)), np.diff(first, append=len(value))),
    )


def positions(value: Floats, weights: Floats) -> Floats:
    """Return for sorted `value` the share of the mass below it, plus half that of its ties.

    Ties have one position, so rows of equal probability are treated alike and the order
    of the rows does not matter.
    """
    # 1e-15: the mean w c / w of a weighted row is c only up to rounding
    first = np.flatnonzero(np.diff(value, prepend=-np.inf) > 1e-15)
    size = np.diff(first, append=len(value))
    mass = np.add.reduceat(weights, first)
    end = np.cumsum(mass)
    return np.repeat((end - mass / 2.0) / end[-1], size)


def ranks(position: Floats, n_bins: int) -> Ints:
    """Return which of `n_bins` bins of equal mass each of these `positions` falls in."""
    # 1e-9: a position on an edge goes up, whatever the rounding of a sum of weights
    return np.minimum((position * n_bins + 1e-9).astype(np.intp), n_bins - 1)


def _starts(*keys: Ints) -> Ints:
    """Return where any of the `keys`, ``[N]`` each, changes."""
    changed = np.zeros(len(keys[0]), dtype=np.bool_)
    changed[0] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changed)


LARGE_CHI2 = 2000.0
"""Above this the square root of a noncentral chi-square is normal to four digits."""


def gap_interval(cells: Residuals) -> Interval:
    r"""Return the mean residual :math:`\bar r \pm 1.96\,\mathrm{se}`.

    The standard error is at least that of a calibrated model: a few rows that are all right
    have no spread, and yet prove little.
    """
    whole = cells.binned(np.zeros(len(cells.rows), dtype=np.intp), 1)
    gap = float(whole.residual[0] / whole.weight[0])
    half = NORMAL_95 * math.sqrt(float(mean_variance(whole, least=1.0)[0]))
    return Interval(gap, max(-1.0, gap - half), min(1.0, gap + half))


def mean_variance(bins: Residuals, *, least: float = 0.5) -> Floats:
    """Return the variance of each bin's mean residual.

    It is that of the sample, but at least `least` times what a calibrated model has: the
    spread of a few rows is often too small. In bins half is enough; all of it made intervals
    of the root-mean-square error cover 99.4 % of samples (100 classes, 300 rows).
    """
    w, u, s = bins.weight, bins.spread, bins.residual
    calibrated = divided(bins.variance, w**2)
    pairs = w**2 - u
    sampled = divided(bins.square - divided(s, w) ** 2 * u, pairs, above=1e-9 * w**2)
    return np.maximum(np.maximum(sampled, least * calibrated), 0.0)


def rms_interval(bins: Residuals, *, freedom: float | None = None) -> Interval:
    r"""Return the root-mean-square calibration error over `bins` of equal mass.

    .. math:: \mathrm{RMS}^2 = \sum_b w_b \frac{S_b^2 - Q_b}{n_b(n_b-1)},\qquad
              \sum_b w_b g_b^2 \approx a\,\chi'^2_\nu(\lambda)

    with :math:`w_b = n_b/N`, residual sums :math:`S_b`, sums of squares :math:`Q_b`, mean
    residuals :math:`g_b` of variance :math:`s_b^2`,
    :math:`a = \sum w^2s^4/\sum ws^2` and :math:`\nu = (\sum ws^2)^2/\sum w^2s^4`. The limits
    are :math:`\sqrt{a\lambda}` where the noncentral chi-square has probability .975 and .025
    below the value found.

    The upper limit is at least that of a typical calibrated model: an unusually small value
    is chance and does not prove a smaller error. `freedom` replaces :math:`\nu` where the bins
    are correlated.
    """
    share, variance = bins.weight / bins.weight.sum(), mean_variance(bins)
    seen = float(share @ divided(bins.residual, bins.weight) ** 2)
    noise, square = float(share @ variance), float(share**2 @ variance**2)
    if square <= 0.0:  # certain predictions: there is no noise
        size = math.sqrt(seen)
        return Interval(size, size, size)
    scale = square / noise if freedom is None else noise / freedom
    low = rms_limit(seen, noise, scale, 0.975)
    high = rms_limit(max(seen, noise), noise, scale, 0.025)
    estimate = rms_estimate(bins)  # of one or two clusters it may lie outside
    return Interval(estimate, min(low, estimate), max(high, estimate))


def rms_limit(seen: float, noise: float, scale: float, probability: float) -> float:
    r"""Return :math:`\sqrt{a\lambda}` for which less than `seen` has this probability.

    `noise` is the mean :math:`a\nu` of what is seen without an error, and `scale` :math:`a`.
    """
    found = noncentrality(seen / scale, noise / scale, probability)
    return min(1.0, math.sqrt(scale * found))


def rms_estimate(bins: Residuals) -> float:
    """Return the root-mean-square error without the noise of the bins, at least 0."""
    w = bins.weight
    pairs = w**2 - bins.spread
    square = divided(bins.residual**2 - bins.square, pairs, above=1e-9 * w**2)
    return math.sqrt(max(0.0, float(w @ square) / float(w.sum())))


def noncentrality(x: float, nu: float, probability: float) -> float:
    r"""Return :math:`\lambda` with :math:`P(\chi'^2_\nu(\lambda) \le x)` = `probability`.

    0 where even the central distribution has a smaller probability below `x`.
    """
    if x > LARGE_CHI2:
        shift = (nu - 1.0) / 2.0
        if x <= shift:
            return 0.0
        center = math.sqrt(x - shift) - float(ndtri(probability))
        return max(0.0, center**2 - shift) if center > 0.0 else 0.0
    if chdtr(nu, x) <= probability:
        return 0.0
    return float(chndtrinc(x, nu, probability))


class Line(NamedTuple):
    r"""The calibration line :math:`\operatorname{logit} P(y) = a + b \operatorname{logit} c`."""

    intercept: Interval
    slope: Interval
    """below 1: probabilities are too extreme"""
    intercept_at_slope_1: Interval
    """shift of the log-odds that makes the mean probability right"""
    statistic: float
    """likelihood ratio against intercept 0 and slope 1"""

    @property
    def p_value(self) -> float:
        """Of the statistic, with 2 degrees of freedom."""
        return float(chdtrc(2, self.statistic))


def calibration_line(cells: Residuals) -> Line | None:
    """Return the logistic regression of the outcomes on the log-odds, with robust intervals.

    None where there is no finite line: probabilities of one value, outcomes of one kind, or
    outcomes that a threshold separates. Probabilities are kept within 1e-12 of 0 and 1, where
    the log-odds would be infinite.
    """
    s = logit(np.clip(cells.mean, 1e-12, 1.0 - 1e-12))
    x = np.stack([np.ones_like(s), s], axis=1)
    start = np.array([0.0, 1.0])
    both = _logistic_fit(x, np.zeros_like(s), cells, start)
    shift = _logistic_fit(x[:, :1], s, cells, start[:1])
    if both is None or shift is None:
        return None
    beta, covariance = both
    half = NORMAL_95 * np.sqrt(np.diag(covariance))
    intercept, slope = (
        Interval(float(b), float(b - h), float(b + h)) for b, h in zip(beta, half, strict=True)
    )
    at, half_at = float(shift[0][0]), NORMAL_95 * math.sqrt(float(shift[1][0, 0]))
    ratio = 2.0 * (_log_likelihood(x @ beta, cells) - _log_likelihood(s, cells))
    return Line(intercept, slope, Interval(at, at - half_at, at + half_at), max(0.0, ratio))


def _log_likelihood(line: Floats, cells: Residuals) -> float:
    y, w = cells.outcome, cells.weight
    return float(y @ log_expit(line) + (w - y) @ log_expit(-line))


def _logistic_fit(
    x: Floats, offset: Floats, cells: Residuals, start: Floats
) -> tuple[Floats, Floats] | None:
    """Return coefficients by Newton's method and their robust covariance; None if infinite."""
    y, w, beta = cells.outcome, cells.weight, start
    scale = float(w.sum())
    for _ in range(50):
        p = expit(offset + x @ beta)
        information = x.T @ (x * (w * p * (1.0 - p))[:, None])
        if not np.linalg.cond(information) < 1e12 or np.abs(beta).max() > 1e3:
            return None
        step = np.linalg.solve(information, x.T @ (y - w * p))
        before = _log_likelihood(offset + x @ beta, cells)
        for _ in range(40):
            if _log_likelihood(offset + x @ (beta + step), cells) >= before - 1e-12 * scale:
                break
            step = step / 2.0
        beta = beta + step
        if np.abs(step).max() < 1e-10 * max(1.0, float(np.abs(beta).max())):
            break
    else:
        return None
    p = expit(offset + x @ beta)
    rate = np.clip(y / w, 0.0, 1.0)
    square = cells.spread * (rate * (1.0 - 2.0 * p) + p * p)  # sum of u (y - p)², y in {0, 1}
    inverse = np.linalg.inv(x.T @ (x * (w * p * (1.0 - p))[:, None]))
    meat = x.T @ (x * square[:, None])
    if cells.code is not None:
        score = x * (y - w * p)[:, None]
        sums = np.hstack([cluster_sums(column, cells.code) for column in score.T])
        meat = sums.T @ sums * (len(sums) / max(1, len(sums) - 1))
    return beta, inverse @ meat @ inverse
