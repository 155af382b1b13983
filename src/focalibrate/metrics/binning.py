"""Which bin a confidence falls in, and how bins of equal mass are cut."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import check_count, check_edges, check_n_bins


def equal_width_edges(n_bins: int) -> Floats:
    """Return the ``n_bins + 1`` edges ``b / n_bins``, each the float64 nearest to it."""
    check_n_bins(n_bins)
    return np.arange(n_bins + 1) / n_bins


def log_odds_edges(n_cells: int = 4096) -> Floats:
    r"""Return the edges of `n_cells` cells that are equally wide in log-odds.

    .. math:: e_j = \sigma\!\left(-16 + \frac{32\,(j-1)}{J-2}\right),\quad e_0 = 0,\ e_J = 1

    Cells for `ReliabilityTable.equal_mass`: they stay narrow where networks put their
    confidence, within ``1e-7`` of 1, where equally wide cells hold everything in one.

    Args:
        n_cells: number of cells ``J``, ``>= 3``.

    Returns:
        Increasing edges from 0 to 1, shape ``[J + 1]``, float64.

    Example:
        >>> log_odds_edges(4).round(3)
        array([0. , 0. , 0.5, 1. , 1. ])
    """
    check_count(n_cells, name="n_cells", minimum=3)
    odds = np.exp(np.linspace(-16.0, 16.0, n_cells - 1))
    return np.concatenate([[0.0], odds / (1.0 + odds), [1.0]])


def read_edges(edges: object) -> Floats:
    """Return `edges` as a checked float64 array."""
    array = np.asarray(edges, dtype=np.float64)
    check_edges(array)
    return array


def equal_width_index(values: NDArray[np.floating], n_bins: int) -> NDArray[np.intp]:
    r"""Return ``b - 1`` for the bin ``((b-1)/B, b/B]`` of each value in [0, 1]; 0 goes to bin 1.

    Numerics:
        Exact: the same as comparing with the float64 edges one by one. ``trunc(v * B)`` is
        never too low (for ``v`` above the float nearest to ``b/B``, ``v * B > b``, and
        rounding is monotone) and too high by at most one, which one comparison mends.
        ``ceil(v * B) - 1`` alone misplaces edges: ``0.07 * 100`` is ``7.000000000000001``.
    """
    v = values.astype(np.float64, copy=False)
    lower = equal_width_edges(n_bins)[:-1]
    lower[0] = -1.0  # nothing lies below the first bin
    index = (v * n_bins).astype(np.intp)
    np.minimum(index, n_bins - 1, out=index)
    index -= v <= lower[index]
    return index


def edges_index(values: NDArray[np.floating], edges: Floats) -> NDArray[np.intp]:
    """Return the same for bins ``(edges[b-1], edges[b]]``."""
    inner = edges[1:-1]
    return np.searchsorted(inner, values.astype(np.float64, copy=False), side="left")


def bin_sums(index: NDArray[np.intp], values: NDArray[Any], n_bins: int) -> Floats:
    """Return the float64 sum of `values` in each of `n_bins` bins."""
    return np.bincount(index, values, n_bins).astype(np.float64, copy=False)


def equal_mass_sizes(n: int, n_bins: int) -> NDArray[np.intp]:
    """Return `n_bins` sizes that differ by at most one, larger ones first, and sum to `n`."""
    size, larger = divmod(n, n_bins)
    return size + (np.arange(n_bins) < larger).astype(np.intp)


def split_equal_mass(
    count: Floats, sums: tuple[Floats, ...], n_bins: int
) -> tuple[Floats, tuple[Floats, ...], NDArray[np.intp]]:
    r"""Cut groups of interchangeable examples, in order of confidence, into equal-mass bins.

    A group that crosses a boundary gives each side its share of the group's sums, so with
    cumulative count :math:`N_g` and sum :math:`S_g` a bin's sum is the difference of the
    piecewise linear :math:`S(N)` at its two boundaries.

    Args:
        count: weight of the examples in each group, shape ``[G]``. If every count is whole,
            the bins are too.
        sums: for each quantity its sum in each group, shape ``[G]``.
        n_bins: number of bins ``B``; those beyond the number of examples stay empty.

    Returns:
        Weight per bin ``[B]``, each quantity's sum per bin ``[B]``, and the index of
        the group each bin ends in ``[B]``.
    """
    running = np.cumsum(count)
    if (count == np.rint(count)).all():
        ends = np.cumsum(equal_mass_sizes(round(running[-1]), n_bins)).astype(np.float64)
    else:
        ends = running[-1] * np.arange(1, n_bins + 1) / n_bins
    ends[-1] = running[-1]
    sizes = np.diff(ends, prepend=0.0)
    group = np.searchsorted(running, ends, side="left")
    missing = (running[group] - ends) / count[group]  # share of the group beyond the boundary
    per_bin = tuple(
        np.diff(np.cumsum(total)[group] - missing * total[group], prepend=0.0) for total in sums
    )
    return sizes, per_bin, group
