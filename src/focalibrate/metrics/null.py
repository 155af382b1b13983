"""Outcomes drawn from the predictions, the tests made with them, and what they can find."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from focalibrate._array import Floats
from focalibrate.metrics.binning import Ints, bin_sums, divided
from focalibrate.metrics.residuals import (
    SCALES,
    EventCells,
    Residuals,
    calibration_line,
    event_cells,
)
from focalibrate.metrics.rows import EventKind
from focalibrate.metrics.words import ALPHA

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NORMAL_VARIANCE = 20.0
"""Residuals whose number of hits has a larger variance are drawn from the normal distribution."""
POWER = 0.8
POWER_DRAWS = 250

_STREAM = 0xCA11B


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """Return `seed` if it is a generator, else a generator of a stream of our own.

    Users often simulate data with ``default_rng(0)``: outcomes drawn from the same random
    numbers would not be independent of those data.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng([seed, _STREAM])


FEWEST_DRAWS, MOST_DRAWN = 199, 2e7
"""With clusters outcomes are drawn row by row: fewer times where there are many rows."""
LEAST_CLUSTERS = 50
"""With fewer, tests reject too many calibrated models: the correlation cannot be estimated."""
CORRELATIONS = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
MATCHED_ROWS = 20_000
"""Rows, in whole clusters, from which the correlation is estimated."""
DRAWN_AT_ONCE = 1 << 20


