"""Rows that come in clusters: how strongly they depend, and outcomes drawn accordingly."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from focalibrate._array import Floats
from focalibrate.metrics._cells import Cells, Ints
from focalibrate.metrics._intervals import Line

LEAST_CLUSTERS = 50
"""With fewer, tests reject too many calibrated models: the correlation cannot be estimated."""
CORRELATIONS = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(20)
MATCHED_ROWS = 20_000
"""Rows, in whole clusters, from which the correlation is estimated."""
DRAWN_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Clusters:
    """The rows of an event, in order of its probability, and the cluster of each."""

    code: Ints
    """number of the cluster ``[N]``"""
    cell: Ints
    """number of the cell of each row ``[N]``, ascending"""
    probability: Floats
    weight: Floats
    residual: Floats
    """w (c - y)"""
    correlation: float
    """of the Gaussian copula within clusters"""

    @property
    def n(self) -> int:
        """Number of clusters."""
        return int(self.code.max()) + 1

    def draw(self, n_draws: int, rng: np.random.Generator, moved: Floats | None = None) -> Floats:
        r"""Return residual sums of the cells ``[M, n_draws]`` under a Gaussian copula.

        .. math:: y^*_i = 1\big[\sqrt\rho\, a_g + \sqrt{1-\rho}\, e_i < \Phi^{-1}(c_i)\big]

        Args:
            n_draws: number of draws.
            rng: source of the draws.
            moved: by how much the true probability of each cell is below the stated one ``[M]``.
        """
        c, w = self.probability, self.weight.astype(np.float32)
        q = c if moved is None else np.clip(c - moved[self.cell], 0.0, 1.0)
        limit = ndtri(q).astype(np.float32)[:, None]
        first = np.flatnonzero(np.diff(self.cell, prepend=-1))
        expected = np.add.reduceat(self.weight * c, first)[:, None]
        common, own = (
            np.float32(np.sqrt(self.correlation)),
            np.float32(np.sqrt(1.0 - self.correlation)),
        )
        step = max(1, DRAWN_AT_ONCE // len(c))
        found = np.empty((len(first), n_draws))
        for start in range(0, n_draws, step):
            size = min(step, n_draws - start)
            noise = own * rng.standard_normal((len(c), size), dtype=np.float32)
            noise += (common * rng.standard_normal((self.n, size), dtype=np.float32))[self.code]
            hits = np.where(noise < limit, w[:, None], np.float32(0.0))
            sums = np.add.reduceat(hits, first, axis=0, dtype=np.float64)
            found[:, start : start + size] = expected - sums
        return found

    def binned(self, index: Ints, n_bins: int, variance: Floats) -> Cells:
        """Return sums over bins of cells; squares are of the sums of a cluster in a bin.

        Args:
            index: bin of each cell ``[M]``.
            n_bins: number of bins.
            variance: of the residual sum of each bin if calibrated.
        """
        place, pair = np.unique(self.code * n_bins + index[self.cell], return_inverse=True)
        at = place % n_bins
        r, w = (
            np.bincount(pair.reshape(-1), x).astype(np.float64)
            for x in (self.residual, self.weight)
        )

        def sums(x: Floats, where: Ints) -> Floats:
            return np.bincount(where, x, n_bins).astype(np.float64)

        rows = index[self.cell]
        weight, probability = sums(self.weight, rows), sums(self.weight * self.probability, rows)
        residual = sums(r, at)
        return Cells(
            sums(np.ones(len(rows)), rows), weight, sums(w * w, at), probability,
            probability - residual, sums(r * r, at), variance,
        )  # fmt: skip


def clusters_of(fine: Cells, cell: Ints, code: Ints | None, line: Line | None) -> Clusters | None:
    """Return the clusters of rows, one fine cell each; None where there are none.

    Args:
        fine: the rows in order of probability.
        cell: cell of each row.
        code: cluster of each row; None: all are independent.
        line: calibration line of the rows, None where there is none.
    """
    if code is None:
        return None
    p = np.clip(fine.mean, 1e-12, 1.0 - 1e-12)
    if line is not None:
        p = expit(line.intercept.estimate + line.slope.estimate * logit(p))
    rho = correlation_within(code, p, np.clip(fine.outcome / fine.weight, 0.0, 1.0))
    return Clusters(code, cell, fine.mean, fine.weight, fine.residual, rho)


def correlation_within(code: Ints, recalibrated: Floats, outcome: Floats) -> float:
    r"""Return the correlation of the copula that explains products of residuals in clusters.

    The mean of :math:`(y_i - p_i)(y_j - p_j)` over pairs of a cluster is matched with its
    expectation given the common factor, by quadrature, on a grid. The residuals are from the
    calibration line, so that miscalibration is not taken for correlation.
    """
    if len(code) > MATCHED_ROWS:
        keep = code % (-(-len(code) // MATCHED_ROWS)) == 0
        code, recalibrated, outcome = code[keep], recalibrated[keep], outcome[keep]
    _, code = np.unique(code, return_inverse=True)
    code = code.reshape(-1)
    size = np.bincount(code)
    pairs = float(size @ (size - 1.0))
    if pairs == 0.0:
        return 0.0

    def products(x: Floats) -> float:
        sums = np.bincount(code, x)
        return float(sums @ sums - x @ x) / pairs

    seen = products(outcome - recalibrated)
    limit = ndtri(np.clip(recalibrated, 1e-9, 1.0 - 1e-9))
    expected = [0.0]
    for rho in CORRELATIONS[1:]:
        total = 0.0
        for node, weight in zip(NODES, WEIGHTS, strict=True):
            given = ndtr((limit - np.sqrt(rho) * node) / np.sqrt(1.0 - rho))
            total += weight * products(given - recalibrated)
        expected.append(total / float(WEIGHTS.sum()))
        if expected[-1] > seen:
            break
    rising = np.maximum.accumulate(expected)
    return float(np.interp(seen, rising, CORRELATIONS[: len(rising)]))
