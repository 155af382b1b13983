"""Smooth calibration error (smECE)."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics.binning import bin_sums

GRID = 1 << 15
"""Cells of the grid on [0, 1] that `smooth_ece` computes on."""
MIN_WIDTHS = 4
"""The least bandwidth, in grid cells: below it a Gaussian is not resolved."""
COARSE = 1 << 11
"""Cells of the grid that the search for the fixed point starts on."""
MAX_SECANTS = 40


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
    return float(smooth_errors(at, mass[:, None], GRID, tolerance=1e-13)[0])


def smooth_errors(at: Floats, mass: Floats, grid: int, *, tolerance: float) -> Floats:
    r"""Return smooth ECE of each column of `mass` ``[M, D]``, to `tolerance` of itself.

    The error falls like a power of the bandwidth, so the fixed point is sought on a log-log
    scale, where a secant step is nearly exact. A bandwidth has at least `MIN_WIDTHS` cells.
    """
    from scipy.fft import dct

    n = mass.shape[1]
    spectrum = dct(_on_grid(at, mass, grid), type=1) / grid
    decay = -0.5 * (np.pi * np.arange(grid + 1)) ** 2

    def error(log_sigma: Floats, cells: int) -> Floats:
        """Return the errors from curves on this many cells."""
        sigma = np.exp(log_sigma)
        # modes beyond are damped by exp(-9**2 / 2)
        kept = min(cells + 1, math.ceil(9.0 / (np.pi * float(sigma.min()))))
        damped = np.zeros((n, cells + 1))
        damped[:, :kept] = spectrum[:, :kept] * np.exp(np.outer(sigma**2, decay[:kept]))
        curve = np.abs(dct(damped, type=1)) / (2.0 * cells)
        return np.asarray(curve.sum(axis=1) - 0.5 * (curve[:, 0] + curve[:, -1]))

    x, slope, found = np.full(n, math.log(0.02)), np.full(n, -0.5), np.zeros(n)
    for cells, near in ((min(grid, COARSE), max(tolerance, 1e-5)), (grid, tolerance)):
        lowest = math.log(MIN_WIDTHS / cells)
        x = np.maximum(x, lowest)
        found = error(x, cells)
        for _ in range(MAX_SECANTS):
            y = np.log(np.maximum(found, 1e-300))
            new = np.clip((y - slope * x) / (1.0 - slope), lowest, 0.0)
            moved = new - x
            if np.abs(moved).max() <= near:
                break
            found = error(new, cells)
            rise = np.log(np.maximum(found, 1e-300)) - y
            rise = np.divide(rise, moved, out=slope.copy(), where=np.abs(moved) > 1e-6)
            x, slope = new, np.clip(rise, -2.0, 0.0)
    return found


def _on_grid(at: Floats, mass: Floats, grid: int) -> Floats:
    """Return the density ``[D, grid + 1]`` of masses shared out between grid neighbours."""
    n, position = mass.shape[1], at * grid
    left = np.minimum(position.astype(np.intp), grid - 1)
    to_right = (position - left)[:, None] * mass
    place = left if n == 1 else (left[:, None] + (grid + 1) * np.arange(n)).reshape(-1)
    size = n * (grid + 1)
    density = bin_sums(place, (mass - to_right).reshape(-1), size)
    density += bin_sums(place + 1, to_right.reshape(-1), size)
    density = density.reshape(n, grid + 1) * grid
    density[:, [0, -1]] *= 2.0  # reflected at the ends, where a grid point owns half a cell
    return density
