"""Rows that several parts of a data set share."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.errors import Doubt
from focalibrate.io.predictions import Predictions

LEAST_ROWS = 20
"""Fewer equal rows, or labels in the same order, may be so by chance."""


def row_hashes(scores: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number for each row's scores and label."""
    rows = np.ascontiguousarray(scores, np.float32).view(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        found = labels.astype(np.uint64)
        for column in rows.T:
            found = (found ^ column) * np.uint64(0x9E3779B97F4A7C15)
            found ^= found >> np.uint64(29)
    return found


def same_rows(batches: Sequence[Predictions]) -> list[str]:
    """Return a warning where parts hold the same rows, or scores of two models for them."""
    if len({batch.source for batch in batches}) < 2:
        return []
    parts = list[tuple[Path, NDArray[np.uint64], NDArray[np.int64]]]()
    for path, group in groupby(batches, key=lambda batch: batch.source):
        known = [(b.scores, b.labels) for b in group if b.labels is not None]
        if known:
            hashes = np.concatenate([row_hashes(scores, labels) for scores, labels in known])
            parts.append((path, hashes, np.concatenate([labels for _, labels in known])))
    if not parts:
        return []
    return _repeated(parts) or _same_labels(parts)


def _repeated(parts: Sequence[tuple[Path, NDArray[np.uint64], Any]]) -> list[str]:
    """Return a warning where more rows are in two parts than rows repeat within one.

    Scores of few distinct values are equal by chance, as often within a part as across parts.
    """
    sizes = np.array([len(hashes) for _, hashes, _ in parts], np.float64)
    once = [np.unique(hashes) for _, hashes, _ in parts]
    n_within = sizes.sum() - sum(map(len, once))
    seen, count = np.unique(np.concatenate(once), return_counts=True)
    n_across = int((count - 1).sum())
    pairs = sizes.sum() ** 2 - (sizes**2).sum()
    chance = 5.0 * (n_within + 1.0) * pairs / (sizes**2).sum()
    if n_across < max(LEAST_ROWS, chance):
        return []
    again = seen[count > 1]
    names = [path.name for path, hashes, _ in parts if np.isin(again, hashes).any()]
    return [
        Doubt(
            f"WARNING: {n_across:,} rows are in more than one part (same scores, same label), "
            f"such as {names[0]} and {names[1]}, and count more than once"
        )
    ]


def _same_labels(parts: Sequence[tuple[Path, Any, NDArray[np.int64]]]) -> list[str]:
    """Return a warning where two parts have the same labels in the same order."""
    known = dict[bytes, Path]()
    for path, _, labels in parts:
        if len(labels) < LEAST_ROWS or np.count_nonzero(np.diff(labels)) < LEAST_ROWS / 2:
            continue
        first = known.setdefault(labels.tobytes(), path)
        if first != path:
            return [
                Doubt(
                    f"WARNING: {first.name} and {path.name} have the same labels in the same "
                    "order: if they are two models on the same rows, use `focalibrate compare`"
                )
            ]
    return []
