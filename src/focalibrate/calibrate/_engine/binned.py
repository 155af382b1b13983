"""Binned calibration errors of the top label, fast enough for thousands of grid points.

The same numbers as `focalibrate.metrics.ece` and `adaptive_ece`, from confidences that are
known to be valid, without the tables those keep.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import is_whole
from focalibrate.metrics.binning import equal_mass_sizes, equal_width_index


def weighted_mean(values: NDArray[Any], weights: Floats | None) -> float:
    """Return the mean, weighted where there are weights."""
    if weights is None:
        return float(values.mean())
    return float(values @ weights / weights.sum())


def equal_width_error(
    confidence: Floats,
    correct: NDArray[np.bool_],
    n_bins: int,
    *,
    weights: Floats | None = None,
) -> float:
    r"""Return :math:`\frac1N \sum_b |\sum_{i\in b} c_i - \hat p_i|` over bins of equal width."""
    index = equal_width_index(confidence, n_bins)
    gaps = confidence - correct
    if weights is not None:
        gaps *= weights
    total = len(confidence) if weights is None else weights.sum()
    return float(np.abs(np.bincount(index, gaps, n_bins)).sum() / total)


def equal_mass_error(
    confidence: Floats,
    correct: NDArray[np.bool_],
    n_bins: int,
    *,
    weights: Floats | None = None,
) -> float:
    r"""Return the same over bins of equal mass, ties sharing their mean correctness.

    Numerics:
        Correctness rides in the lowest bit of the confidence, so that one sort of plain
        numbers (four times faster than finding the order) arranges both. That moves a
        confidence by 1e-16, and makes ties of neighbours in floating point.
    """
    if weights is not None:
        return _weighted_equal_mass_error(confidence, correct, n_bins, weights)
    bits = confidence.view(np.int64) & -2
    bits |= correct
    packed = bits.view(np.float64)
    packed.sort()
    right = (packed.view(np.int64) & 1).astype(np.float64)
    ends = np.cumsum(equal_mass_sizes(len(packed), n_bins))
    starts = ends - np.diff(ends, prepend=0)
    starts, ends = starts[starts < ends], ends[starts < ends]
    gaps = np.add.reduceat(packed - right, starts)
    moved = np.array([_beyond(packed, right, end) for end in ends[:-1].tolist()])
    if moved.any():
        gaps[:-1] += moved
        gaps[1:] -= moved
    return float(np.abs(gaps).sum() / len(packed))


def _beyond(packed: Floats, right: Floats, cut: int) -> float:
    """Return how many right answers the tie group at `cut` has too many on its left side.

    Sorting put the wrong answers of a tie group first; a fair share of the group's right
    answers belongs on each side of the cut.
    """
    value = packed[cut].view(np.int64) | 1
    if packed[cut - 1].view(np.int64) | 1 != value:
        return 0.0
    low, high = (value - 1).view(np.float64), value.view(np.float64)
    start = int(np.searchsorted(packed, low, side="left"))
    stop = int(np.searchsorted(packed, high, side="right"))
    share = (cut - start) / (stop - start)
    return float(right[start:cut].sum() - share * right[start:stop].sum())


def _weighted_equal_mass_error(
    confidence: Floats, correct: NDArray[np.bool_], n_bins: int, weights: Floats
) -> float:
    """Return the error over bins of equal weight; a row cut by an edge counts on both sides.

    Whole-number weights give what that many copies of each row would.
    """
    _, group = np.unique(confidence.view(np.int64) & -2, return_inverse=True)
    mass = np.cumsum(np.bincount(group, weights))
    gap = np.cumsum(np.bincount(group, weights * (confidence - correct)))
    total = float(mass[-1])
    if is_whole(weights):
        ends = np.cumsum(equal_mass_sizes(round(total), n_bins)).astype(np.float64)
    else:
        ends = total * np.arange(1, n_bins + 1) / n_bins
    reached = np.interp(ends, np.append(0.0, mass), np.append(0.0, gap))
    return float(np.abs(np.diff(reached, prepend=0.0)).sum() / total)
