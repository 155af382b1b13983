"""A sample of rows by a hash of their position: the same for any batches and workers."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io import PredictionFileError, Predictions, Scan, align
from focalibrate.pipeline.examples import Examples

LARGEST_HASH = 2**64 - 1
MOVED = 4096
"""Rows moved at once when the buffer is tidied."""


def row_hash(positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a random-looking number for each position (SplitMix64), the same on every machine.

    Example:
        >>> row_hash(np.arange(2)).tolist()
        [16294208416658607535, 7960286522194355700]
    """
    with np.errstate(over="ignore"):
        z = (positions.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


class Positions:
    """Counts rows over all parts: the position of a row is the number of rows before it.

    Rows that are left out for missing values are not counted.
    """

    def __init__(self, first: int = 0) -> None:
        self.next = first

    def of(
        self, batches: Iterable[Predictions], class_names: tuple[str, ...] | None
    ) -> Iterator[tuple[NDArray[np.int64], Predictions]]:
        """Yield the batches, their classes in this order, each with the positions of its rows."""
        for batch in batches:
            found = align(batch, class_names)
            start, self.next = self.next, self.next + found.n_rows
            yield np.arange(start, self.next, dtype=np.int64), found


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows with the smallest hashes.

    Attributes:
        examples: in the order of their hashes.
        hashes: of these rows, in ascending order.
        n_rows: rows in all, without those of weight 0.
        n_zero_rows: rows in all with a probability of exactly 0.
        least_positive: the smallest probability above 0 in all rows.
    """

    examples: Examples
    hashes: NDArray[np.uint64]
    n_rows: int
    n_zero_rows: int
    least_positive: float = 1.0


def draw(scan: Scan, n_keep: int, class_names: tuple[str, ...] | None) -> Drawn:
    """Return the `n_keep` rows with the smallest hashes, in one pass or by looking them up.

    Args:
        scan: all rows, with labels.
        n_keep: most rows to keep.
        class_names: the order to put the classes in, by name.
    """
    if can_look_up(scan):
        with suppress(PredictionFileError):  # one pass over all rows says which row it is
            return _looked_up(scan, n_keep, class_names)
    found = draw_from(Positions().of(scan.batches(), class_names), n_keep)
    if found is None:
        raise ValueError(f"{scan.source}: holds no rows.")
    return found


def can_look_up(scan: Scan) -> bool:
    """Return whether rows are drawn without reading the others."""
    return scan.can_take and scan.has_labels and scan.kind == "logits"


def draw_from(
    found: Iterable[tuple[NDArray[np.int64], Predictions]],
    n_keep: int,
    *,
    limit: int = LARGEST_HASH,
) -> Drawn | None:
    """Return the rows with the smallest hashes of those given; None if none are given.

    Args:
        found: batches with labels, and the positions of their rows.
        n_keep: most rows to keep.
        limit: the largest hash of a row to keep.
    """
    room = n_keep + n_keep // 4 + 1
    kept: _Buffer | None = None
    n_rows = n_zero_rows = 0
    least = 1.0
    for positions, batch in found:
        if batch.labels is None:
            raise ValueError(f"{batch.source}: no labels found. Pass --labels FILE.")
        is_used = np.ones(len(positions), bool) if batch.weights is None else batch.weights > 0
        n_rows += int(is_used.sum())
        if batch.kind == "probs":
            used = batch.scores[is_used]
            n_zero_rows += int((used == 0).any(axis=1).sum())
            least = float(np.min(used, where=used > 0, initial=least))
        if kept is None:
            kept = _Buffer(room, n_keep, batch, limit)
        kept.add(row_hash(positions), batch, is_used)
    if kept is None:
        return None
    return Drawn(*kept.drawn(), n_rows, n_zero_rows, least)


def _looked_up(scan: Scan, n_keep: int, class_names: tuple[str, ...] | None) -> Drawn:
    """Return the rows with the smallest hashes, reading no others."""
    n_rows = scan.n_rows or 0
    hashes = row_hash(np.arange(n_rows, dtype=np.int64))
    chosen = np.argsort(hashes)[:n_keep]
    places = np.argsort(chosen)  # of the rows in ascending order
    scores = np.empty((len(chosen), scan.n_classes), scan.first.scores.dtype)
    labels = np.empty(len(chosen), np.int64)
    groups = {name: np.empty(len(chosen), object) for name in scan.first.groups}
    done = 0
    for batch in scan.take(chosen[places]):
        found = align(batch, class_names)
        to = places[done : done + found.n_rows]
        scores[to] = found.scores
        if found.labels is not None:
            labels[to] = found.labels
        for name, values in groups.items():
            values[to] = found.groups[name]
        done += found.n_rows
    examples = Examples(
        scores=scores,
        kind=scan.kind,
        labels=labels,
        groups={name: _plain(values) for name, values in groups.items()},
        class_names=scan.class_names if class_names is None else class_names,
    )
    return Drawn(examples, hashes[chosen], n_rows, 0)


class _Buffer:
    """A buffer of rows with small hashes; when it is full, the larger ones are dropped."""

    def __init__(self, room: int, n_keep: int, like: Predictions, limit: int) -> None:
        self.n_keep, self.used = n_keep, 0
        self.limit = np.uint64(limit)
        self.kind, self.class_names = like.kind, like.class_names
        self.hashes = np.empty(room, np.uint64)
        self.scores = np.empty((room, like.n_classes), like.scores.dtype)
        self.labels = np.empty(room, np.int64)
        self.weights = None if like.weights is None else np.empty(room)
        self.groups: dict[str, NDArray[Any]] = {
            name: np.empty(room, object) for name in like.groups
        }

    def add(
        self, hashes: NDArray[np.uint64], batch: Predictions, is_used: NDArray[np.bool_]
    ) -> None:
        chosen = np.flatnonzero(is_used & (hashes <= self.limit))
        while len(chosen):
            free = len(self.hashes) - self.used
            if not free:
                self._tidy()
                chosen = chosen[hashes[chosen] <= self.limit]
                continue
            some, chosen = chosen[:free], chosen[free:]
            to = slice(self.used, self.used + len(some))
            self.hashes[to] = hashes[some]
            self.scores[to] = batch.scores[some]
            if batch.labels is not None:
                self.labels[to] = batch.labels[some]
            if self.weights is not None and batch.weights is not None:
                self.weights[to] = batch.weights[some]
            for name, values in self.groups.items():
                values[to] = batch.groups[name][some]
            self.used += len(some)

    def _tidy(self) -> None:
        """Keep the smallest hashes, moving rows down a few at a time: no second copy is made."""
        if self.used <= self.n_keep:
            return
        kept = np.argpartition(self.hashes[: self.used], self.n_keep - 1)[: self.n_keep]
        kept.sort()
        self.limit = self.hashes[kept].max()
        arrays = [self.hashes, self.scores, self.labels, *self.groups.values()]
        for array in [*arrays, *([] if self.weights is None else [self.weights])]:
            for start in range(0, len(kept), MOVED):
                piece = kept[start : start + MOVED]
                array[start : start + len(piece)] = array[piece]
        self.used = self.n_keep

    def drawn(self) -> tuple[Examples, NDArray[np.uint64]]:
        self._tidy()
        order = np.argsort(self.hashes[: self.used])
        examples = Examples(
            scores=self.scores[order],
            kind=self.kind,
            labels=self.labels[order],
            weights=None if self.weights is None else self.weights[order],
            groups={name: _plain(values[order]) for name, values in self.groups.items()},
            class_names=self.class_names,
        )
        return examples, self.hashes[order]


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects as numbers if all are numbers, else as text."""
    found = np.array(values.tolist())
    return found if found.dtype.kind in "biuf" else values
