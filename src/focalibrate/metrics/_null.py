"""Simulated outcomes of a calibrated model, for the test and the noise floors."""

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics._cells import SCALES, Cells, EventBins, Ints
from focalibrate.metrics.binning import bin_sums

NORMAL_VARIANCE = 20.0
"""Cells whose number of hits has a larger variance are drawn from the normal distribution."""
COUNTED_TRIALS = 8
"""Up to this many trials, uniform numbers are faster than the binomial generator."""

Counts = NDArray[np.int64]


def draw_residuals(cells: Cells, n_draws: int, rng: np.random.Generator) -> Floats:
    r"""Return residual sums of the cells under :math:`y^* \sim c`, shape ``[M, n_draws]``.

    Hits of a cell are binomial with its mean probability, or normal if their variance is so
    large that it makes no difference. The residual is scaled to the exact variance of the cell,
    which differs from the binomial one where its rows differ in weight.
    """
    n = np.rint(cells.rows).astype(np.int64)
    p = cells.mean
    exact = cells.rows * p * (1.0 - p)
    ratio = np.divide(cells.variance, exact, out=np.zeros_like(exact), where=exact > 0)
    residual = np.empty((len(n), n_draws))
    is_normal = exact >= NORMAL_VARIANCE
    normal = rng.standard_normal((int(is_normal.sum()), n_draws))
    residual[is_normal] = np.sqrt(cells.variance[is_normal])[:, None] * normal
    few, p_few = n[~is_normal], p[~is_normal]
    hits = _binomial(few, p_few, n_draws, rng)
    expected = (cells.rows[~is_normal] * p_few)[:, None]
    residual[~is_normal] = np.sqrt(ratio[~is_normal])[:, None] * (expected - hits)
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


def indicator(index: Ints, n_bins: int, sign: Floats) -> Floats:
    """Return the matrix ``[n_bins, M]`` that sums cells in the bins `index`."""
    matrix = np.zeros((n_bins, len(index)))
    matrix[index, np.arange(len(index))] = sign
    return matrix


def share_matrix(view: EventBins, weight: Floats, n_bins: int) -> Floats:
    """Return the same for bins of equal mass; a cell across a border is split between them."""
    _, group = np.unique(view.cell, return_inverse=True)  # tied cells are cut together
    mass = np.bincount(group, weight)
    end = np.cumsum(mass)
    border = end[-1] * np.arange(n_bins + 1) / n_bins
    low = np.maximum(border[:-1, None], (end - mass)[None, :])
    high = np.minimum(border[1:, None], end[None, :])
    return np.asarray((np.maximum(high - low, 0.0) / mass)[:, group] * view.sign)


def scale_statistic(residual: Floats, variance: Floats) -> Floats:
    r"""Return :math:`\max_B (\sum_b S_b^2/V_b - B)/\sqrt{2B}` for each column of `residual`.

    Args:
        residual: residual sums of the finest bins, shape ``[SCALES, D]``.
        variance: their variances if calibrated, shape ``[SCALES]``.

    ``B`` halves from `SCALES` to 1 and counts the bins that can vary. A residual in a bin
    that cannot is impossible for a calibrated model: the statistic is infinite.
    """
    best = np.full(residual.shape[1], -np.inf if variance.any() else 0.0)
    s, v = residual, variance
    while True:
        varies = v > 0
        if varies.any():
            n = int(varies.sum())
            chi2 = np.sum(s[varies] ** 2 / v[varies, None], axis=0)
            np.maximum(best, (chi2 - n) / np.sqrt(2.0 * n), out=best)
        impossible = (np.abs(s[~varies]) > 1e-9).any(axis=0)
        best[impossible] = np.inf
        if len(v) == 1:
            return best
        s, v = s[0::2] + s[1::2], v[0::2] + v[1::2]


def finest(view: EventBins, values: Floats) -> Floats:
    """Return sums of `values` ``[M]`` or ``[M, D]`` over the finest bins of the test."""
    return indicator(view.scale, SCALES, view.sign) @ values


def finest_variance(view: EventBins, cells: Cells) -> Floats:
    """Return the variance of the residual sums in the finest bins of the test."""
    return bin_sums(view.scale, cells.variance, SCALES)
