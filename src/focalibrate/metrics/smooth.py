"""Smooth calibration error (smECE)."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._stable.cosine import cosine_transform, inverse_cosine_transform
from focalibrate._stable.roots import root
from focalibrate.metrics._rows import read, read_weights, top_label
from focalibrate.metrics.binning import bin_sums

GRID = 1 << 15
"""Cells of the grid on [0, 1] that `smooth_ece` computes on."""
MIN_WIDTHS = 4
"""The least bandwidth, in grid cells: below it a Gaussian is not resolved."""
COARSE = 1 << 11
"""Cells of the grid that the search for the fixed point starts on."""
MAX_SECANTS = 10


def smooth_ece(
    probs: Array,
    labels: Array,
    *,
    sample_weight: Array | None = None,
    binary: bool = False,
) -> float:
    r"""Smooth expected calibration error of the top label, free of bins.

    With confidence :math:`f_i`, correctness :math:`y_i` and the Gaussian kernel
    :math:`K_\sigma` reflected at 0 and 1,

    .. math:: \mathrm{smECE}_\sigma = \int_0^1 \Bigl|\frac1N \sum_i
              K_\sigma(t, f_i)\,(f_i - y_i)\Bigr|\,dt, \qquad
              \mathrm{smECE} = \mathrm{smECE}_{\sigma^*}\ \text{with}\
              \mathrm{smECE}_{\sigma^*} = \sigma^*

    The bandwidth is a fixed point, so there is nothing to choose; the value is continuous
    in the probabilities and within a constant factor of the distance to calibration.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        sample_weight: weights ``[...]``; whole numbers count repeated rows.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float in ``[0, 1]``.

    Numerics:
        Residuals are shared out between the neighbours on a grid of step
        :math:`h = 2^{-15}`; the reflected kernel, all its images included, is diagonal in
        the cosine basis, so each bandwidth costs one transform. Sharing out widens the
        kernel to at most :math:`\sqrt{\sigma^2 + h^2/4}`: a relative error below
        :math:`(h/\sigma)^2/4`, 2e-6 at :math:`\sigma = 0.01`. Bandwidths below
        :math:`4h \approx 1.2\times10^{-4}` are not resolved: where the fixed point lies
        lower, the value at :math:`4h`, itself at most :math:`4h`, is returned.

    Example:
        >>> import numpy as np
        >>> round(smooth_ece(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 3)
        0.35

    References:
        Błasiok & Nakkiran (2023), *Smooth ECE: Principled Reliability Diagrams via Kernel
        Smoothing*.
    """
    confidence, correct = top_label(*read(probs, labels, binary=binary))
    weights = read_weights(sample_weight, len(confidence))
    return smooth_ece_of_rows(confidence, correct, weights)


def smooth_ece_of_rows(
    confidence: Floats,
    correct: NDArray[np.bool_],
    weights: Floats | None = None,
    *,
    grid: int = GRID,
) -> float:
    """Return `smooth_ece` of confidences and correctness that have been checked."""
    residual = confidence - correct
    if weights is not None:
        residual = weights * residual * (len(weights) / weights.sum())
    return smooth_ece_of_residuals(confidence, residual, grid=grid)


def smooth_ece_of_residuals(
    confidence: Floats, residual: Floats, *, grid: int, start: float | None = None
) -> float:
    """Return the same from confidence minus correctness, times how often each row counts.

    With a `start` close to the result, a few evaluations find it to 1e-9.
    """
    return _fixed_point(_share_out(confidence, residual / len(confidence), grid), start)


def _share_out(at: Floats, mass: Floats, grid: int) -> Floats:
    """Return masses at points of [0, 1] shared linearly between the two nearest grid points."""
    position = at * grid
    left = np.minimum(position.astype(np.intp), grid - 1)
    to_right = (position - left) * mass
    stays = bin_sums(left, mass - to_right, grid + 1)
    return stays + bin_sums(left + 1, to_right, grid + 1)


def _fixed_point(mass: Floats, start: float | None) -> float:
    r"""Return :math:`\mathrm{smECE}_{\sigma^*}`: as it falls with the bandwidth, the one root."""
    grid = len(mass) - 1
    density = mass * grid
    density[[0, -1]] *= 2.0  # reflected at the ends, where a grid point owns half a cell
    spectrum = cosine_transform(density) / grid
    decay = -0.5 * (np.pi * np.arange(grid + 1)) ** 2

    def error(sigma: float, cells: int = grid) -> float:
        """Return the error from the curve on this many cells."""
        # modes beyond are damped by exp(-9**2 / 2)
        kept = min(cells + 1, math.ceil(9.0 / (np.pi * sigma)))
        damped = np.zeros(cells + 1)
        damped[:kept] = spectrum[:kept] * np.exp(decay[:kept] * sigma**2)
        curve = np.abs(inverse_cosine_transform(damped))
        return float(curve.sum() - 0.5 * (curve[0] + curve[-1]))

    low = MIN_WIDTHS / grid
    near = None if start is None else _secant(error, max(start, low), low, 1e-9)
    if near is None and start is None and grid > COARSE:
        near = _secant(error, _coarse_start(error), low, 1e-12)
    if near is not None:
        return near
    if error(low) <= low:
        return error(low)
    if error(1.0) >= 1.0:  # every confidence is 1 and every row wrong, to rounding
        return 1.0
    return error(root(lambda sigma: error(sigma) - sigma, low, 1.0))


def _coarse_start(error: Callable[[float, int], float]) -> float:
    """Return about where the fixed point is, from a coarse curve; its least width otherwise."""
    low = MIN_WIDTHS / COARSE
    if error(low, COARSE) <= low or error(1.0, COARSE) >= 1.0:
        return low
    return root(lambda sigma: error(sigma, COARSE) - sigma, low, 1.0, xtol=1e-6)


def _secant(
    error: Callable[[float], float], start: float, low: float, tolerance: float
) -> float | None:
    """Return the fixed point of `error` near `start`, or None if it is not found in a few steps.

    As `error` falls with the bandwidth there is only one.
    """
    before, sigma = start, error(start)
    gap_before = sigma - before
    for _ in range(MAX_SECANTS):
        if not low < sigma < 1.0:
            return None
        value = error(sigma)
        gap = value - sigma
        if abs(gap) <= tolerance:
            return value
        if gap == gap_before:
            return None
        before, sigma, gap_before = sigma, sigma - gap * (sigma - before) / (gap - gap_before), gap
    return None
