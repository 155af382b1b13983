"""The cell of a confidence among thousands, found without a search."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics.binning import equal_width_edges, log_odds_edges

MANTISSA_BITS = 8
SMALLEST = 2.0**-26
"""Distances to 0 or 1 below this share a key; the edges of `log_odds_edges` lie above."""
_SHIFT = 52 - MANTISSA_BITS
_LOWEST = int(np.float64(SMALLEST).view(np.int64) >> _SHIFT)
_HALF = int(np.float64(0.5).view(np.int64) >> _SHIFT) - _LOWEST


@lru_cache(maxsize=8)
def fine_edges(n_cells: int, n_bins: int) -> Floats:
    """Return the edges of `log_odds_edges` and of `n_bins` equally wide bins, each once."""
    return np.union1d(log_odds_edges(n_cells), equal_width_edges(n_bins))


@dataclass(frozen=True, eq=False)
class FineIndex:
    r"""The index of `edges_index`, exactly, about ten times as fast on thousands of edges.

    The exponent and the first bits of the distance to 0 or 1, whichever is nearer, rise with
    the value and are equally wide in log-odds to within a factor of two. A table says how many
    edges lie below each; the few that share the value's own bits are compared one by one.
    """

    inner: Floats
    """all edges but the first and last, and an infinite one"""
    start: NDArray[np.intp]
    """inner edges below each key"""
    n_compared: int
    """most edges that share a key"""

    @classmethod
    def of(cls, edges: Floats) -> "FineIndex":
        """Prepare the index of bins ``(edges[b-1], edges[b]]``."""
        inner = edges[1:-1]
        keys = _keys(inner)
        start = np.searchsorted(keys, np.arange(2 * _HALF + 2))
        shared = int(np.bincount(keys).max(initial=0))
        return cls(np.append(inner, np.inf), start.astype(np.intp), shared)

    def __call__(self, values: Floats) -> NDArray[np.intp]:
        """Return the bin of each float64 value in [0, 1]."""
        index: NDArray[np.intp] = self.start[_keys(values)]
        for _ in range(self.n_compared):
            index += values > self.inner[index]
        return index


@lru_cache(maxsize=8)
def fine_index(n_cells: int, n_bins: int) -> FineIndex:
    """Return the index of `fine_edges`, prepared once."""
    return FineIndex.of(fine_edges(n_cells, n_bins))


def _keys(values: Floats) -> NDArray[np.intp]:
    """Return integers that do not decrease as the values increase."""
    is_high = values > 0.5
    near = np.where(is_high, 1.0 - values, values)  # exact: no bit of a value above 1/2 is lost
    key = np.maximum((near.view(np.int64) >> _SHIFT) - _LOWEST, 0)
    found: NDArray[np.intp] = np.where(is_high, 2 * _HALF + 1 - key, key)
    return found
