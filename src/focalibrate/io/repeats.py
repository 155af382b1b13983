"""Rows that several parts of a data set share."""

import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.errors import Doubt
from focalibrate.io.predictions import Predictions

LEAST_ROWS = 20
"""Fewer equal rows, or labels in the same order, may be so by chance."""

MOST_ROWS = 1 << 17
"""Most rows that are remembered; of more, those are that a hash of them chooses."""


def row_hashes(scores: NDArray[Any], labels: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number for each row's scores and label."""
    rows = np.ascontiguousarray(scores, np.float32).view(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        found = labels.astype(np.uint64)
        for column in rows.T:
            found = (found ^ column) * np.uint64(0x9E3779B97F4A7C15)
            found ^= found >> np.uint64(29)
    return found


class SharedRows:
    """What shows that parts hold the same rows; that of several workers can be put together.

    Attributes:
        limit: rows are remembered whose first and last score and label have no larger hash, so
            that of equal rows all or none are.
        rows: of each part, such hashes, and those of the whole rows, ``[2, n]``.
        sizes: rows of each part.
        labels: of each part, what its labels are in their order, and how often they change.
    """

    def __init__(self) -> None:
        self.limit = np.uint64(2**64 - 1)
        self.rows = dict[Path, NDArray[np.uint64]]()
        self.sizes = Counter[Path]()
        self.labels = dict[Path, tuple[int, int]]()

    def add(self, batch: Predictions) -> None:
        """Add a batch of a part, after those before it."""
        y, path = batch.labels, batch.source
        if y is None:
            return
        digest, changes = self.labels.get(path, (0, 0))
        changes += int(np.count_nonzero(np.diff(y)))
        self.labels[path] = zlib.crc32(y.tobytes(), digest), changes
        self.sizes[path] += batch.n_rows
        choice = row_hashes(batch.scores[:, [0, -1]], y)
        few = np.flatnonzero(choice <= self.limit)
        whole = row_hashes(batch.scores[few], y[few])
        self._keep(path, np.stack([choice[few], whole]))

    def merge(self, other: "SharedRows") -> None:
        """Add what was found in other rows, after these."""
        self.limit = min(self.limit, other.limit)
        self.sizes += other.sizes
        for path, rows in other.rows.items():
            self._keep(path, rows)
        for path, (digest, changes) in other.labels.items():
            if path in self.labels:
                mine, own = self.labels[path]
                digest, changes = zlib.crc32(repr((mine, digest)).encode()), own + changes
            self.labels[path] = digest, changes

    def _keep(self, path: Path, rows: NDArray[np.uint64]) -> None:
        known = self.rows.get(path)
        self.rows[path] = rows if known is None else np.concatenate([known, rows], axis=1)
        while sum(rows.shape[1] for rows in self.rows.values()) > MOST_ROWS and self.limit:
            self.limit //= np.uint64(2)
            self.rows = {p: r[:, r[0] <= self.limit] for p, r in self.rows.items()}

    def notes(self) -> list[str]:
        """Return a warning where parts hold the same rows, or scores of two models for them."""
        if len(self.rows) < 2:
            return []
        return self._repeated() or self._same_labels()

    def _repeated(self) -> list[str]:
        """Return a warning where more rows are in two parts than rows repeat within one.

        Scores of few distinct values are equal by chance, as often within a part as across parts.
        """
        hashes = {path: rows[1, rows[0] <= self.limit] for path, rows in self.rows.items()}
        sizes = np.array([len(some) for some in hashes.values()], np.float64)
        once = {path: np.unique(some) for path, some in hashes.items()}
        n_within = sizes.sum() - sum(map(len, once.values()))
        seen, count = np.unique(np.concatenate(list(once.values())), return_counts=True)
        n_across = int((count - 1).sum())
        pairs = sizes.sum() ** 2 - (sizes**2).sum()
        chance = 5.0 * (n_within + 1.0) * pairs / max(1.0, (sizes**2).sum())
        if n_across < max(LEAST_ROWS, chance):
            return []
        again = seen[count > 1]
        names = [path.name for path, some in once.items() if np.isin(again, some).any()]
        share = sizes.sum() / sum(self.sizes.values())
        n_rows = f"{n_across:,}" if share == 1 else f"about {n_across / share:,.2g}"
        return [
            Doubt(
                f"WARNING: {n_rows} rows are in more than one part (same scores, same label), "
                f"such as {names[0]} and {names[1]}, and count more than once"
            )
        ]

    def _same_labels(self) -> list[str]:
        """Return a warning where two parts have the same labels in the same order."""
        known = dict[tuple[int, int, int], Path]()
        for path, (digest, changes) in self.labels.items():
            n_rows = self.sizes[path]
            if n_rows < LEAST_ROWS or changes < LEAST_ROWS / 2:
                continue
            first = known.setdefault((n_rows, digest, changes), path)
            if first != path:
                return [
                    Doubt(
                        f"WARNING: {first.name} and {path.name} have the same labels in the same "
                        "order: if they are two models on the same rows, use `focalibrate compare`"
                    )
                ]
        return []
