"""Which bin a confidence falls in, and how bins of equal mass are cut."""

from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from focalibrate._array import Floats
from focalibrate._check import check_count, check_edges, check_n_bins

Ints = NDArray[np.intp]
Closed = Literal["right", "left"]

MANTISSA_BITS = 8
SMALLEST = 2.0**-26
"""Distances to 0 or 1 below this share a key; the edges of `log_odds_edges` lie above."""
_SHIFT = 52 - MANTISSA_BITS
_LOWEST = int(np.float64(SMALLEST).view(np.int64) >> _SHIFT)
_HALF = int(np.float64(0.5).view(np.int64) >> _SHIFT) - _LOWEST


def equal_width_edges(n_bins: int) -> Floats:
    """Return the ``n_bins + 1`` edges ``b / n_bins``, each the float64 nearest to it."""
    check_n_bins(n_bins)
    return np.arange(n_bins + 1) / n_bins


def log_odds_edges(n_cells: int = 4096) -> Floats:
    r"""Return the edges of `n_cells` cells that are equally wide in log-odds.

    .. math:: e_j = \sigma\!\left(-16 + \frac{32\,(j-1)}{J-2}\right),\quad e_0 = 0,\ e_J = 1

    Edges for `Cells.equal_mass`: they stay narrow where networks put their
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


def edges_of(bins: int | ArrayLike) -> Floats:
    """Return the edges of a number of equally wide bins, or checked edges in float64."""
    if isinstance(bins, str) or np.ndim(bins) == 0:
        return equal_width_edges(bins)  # type: ignore[arg-type]
    array = np.asarray(bins, dtype=np.float64)
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


def index_of(values: NDArray[np.floating], edges: Floats, closed: Closed = "right") -> Ints:
    """Return the cell ``(edges[j], edges[j+1]]`` of each value in [0, 1], or ``[a, b)``.

    Equally wide bins are found by `equal_width_index`; 0 always falls in the first cell and 1 in
    the last.
    """
    if closed == "right" and _are_equal_width(edges):
        return equal_width_index(values, len(edges) - 1)
    side: Literal["left", "right"] = "left" if closed == "right" else "right"
    return np.searchsorted(edges[1:-1], values.astype(np.float64, copy=False), side=side)


def _are_equal_width(edges: Floats) -> bool:
    n = len(edges) - 1
    return n <= 1024 and np.array_equal(edges, equal_width_edges(n))


@final
class FineIndex:
    r"""The index of `index_of`, exactly, about three times as fast on thousands of edges.

    The exponent and the first bits of the distance to 0 or 1, whichever is nearer, rise with
    the value and are equally wide in log-odds to within a factor of two. A table says how many
    edges lie below each; the few that share the value's own bits are compared one by one.
    """

    def __init__(self, edges: Floats) -> None:
        """Prepare the index of cells ``(edges[j], edges[j+1]]``."""
        self.edges, self._is_equal_width = edges, _are_equal_width(edges)
        keys = _keys(edges[1:-1])
        self._below = np.searchsorted(keys, np.arange(2 * _HALF + 2)).astype(np.intp)
        self._inner = np.append(edges[1:-1], np.inf)
        self._n_compared = int(np.bincount(keys).max(initial=0))  # most edges that share a key

    def __call__(self, values: Floats) -> Ints:
        """Return the cell of each float64 value in [0, 1]."""
        if self._is_equal_width:
            return equal_width_index(values, len(self.edges) - 1)
        index: Ints = self._below[_keys(values)]
        for _ in range(self._n_compared):
            index += values > self._inner[index]
        return index


def _keys(values: Floats) -> Ints:
    """Return integers that do not decrease as the values increase."""
    is_high = values > 0.5
    near = np.where(is_high, 1.0 - values, values)  # exact: no bit of a value above 1/2 is lost
    key = np.maximum((near.view(np.int64) >> _SHIFT) - _LOWEST, 0)
    found: Ints = np.where(is_high, 2 * _HALF + 1 - key, key)
    return found


def bin_sums(index: NDArray[np.intp], values: NDArray[Any], n_bins: int) -> Floats:
    """Return the float64 sum of `values` in each of `n_bins` bins."""
    return np.bincount(index, values, n_bins).astype(np.float64, copy=False)


def divided(
    numerator: Any, denominator: Floats, default: Any = 0.0, *, above: Floats | float = 0.0
) -> Floats:
    """Return quotients where the denominator is larger than `above`, elsewhere `default`."""
    found: Floats = np.zeros(denominator.shape) + default
    np.divide(numerator, denominator, out=found, where=denominator > above)
    return found


def equal_mass_sizes(n: int, n_bins: int) -> NDArray[np.intp]:
    """Return `n_bins` sizes that differ by at most one, larger ones first, and sum to `n`."""
    size, larger = divmod(n, n_bins)
    return size + (np.arange(n_bins) < larger).astype(np.intp)


def split_equal_mass(sums: Floats, n_bins: int) -> tuple[Floats, Ints]:
    r"""Cut groups of interchangeable examples, in order of confidence, into equal-mass bins.

    A group that crosses a boundary gives each side its share of the group's sums, so with
    cumulative weight :math:`N_g` and sum :math:`S_g` a bin's sum is the difference of the
    piecewise linear :math:`S(N)` at its two boundaries.

    Args:
        sums: of each quantity and group ``[F, G]``, the first of them the weight. If every weight
            is whole, those of the bins are too.
        n_bins: number of bins ``B``; those beyond the number of examples stay empty.

    Returns:
        The sums per bin ``[F, B]``, and the index of the group each bin ends in ``[B]``.
    """
    count = sums[0]
    running = np.cumsum(sums, axis=1)
    total = running[0, -1]
    ends = equal_mass_ends(count, float(total), n_bins)
    group = np.searchsorted(running[0], ends, side="left")
    missing = (running[0, group] - ends) / count[group]  # share of the group beyond the boundary
    per_bin = np.diff(running[:, group] - missing * sums[:, group], axis=1, prepend=0.0)
    per_bin[0] = np.diff(ends, prepend=0.0)
    return per_bin, group


def equal_mass_ends(count: Floats, total: float, n_bins: int) -> Floats:
    """Return the weight up to the end of each bin: whole where every count is."""
    if (count == np.rint(count)).all():
        ends = np.cumsum(equal_mass_sizes(round(total), n_bins)).astype(np.float64)
    else:
        ends = total * np.arange(1, n_bins + 1) / n_bins
    ends[-1] = total
    return ends
