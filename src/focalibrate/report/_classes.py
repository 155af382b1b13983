"""One class at a time: a table, and what the page needs for the diagram of any class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.report._packed import pack

POOLED_BELOW = 0.04
"""Rows below this probability of a class are pooled: the narrowest bin of the page, 1/25."""
MAX_ENTRIES = 120_000


def class_entries(
    before: NDArray[np.floating], after: NDArray[np.floating], labels: NDArray[np.intp]
) -> dict[str, Any]:
    """Return the probabilities of each class above `POOLED_BELOW`, and the sums of the rest.

    Entries are in order of class, those whose label is the class first. Equal-width bins of the
    page come out exact (all that is pooled lies in the first); equal-mass bins see the pooled
    rows as ties.

    Args:
        before: probabilities ``[N, K]`` of the model.
        after: the same, calibrated.
        labels: class indices ``[N]``.
    """
    n, k = _n_shown(before, after), before.shape[1]
    before, after, labels = before[:n], after[:n], labels[:n]
    is_shown = np.maximum(before, after) > POOLED_BELOW
    row, column = np.nonzero(is_shown)
    is_label = labels[row] == column
    order = np.lexsort((row, ~is_label, column))
    row, column, is_label = row[order], column[order], is_label[order]
    p, q = before[row, column], after[row, column]
    counts = np.bincount(column, minlength=k)
    hits = np.bincount(column[is_label], minlength=k)
    rest = [
        values.sum(axis=0, dtype=np.float64) - np.bincount(column, shown, minlength=k)
        for values, shown in ((before, p), (after, q))
    ]
    return {
        "n": n,
        "pooled_below": POOLED_BELOW,
        "counts": pack(counts.astype(np.uint32)),
        "hits": pack(hits.astype(np.uint32)),
        "before": pack(_sixteen_bits(p)),
        "after": pack(_sixteen_bits(q)),
        "rest_hits": pack((np.bincount(labels, minlength=k) - hits).astype(np.uint32)),
        "rest_before": pack(np.maximum(rest[0], 0.0).astype(np.float32)),
        "rest_after": pack(np.maximum(rest[1], 0.0).astype(np.float32)),
    }


def _sixteen_bits(p: NDArray[np.floating]) -> NDArray[np.uint16]:
    codes: NDArray[np.uint16] = np.rint(p.astype(np.float64) * 65535).astype(np.uint16)
    return codes


def _n_shown(before: NDArray[np.floating], after: NDArray[np.floating]) -> int:
    """Return how many of the rows, the first ones, have at most `MAX_ENTRIES` entries."""
    running = np.cumsum((np.maximum(before, after) > POOLED_BELOW).sum(axis=1))
    return max(1, int(np.searchsorted(running, MAX_ENTRIES, side="right")))