def copula_residuals(
    cells: EventCells, n_draws: int, rng: np.random.Generator, correlation: float, moved: Floats
) -> Floats:
    r"""Return residual sums of the cells ``[M, n_draws]`` under a Gaussian copula.

    .. math:: y^*_i = 1\big[\sqrt\rho\, a_g + \sqrt{1-\rho}\, e_i < \Phi^{-1}(c_i)\big]

    `moved` is by how much the true probability of each cell is below the stated one ``[M]``.
    """
    fine, n_clusters = cells.fine, cells.fine.n_clusters or 0
    c, w = fine.mean, fine.weight.astype(np.float32)
    limit = ndtri(np.clip(c - moved[cells.cell_of_row], 0.0, 1.0)).astype(np.float32)[:, None]
    first = np.flatnonzero(np.diff(cells.cell_of_row, prepend=-1))
    expected = np.add.reduceat(fine.weight * c, first)[:, None]
    common, own = np.sqrt(np.array([correlation, 1.0 - correlation])).astype(np.float32)
    step = max(1, DRAWN_AT_ONCE // len(c))
    found = np.empty((len(first), n_draws))
    for start in range(0, n_draws, step):
        size = min(step, n_draws - start)
        noise = own * rng.standard_normal((len(c), size), dtype=np.float32)
        noise += (common * rng.standard_normal((n_clusters, size), dtype=np.float32))[fine.code]
        hits = (noise < limit) * w[:, None]
        sums = np.add.reduceat(hits, first, axis=0, dtype=np.float64)
        found[:, start : start + size] = expected - sums
    return found


def correlation_of(rows: Residuals) -> float | None:
    r"""Return the correlation of the copula within clusters of rows; None where there are none.

    The mean of :math:`(y_i - p_i)(y_j - p_j)` over pairs of a cluster is matched with its
    expectation given the common factor, by quadrature, on a grid. The residuals are from the
    calibration line, so that miscalibration is not taken for correlation.
    """
    if rows.code is None:
        return None
    p, line = np.clip(rows.mean, 1e-12, 1.0 - 1e-12), calibration_line(rows)
    if line is not None:
        p = expit(line.intercept.estimate + line.slope.estimate * logit(p))
    code, outcome = rows.code, np.clip(rows.outcome / rows.weight, 0.0, 1.0)
    if len(code) > MATCHED_ROWS:
        keep = code % (-(-len(code) // MATCHED_ROWS)) == 0
        code, p, outcome = code[keep], p[keep], outcome[keep]
    _, code = np.unique(code, return_inverse=True)
    code = code.reshape(-1)
    size = np.bincount(code)
    pairs = float(size @ (size - 1.0))
    if pairs == 0.0:
        return 0.0

    def products(x: Floats) -> float:
        sums = np.bincount(code, x)
        return float(sums @ sums - x @ x) / pairs

    seen = products(outcome - p)
    limit = ndtri(np.clip(p, 1e-9, 1.0 - 1e-9))
    expected = [0.0]
    for rho in CORRELATIONS[1:]:
        given = (ndtr((limit - np.sqrt(rho) * x) / np.sqrt(1.0 - rho)) for x in NODES)
        total = sum(w * products(y - p) for w, y in zip(WEIGHTS, given, strict=True))
        expected.append(total / float(WEIGHTS.sum()))
        if expected[-1] > seen:
            break
    rising = np.maximum.accumulate(expected)
    return float(np.interp(seen, rising, CORRELATIONS[: len(rising)]))


def draw_residuals(
    event: EventCells,
    n_draws: int,
    rng: np.random.Generator,
    *,
    correlation: float | None = None,
    truth: Floats | None = None,
) -> Floats:
    r"""Return residual sums of the cells under :math:`y^* \sim c`, shape ``[M, n_draws]``.

    Hits of a cell are binomial with its mean probability, or normal if their variance is so
    large that it makes no difference. The residual is scaled to the exact variance of the cell,
    which differs from the binomial one where its rows differ in weight. With a `correlation`
    within clusters rows are drawn together, by a copula.

    `truth` is the true probability of each cell ``[M]``, by default what was predicted.
    """
    p = event.sums.mean
    q = p if truth is None else truth
    if correlation is not None:
        return copula_residuals(event, n_draws, rng, correlation, p - q)
    return independent_residuals(event.sums, n_draws, rng, q)


def independent_residuals(
    cells: Residuals, n_draws: int, rng: np.random.Generator, truth: Floats | None = None
) -> Floats:
    """Return the same of cells whose rows are independent."""
    n, p = np.rint(cells.rows), cells.mean
    q = p if truth is None else truth
    stated, true = cells.rows * p * (1.0 - p), cells.rows * q * (1.0 - q)
    ratio = divided(cells.variance, stated)
    residual = np.empty((len(n), n_draws))
    is_normal = true >= NORMAL_VARIANCE
    normal = rng.standard_normal((int(is_normal.sum()), n_draws))
    residual[is_normal] = np.sqrt((ratio * true)[is_normal])[:, None] * normal
    few = ~is_normal
    hits = _binomial(n[few], q[few], n_draws, rng)
    expected = (cells.rows * q)[few, None]
    residual[few] = np.sqrt(ratio[few])[:, None] * (expected - hits)
    residual += (cells.weight * (p - q))[:, None]
    return residual


def _binomial(n: Floats, p: Floats, n_draws: int, rng: np.random.Generator) -> Floats:
    """Return binomial draws ``[M, n_draws]``, of variances below `NORMAL_VARIANCE`.

    How often each value occurs among the draws of a cell is multinomial; then they are shuffled.
    That is three times as fast as drawing one by one.
    """
    is_high = p > 0.5
    rare = np.where(is_high, 1.0 - p, p)
    mean = n * rare
    # beyond twelve standard deviations of a Poisson number, and more where it is small
    n_values = 1 + int(np.minimum(n, mean + 12.0 * np.sqrt(mean) + 20.0).max(initial=0.0))
    share, odds = np.empty((n_values, len(n))), rare / (1.0 - rare)
    share[0] = np.exp(n * np.log1p(-rare))
    for k in range(1, n_values):
        share[k] = share[k - 1] * np.maximum(n - (k - 1), 0.0) / k * odds
    times = rng.multinomial(n_draws, (share / share.sum(axis=0)).T)
    values = np.tile(np.arange(n_values, dtype=np.float64), len(n))
    hits = np.repeat(values, times.reshape(-1)).reshape(len(n), n_draws)
    rng.permuted(hits, axis=1, out=hits)
    hits[is_high] = n[is_high, None] - hits[is_high]
    return hits


def indicator(index: Ints, n_bins: int) -> "csr_array":
    """Return the matrix ``[n_bins, M]`` that sums cells in the bins `index`."""
    from scipy.sparse import csr_array  # not before something is drawn

    one = np.ones(len(index))
    return csr_array((one, (index, np.arange(len(index)))), shape=(n_bins, len(index)))


@dataclass(frozen=True, eq=False)
class DrawnTest:
    """A statistic: of what was seen, and of outcomes drawn from a calibrated model."""

    seen: float
    null: Floats
    """of the draws ``[D]``"""
    sums: Callable[[Floats], Floats] | None = None
    """what it needs of each column of residuals ``[M, J]``, linear in them; None: it sees other
    probabilities than these"""
    of_sums: Callable[[Floats], Floats] | None = None
    """of each column of such sums ``[B, J]``"""

    @property
    def p_value(self) -> float:
        """The p-value of this test by itself."""
        return float((1 + _exceeding(self.null, np.array([self.seen]))[0]) / (1 + len(self.null)))


def scale_test(event: EventCells, drawn: Floats) -> DrawnTest:
    r"""Is the mean residual of some bin too large, on any of six scales?

    .. math:: \max_B \frac{\sum_b S_b^2 / V_b - m_B}{s_B},\qquad B = 1, 2, 4, \dots, 32

    with the residual sums :math:`S_b` of bins of equal mass, their variances :math:`V_b` if the
    model is calibrated, and mean :math:`m_B` and standard deviation :math:`s_B` of the sum over
    the draws and what was seen: without the latter, which then is no longer one of them, the
    heavy tails of rare classes would reject calibrated models in 12 % of cases. One bin finds a
    constant offset, many find a local one. With clusters, variances are those of the residuals
    `drawn` of the cells ``[M, D]``.
    """
    sum_bins = indicator(event.scale, SCALES)
    levels = pyramid(sum_bins @ drawn)
    variances = pyramid(bin_sums(event.scale, event.sums.variance, SCALES))
    if event.fine.code is not None:
        variances = [np.mean(sums**2, axis=1) for sums in levels]
    chi2 = _chi_squares(levels, variances)
    seen = _chi_squares(pyramid(sum_bins @ event.sums.residual[:, None]), variances)
    both = np.hstack([chi2, seen]) if np.isfinite(seen).all() else chi2
    center, spread = both.mean(axis=1)[:, None], both.std(axis=1)[:, None]
    spread[spread <= 0.0] = 1.0

    def largest(chi2: Floats) -> Floats:
        return np.asarray(((chi2 - center) / spread).max(axis=0))

    def of_sums(finest: Floats) -> Floats:
        return largest(_chi_squares(pyramid(finest), variances))

    return DrawnTest(float(largest(seen)[0]), largest(chi2), sum_bins.__matmul__, of_sums)


def pyramid(finest: Floats) -> list[Floats]:
    """Return sums over `SCALES` bins, over pairs of them, over pairs of those, …, over all."""
    levels = [finest]
    while len(levels[-1]) > 1:
        levels.append(levels[-1][0::2] + levels[-1][1::2])
    return levels


def _chi_squares(levels: Sequence[Floats], variances: Sequence[Floats]) -> Floats:
    """Return the sum of S²/V on each scale ``[scales, D]``.

    A residual in a bin that cannot vary is impossible for a calibrated model: infinite.
    """
    found = []
    for s, v in zip(levels, variances, strict=True):
        varies = v > 0
        chi2 = np.sum(s[varies] ** 2 / v[varies, None], axis=0)
        chi2[(np.abs(s[~varies]) > 1e-9).any(axis=0)] = np.inf
        found.append(chi2)
    return np.stack(found)


def line_test(event: EventCells, drawn: Floats) -> DrawnTest:
    r"""Score test that the calibration line has intercept 0 and slope 1 (Cox).

    :math:`U^\top V^{-1} U` with :math:`U = \sum_i r_i (1, \operatorname{logit} c_i)` and its
    covariance :math:`V` if the model is calibrated.
    """
    variance = event.sums.variance
    s = logit(np.clip(event.sums.mean, 1e-12, 1.0 - 1e-12))
    total = max(float(variance.sum()), 1e-300)
    design = np.stack([np.ones(len(s)), s - float(variance @ s) / total])
    design *= variance > 0  # a certain prediction has no log-odds
    covariance = (design * variance) @ design.T
    if event.fine.code is not None:
        covariance = (design @ drawn) @ (design @ drawn).T / drawn.shape[1]
    inverse = np.linalg.pinv(covariance, rcond=1e-10, hermitian=True)

    def of_score(score: Floats) -> Floats:
        return np.asarray(np.einsum("id,ij,jd->d", score, inverse, score))

    seen = of_score(design @ event.sums.residual[:, None])
    return DrawnTest(float(seen[0]), of_score(design @ drawn), design.__matmul__, of_score)


@dataclass(frozen=True, eq=False)
class EventTest:
    """Cells of an event, residuals drawn from a calibrated model, and the tests made with them.

    Several tests are one, by the smallest of their p-values (min-P): each statistic is ranked
    among the same draws, and the smallest p-value among those of the draws. The level holds
    however the statistics depend on each other.
    """

    cells: EventCells
    correlation: float | None
    """of the rows of a cluster; None where rows are independent"""
    drawn: Floats
    """``[M, D]``"""
    tests: Sequence[DrawnTest]

    @classmethod
    def of(
        cls, fine: Residuals, event: EventKind, *, n_draws: int, rng: np.random.Generator
    ) -> "EventTest":
        """Draw outcomes and test what was seen."""
        cells, correlation = event_cells(fine), correlation_of(fine)
        if correlation is not None:
            n_draws = min(n_draws, max(FEWEST_DRAWS, int(MOST_DRAWN / len(fine.rows))))
        drawn = draw_residuals(cells, n_draws, rng, correlation=correlation)
        kinds = [scale_test] if event == "top label" else [scale_test, line_test]
        return cls(cells, correlation, drawn, [test(cells, drawn) for test in kinds])

    @property
    def is_judged(self) -> bool:
        """Whether there are enough clusters to test anything."""
        n_clusters = self.cells.fine.n_clusters
        return n_clusters is None or n_clusters >= LEAST_CLUSTERS

    @property
    def p_value(self) -> float:
        """The p-value of all tests together."""
        return float(self._p_values(np.array([[test.seen] for test in self.tests]))[0])

    @cached_property
    def _ranks(self) -> Floats:
        """How many draws reach each draw, itself included ``[T, D]``."""
        return np.stack([_exceeding(test.null, test.null) for test in self.tests])

    def _p_values(self, seen: Floats) -> Floats:
        """Return the p-values ``[J]`` of statistics ``[T, J]``, of all tests together."""
        n = self.drawn.shape[1]
        found = np.stack([_exceeding(x.null, s) for x, s in zip(self.tests, seen, strict=True)])
        if len(found) == 1:
            return np.asarray((1 + found[0]) / (1 + n))
        # Ranks are among all, what was seen included, which moves the draws below it by one: a
        # draw is as extreme as the least of the p-values if it is so in one of the tests.
        limit = np.minimum(found, 1 + found.min(axis=0))
        limit[:, np.isinf(seen).any(axis=0)] = 0  # no draw is as extreme as the impossible
        near = (self._ranks <= limit.max(axis=1, keepdims=True)).any(axis=0)
        reached = (self._ranks[:, near][:, None, :] <= limit[:, :, None]).any(axis=0)
        return np.asarray((1 + np.count_nonzero(reached, axis=1)) / (1 + n))

    def detectable(self, rng: np.random.Generator) -> float:
        r"""Return the root-mean-square error that would be found with probability .8.

        Two kinds of error are tried, a temperature (:math:`c(1-c)\operatorname{logit} c`) and a
        shift of the log-odds (:math:`c(1-c)`), both to first order and towards one half; the
        result is for the one that is harder to find. nan if no error can be found, as when every
        prediction is certain.
        """
        cells, p = self.cells.sums, self.cells.sums.mean
        slope, share = p * (1.0 - p), cells.weight / cells.weight.sum()
        towards_half = 1.0 if float(cells.weight @ (p - 0.5)) >= 0.0 else -1.0
        shapes = (slope * logit(np.clip(p, 1e-12, 1.0 - 1e-12)), towards_half * slope)
        sizes = [(shape, math.sqrt(float(share @ shape**2))) for shape in shapes]
        found = [self._smallest(shape / rms, rng) for shape, rms in sizes if rms > 1e-9]
        return max(found, default=math.nan)

    def _smallest(self, unit: Floats, rng: np.random.Generator) -> float:
        """Return the smallest multiple of an error `unit` that is found, as a root-mean-square.

        It is sought by moving the residuals `drawn` from the calibrated model, then checked, and
        enlarged if need be, by drawing outcomes from the wrong one.
        """
        cells, low, size = self.cells.sums, 1e-6, 1.0
        n_draws = min(POWER_DRAWS, self.drawn.shape[1])
        noise = self._sums(self.drawn[:, :n_draws])
        move = self._sums((cells.weight * unit)[:, None])

        def is_moved_far(by: float) -> bool:
            return self._is_found([x + by * m for x, m in zip(noise, move, strict=True)], n_draws)

        if not is_moved_far(1.0):
            return 1.0
        for _ in range(12):  # geometric: to 0.4 % of the result
            middle = math.sqrt(low * size)
            low, size = (low, middle) if is_moved_far(middle) else (middle, size)
        while size < 1.0:
            true = np.clip(cells.mean - size * unit, 0.0, 1.0)
            drawn = draw_residuals(
                self.cells, n_draws, rng, correlation=self.correlation, truth=true
            )
            if self._is_found(self._sums(drawn), n_draws):
                off = cells.mean - true
                return math.sqrt(float(cells.weight @ off**2) / float(cells.weight.sum()))
            size *= 1.1
        return 1.0

    def _sums(self, residual: Floats) -> list[Floats]:
        """Return what each test needs of residuals ``[M, J]``; nothing where it sees others."""
        nothing = np.empty((0, residual.shape[1]))
        return [nothing if test.sums is None else test.sums(residual) for test in self.tests]

    def _is_found(self, sums: Sequence[Floats], n: int) -> bool:
        """Return whether most of the `n` columns of `_sums` are."""
        statistics = [
            test.null[:n] if test.of_sums is None else test.of_sums(found)
            for test, found in zip(self.tests, sums, strict=True)
        ]
        seen = np.stack(statistics)
        pairs = zip(self.tests, seen, strict=True)
        alone = np.stack([1 + _exceeding(test.null, each) for test, each in pairs])
        # All tests together have no smaller p-value than the best of them alone.
        could = (alone / (1 + self.drawn.shape[1])).min(axis=0) < ALPHA
        if not could.any():
            return False
        return bool(np.count_nonzero(self._p_values(seen[:, could]) < ALPHA) / n >= POWER)


def _slack(values: Floats) -> Floats:
    """Return the rounding within which statistics are equal."""
    return np.where(np.isfinite(values), 1e-9 * np.maximum(1.0, np.abs(values)), 0.0)


def _exceeding(null: Floats, seen: Floats) -> Floats:
    """Return how many of `null` reach each of `seen`."""
    found = len(null) - np.searchsorted(np.sort(null), seen - _slack(seen))
    return found.astype(np.float64)
