"""The cells of every class: fine where there are few classes, bins where there are many."""

from functools import lru_cache

import numpy as np

from focalibrate._array import Floats
from focalibrate.metrics._fine_index import FineIndex
from focalibrate.metrics.binning import equal_width_edges, log_odds_edges

MOST_CELLS = 512
"""of one class: 1/16 wide in log-odds"""
LEAST_CELLS = 64
"""of one class; if there is not room for this many, there are only bins"""
ALL_CELLS = 1 << 16
"""of all classes together, about: 32 bytes each"""
SMALLEST = 1.0 / 128.0
"""Probabilities below share a cell; with more than 32 classes, those below 1 / (4 K)."""


def n_log_odds_cells(n_classes: int) -> int:
    """Return how many cells, equally wide in log-odds, a class is given; 0: bins only.

    Example:
        >>> [n_log_odds_cells(k) for k in (2, 10, 100, 128, 129, 1000, 1024, 1025)]
        [512, 512, 512, 512, 256, 64, 64, 0]
    """
    room = ALL_CELLS // n_classes
    return 0 if room < LEAST_CELLS else min(MOST_CELLS, 1 << (room.bit_length() - 1))


@lru_cache(maxsize=8)
def class_edges(n_classes: int, n_bins: int) -> Floats:
    """Return the edges of a class's cells, with those of `n_bins` equally wide bins among them."""
    bins, n = equal_width_edges(n_bins), n_log_odds_cells(n_classes)
    if n == 0:
        return bins
    fine = log_odds_edges(n)
    return np.union1d(bins, fine[fine >= min(SMALLEST, 0.25 / n_classes)])


@lru_cache(maxsize=8)
def class_index(n_classes: int, n_bins: int) -> FineIndex:
    """Return the index of `class_edges`, prepared once."""
    return FineIndex.of(class_edges(n_classes, n_bins))


def by_bin(sums: Floats, n_classes: int, n_bins: int) -> Floats:
    """Return sums over cells ``[..., C]`` as sums over bins ``[..., B]``; no cell crosses one."""
    starts = np.searchsorted(class_edges(n_classes, n_bins), equal_width_edges(n_bins)[:-1])
    return np.add.reduceat(sums, starts, axis=-1)
