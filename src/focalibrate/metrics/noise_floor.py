"""Noise floors: what each calibration error would be if the model were calibrated."""

import math

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from focalibrate._array import Floats
from focalibrate.metrics.binning import divided, equal_width_index, split_equal_mass
from focalibrate.metrics.cells import Cells
from focalibrate.metrics.interval import NoiseFloor
from focalibrate.metrics.null import indicator
from focalibrate.metrics.residuals import BINS, EventCells
from focalibrate.metrics.smooth import smooth_errors

SMOOTH_DRAWS = 199
"""Draws of smooth ECE, half of them on fine grids, where draws differ little."""


def noise_floors(event: EventCells, drawn: Floats) -> dict[str, NoiseFloor]:
    """Return the floors of ECE, AdaECE, MCE and smooth ECE from residual draws ``[M, D]``."""
    from scipy.sparse import csr_array  # as in `indicator`

    weight = event.sums.weight
    total = weight.sum()
    index = equal_width_index(event.sums.mean, BINS)
    wide = np.abs(indicator(index, BINS) @ drawn)
    mass = np.bincount(index, weight, BINS)
    filled = mass > 0
    _, group = np.unique(event.rank, return_inverse=True)  # tied cells are cut together
    tied = np.bincount(group, weight)
    shares, _ = split_equal_mass(np.vstack([tied, np.eye(len(tied))]), BINS)
    equal = np.abs(csr_array(shares[1:].T[:, group]) @ drawn)
    return {
        "ece": _floor(wide.sum(axis=0) / total),
        "adaptive_ece": _floor(equal.sum(axis=0) / total),
        "mce": _floor((wide[filled] / mass[filled, None]).max(axis=0)),
        "smooth_ece": _smooth_floor(event, drawn),
    }


def _smooth_floor(event: EventCells, drawn: Floats) -> NoiseFloor:
    """Return the floor of smooth ECE; the bandwidths of all draws are solved for at once.

    Numerics:
        On a grid of at least eight points per bandwidth, which is off by at most 0.4 %.
    """
    value = event.sums.mean
    residual = drawn[:, :SMOOTH_DRAWS] / event.sums.weight.sum()
    first = smooth_errors(value, residual[:, :8], 4096, tolerance=1e-3)
    least = float(first.min())
    if least <= 0.0:
        return NoiseFloor(0.0, 0.0)
    grid = 1 << min(13, max(7, math.ceil(math.log2(10.0 / least))))
    if grid > 1024:
        residual = residual[:, : SMOOTH_DRAWS // 2]
    return _floor(smooth_errors(value, residual, grid, tolerance=1e-3))


def classwise_floor(classes: Cells) -> NoiseFloor:
    r"""Return the floor of classwise ECE in closed form, from the bins of every class.

    In each bin of each class the hits of a calibrated model are a sum of independent
    outcomes with variance :math:`v = \sum p(1-p)`. Its mean absolute deviation is that of
    the binomial law with the bin's count and mean, scaled to :math:`v`: the familiar
    :math:`\sqrt{2v/\pi}` where :math:`v` is large, and right where it is small. Deviations
    add up; their sum is close to normal.
    """
    rows, k = classes.rows, classes.n_events
    mean = np.clip(np.nan_to_num(classes.confidence), 0.0, 1.0)
    flat = rows * mean * (1.0 - mean)
    share = divided(classes.spread, classes.weight)
    variance = share * np.maximum(classes.probability - classes.square, 0.0)
    ratio = divided(variance, flat, above=1e-300)
    mad = _binomial_mad(rows, mean) * np.sqrt(ratio)
    spread = math.sqrt(max(0.0, float((variance - mad**2).sum())))
    if k == 2:  # both classes show the same deviations
        spread *= math.sqrt(2.0)
    center, total = float(mad.sum()), float(classes.weight.sum())  # of all classes: K times
    return NoiseFloor(center / total, (center + 1.6449 * spread) / total)


def _binomial_mad(n: Floats, p: Floats) -> Floats:
    r"""Return the binomial :math:`E|X - np| = 2\nu\binom{n}{\nu}p^\nu q^{n-\nu+1}`.

    With :math:`\nu = \lfloor np \rfloor + 1`.

    References:
        de Moivre (1730); Diaconis & Zabell (1991), *Closed form summation for classical
        distributions*.
    """
    inside = (n > 0) & (p > 0) & (p < 1)
    n, p = n[inside], p[inside]
    nu = np.minimum(np.floor(n * p) + 1.0, np.maximum(n, 1.0))
    log = (
        gammaln(n + 1.0) - gammaln(nu) - gammaln(n - nu + 1.0)
        + xlogy(nu, p) + xlog1py(n - nu + 1.0, -p)
    )  # fmt: skip
    found = np.zeros(inside.shape)
    found[inside] = 2.0 * np.exp(log)
    return found


def _floor(values: Floats) -> NoiseFloor:
    median, high = np.quantile(values, [0.5, 0.95])
    return NoiseFloor(float(median), float(high))
