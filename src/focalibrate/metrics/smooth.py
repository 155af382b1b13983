"""Smooth calibration error (smECE)."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate.metrics.binning import bin_sums
from focalibrate.metrics.rows import Event, event_rows, read, read_weights

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
    event: Event = "top label",
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
        event: ``"top label"``, or a class: the error of its probability.
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
    confidence, correct = event_rows(*read(probs, labels, binary=binary), event)
    weights = read_weights(sample_weight, len(confidence))
    return smooth_ece_of_rows(confidence, correct, weights)


def smooth_ece_of_rows(
    confidence: Floats, correct: NDArray[Any], weights: Floats | None = None
) -> float:
    """Return `smooth_ece` of confidences and outcomes that have been checked."""
    residual = confidence - correct
    if weights is None:
        return smooth_ece_of_residuals(confidence, residual / len(residual))
    return smooth_ece_of_residuals(confidence, weights * residual / weights.sum())


def smooth_ece_of_residuals(at: Floats, mass: Floats) -> float:
    """Return the same of masses at points of [0, 1]: shares of the rows times residuals."""
    from scipy.fft import dct
    from scipy.optimize import brentq

    density = _share_out(at, mass) * GRID
    density[[0, -1]] *= 2.0  # reflected at the ends, where a grid point owns half a cell
    spectrum = dct(density, type=1) / GRID
    decay = -0.5 * (np.pi * np.arange(GRID + 1)) ** 2

    def error(sigma: float, cells: int = GRID) -> float:
        """Return the error from the curve on this many cells."""
        # modes beyond are damped by exp(-9**2 / 2)
        kept = min(cells + 1, math.ceil(9.0 / (np.pi * sigma)))
        damped = np.zeros(cells + 1)
        damped[:kept] = spectrum[:kept] * np.exp(decay[:kept] * sigma**2)
        curve = np.abs(dct(damped, type=1)) / (2.0 * cells)
        return float(curve.sum() - 0.5 * (curve[0] + curve[-1]))

    def fixed_point(cells: int, xtol: float) -> float:
        """Return the bandwidth that is its own error: as the error falls with it, the one root."""
        low = MIN_WIDTHS / cells
        if error(low, cells) <= low:
            return low
        if error(1.0, cells) >= 1.0:  # every confidence is 1 and every row wrong, to rounding
            return 1.0
        return float(brentq(lambda sigma: error(sigma, cells) - sigma, low, 1.0, xtol=xtol))

    near = _secant(error, fixed_point(COARSE, 1e-6))
    return error(fixed_point(GRID, 1e-12)) if near is None else near


def _share_out(at: Floats, mass: Floats) -> Floats:
    """Return masses at points of [0, 1] shared linearly between the two nearest grid points."""
    position = at * GRID
    left = np.minimum(position.astype(np.intp), GRID - 1)
    to_right = (position - left) * mass
    stays = bin_sums(left, mass - to_right, GRID + 1)
    return stays + bin_sums(left + 1, to_right, GRID + 1)


def _secant(error: Callable[[float], float], start: float) -> float | None:
    """Return the fixed point of `error` near `start`; None if a few steps do not find it."""
    before, sigma = start, error(start)
    gap_before = sigma - before
    for _ in range(MAX_SECANTS):
        if not MIN_WIDTHS / GRID < sigma < 1.0:
            return None
        value = error(sigma)
        gap = value - sigma
        if abs(gap) <= 1e-12:
            return value
        if gap == gap_before:
            return None
        before, sigma, gap_before = sigma, sigma - gap * (sigma - before) / (gap - gap_before), gap
    return None
