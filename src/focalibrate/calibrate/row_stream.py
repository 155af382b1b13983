"""Rows that do not fit into memory, read anew by every pass of a fit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from focalibrate._array import Floats
from focalibrate._check import is_whole
from focalibrate.calibrate._input import FLOAT32_ABOVE, ScoredRows


@dataclass
class RowCounts:
    """What is counted of rows before they are fitted to.

    Attributes:
        n_rows: number of rows, without those of weight 0.
        weight: sum of their weights.
        squares: sum of the squared weights.
        is_whole: every weight is a whole number.
        is_weighted: there are weights at all.
    """

    n_rows: int = 0
    weight: float = 0.0
    squares: float = 0.0
    is_whole: bool = True
    is_weighted: bool = False

    def add(self, n_rows: int, weights: Floats | None) -> None:
        """Count some rows, none of weight 0."""
        self.n_rows += n_rows
        self.weight += n_rows if weights is None else float(weights.sum())
        self.squares += n_rows if weights is None else float((weights**2).sum())
        self.is_whole = self.is_whole and (weights is None or is_whole(weights))
        self.is_weighted = self.is_weighted or weights is not None

    @property
    def size(self) -> float:
        """Number of rows that the weights amount to; see `ScoredRows.size`."""
        return self.weight if self.is_whole else self.weight**2 / self.squares


@dataclass(frozen=True, eq=False)
class RowStream:
    """Rows in batches, which can be read again from the first to the last.

    Attributes:
        batches: begins a pass over the rows; none has weight 0.
        counts: of all rows.
        n_classes: number of classes.
        itemsize: bytes of a score.
        known: what fits found that others need as well.
    """

    batches: Callable[[], Iterator[ScoredRows]]
    counts: RowCounts
    n_classes: int
    itemsize: int
    known: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, batches: Callable[[], Iterator[ScoredRows]]) -> "RowStream":
        """Return the stream of some batches, counted by a pass over them."""
        counts, n_classes, itemsize = RowCounts(), 0, 8
        for batch in batches():
            counts.add(batch.n_rows, batch.weights)
            n_classes, itemsize = batch.n_classes, batch.logits.itemsize
        if not counts.n_rows:
            raise ValueError("`batches` must hold at least one row, got none.")
        return cls(batches, counts, n_classes, itemsize)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.counts.n_rows

    @property
    def dtype(self) -> Any:
        """What fits work in: the same as if all rows were in memory."""
        is_large = self.n_rows * self.n_classes > FLOAT32_ABOVE and self.itemsize <= 4
        return np.float32 if is_large else np.float64

    def thinned(self, rows: slice) -> ScoredRows:
        """Return a strided subset of the rows, in memory."""
        key = f"thinned {rows.step}"
        if key not in self.known:
            step, start = rows.step or 1, 0
            parts = []
            for batch in self.batches():
                # Copied: a slice would keep its whole batch in memory until the last is read.
                parts.append(batch.take(np.arange(-start % step, batch.n_rows, step)))
                start += batch.n_rows
            self.known[key] = _joined(parts)
        found: ScoredRows = self.known[key]
        return found


def _joined(parts: list[ScoredRows]) -> ScoredRows:
    weights = None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate(
            [np.ones(p.n_rows) if p.weights is None else p.weights for p in parts]
        )
    return ScoredRows(
        np.concatenate([part.logits for part in parts]),
        np.concatenate([part.labels for part in parts]),
        weights,
        parts[0].zero_mix,
    )
