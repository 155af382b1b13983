"""Probabilities of single rows: what the page needs for any class, threshold and cost."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.report._packed import pack, sample_of

MAX_ENTRIES = 120_000
MAX_ROWS = 20_000
MAX_DENSE_CLASSES = 16
"""With more classes than this, only probabilities that are not close to 0 are kept."""
POOLED_BELOW = (0.002, 0.005, 0.01, 0.02, 0.04)
"""Probabilities below one of these limits are pooled: below the first with which the entries
fit into `MAX_ENTRIES`. The last is the width of the page's narrowest bin, 1/25."""
PILOT = 400
"""Number of rows from which the size of a row is estimated."""


def plan_entries(
    before: NDArray[np.floating], after: NDArray[np.floating], *, n: int
) -> tuple[int, float]:
    """Return how many of `n` rows are shown, and below which probability they are pooled.

    Args:
        before: probabilities of some rows ``[P, K]``.
        after: the same, calibrated.
        n: number of rows.
    """
    k = before.shape[1]
    n = min(n, MAX_ROWS)
    if k <= MAX_DENSE_CLASSES:
        return min(n, MAX_ENTRIES // _width(k)), 0.0
    larger = np.maximum(before, after)
    for floor in POOLED_BELOW:
        per_row = float((larger > floor).sum()) / len(larger)
        if n * per_row <= MAX_ENTRIES:
            return n, floor
    return int(MAX_ENTRIES / per_row), POOLED_BELOW[-1]


def _width(n_classes: int) -> int:
    return 1 if n_classes == 2 else n_classes


@dataclass(eq=False)
class Entries:
    """Probabilities before and after of the rows shown, gathered block by block.

    With `floor` 0 every probability is kept (for two classes, that of class 1). Otherwise
    entries are kept by class, those whose label is the class first, and small ones are pooled:
    equal-width bins of the page are exact, since all pooled entries lie in the first bin;
    elsewhere the pooled rows count as ties.
    """

    rows: NDArray[np.intp]
    """rows shown, in ascending order"""
    n_classes: int
    floor: float
    _parts: list[tuple[NDArray[Any], ...]] = field(default_factory=list)
    _rest: list[NDArray[np.float64]] = field(default_factory=list)

    def add(
        self,
        start: int,
        before: NDArray[np.floating],
        after: NDArray[np.floating],
        labels: NDArray[np.intp],
    ) -> None:
        """Take what is shown of the rows `start`, `start + 1`, ...: probabilities ``[B, K]``."""
        first, last = np.searchsorted(self.rows, [start, start + len(labels)])
        at = self.rows[first:last] - start
        targets = labels[at]
        if self.floor == 0.0:
            columns = slice(-_width(self.n_classes), None)
            codes = (_sixteen_bits(x[at, columns]) for x in (before, after))
            self._parts.append((targets, *codes))
            return
        kept = before[at], after[at]
        row, column = np.nonzero(np.maximum(*kept) > self.floor)
        is_label = targets[row] == column
        p, q = (x[row, column] for x in kept)
        self._parts.append((column, is_label, p, q))
        k = self.n_classes
        counts = np.bincount(targets, minlength=k) - np.bincount(column[is_label], minlength=k)
        sums = [
            x.sum(axis=0, dtype=np.float64) - np.bincount(column, shown, minlength=k)
            for x, shown in zip(kept, (p, q), strict=True)
        ]
        self._rest.append(np.stack([counts, *sums]))

    def record(self) -> dict[str, Any]:
        """Return all entries as JSON; `frontend/src/entries.ts` reads it."""
        columns = [np.concatenate(x) for x in zip(*self._parts, strict=True)]
        if self.floor == 0.0:
            labels, before, after = columns
            return {
                "n": len(labels),
                "pooled_below": 0.0,
                "labels": pack(labels.astype(np.uint8)),
                "before": pack(before),
                "after": pack(after),
            }
        column, is_label, before, after = columns
        order = np.lexsort((~is_label, column))
        rest = np.maximum(sum(self._rest[1:], self._rest[0]), 0.0)
        k = self.n_classes
        return {
            "n": len(self.rows),
            "pooled_below": self.floor,
            "counts": pack(np.bincount(column, minlength=k).astype(np.uint32)),
            "hits": pack(np.bincount(column[is_label], minlength=k).astype(np.uint32)),
            "before": pack(_sixteen_bits(before[order])),
            "after": pack(_sixteen_bits(after[order])),
            "rest_hits": pack(rest[0].astype(np.uint32)),
            "rest_before": pack(rest[1].astype(np.float32)),
            "rest_after": pack(rest[2].astype(np.float32)),
        }


def _sixteen_bits(p: NDArray[np.floating]) -> NDArray[np.uint16]:
    codes: NDArray[np.uint16] = np.rint(p.astype(np.float64) * 65535).astype(np.uint16)
    return codes


def planned_entries(
    probs: Callable[[Any], tuple[NDArray[Any], NDArray[Any]]],
    n: int,
    k: int,
    weights: Floats | None,
    rng: np.random.Generator,
) -> Entries:
    """Return the collector of the rows shown: all, or a random sample if not all fit."""
    pilot = np.sort(rng.permutation(n)[:PILOT])
    n_shown, floor = plan_entries(*probs(pilot), n=n)
    return Entries(sample_of(n, n_shown, weights, rng), k, floor)
