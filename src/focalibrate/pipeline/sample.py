"""Which rows of a data set are fitted on, evaluated on and shown: by a hash of their position.

The same rows for any batches and any number of workers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.engines import Backend
from focalibrate.io import Predictions, Scan, align
from focalibrate.io.repeats import SharedRows
from focalibrate.pipeline.examples import Examples, zeros_note
from focalibrate.pipeline.work import (
    Chunk,
    chunks_of,
    in_order,
    outcomes_of,
    part_tasks,
    rows_of_pieces,
)

FIT_ROWS = 200_000
FIT_ENTRIES = 40_000_000
"""Default limits on the rows, and on the scores, that methods are fitted on."""
SHOWN_ROWS = 50_000
SHOWN_ENTRIES = 10_000_000
"""Limits on the evaluated rows, and scores, that the diagrams of the page are drawn from."""
LARGEST_HASH = 2**64 - 1
MOVED = 4096
"""Rows moved at once when the buffer is tidied."""


def fit_rows_of(n_classes: int, asked: int | None = None) -> int:
    """Return the most rows that methods are fitted on: fewer if there are many classes.

    Example:
        >>> fit_rows_of(10), fit_rows_of(1000), fit_rows_of(1000, asked=100_000)
        (200000, 40000, 100000)
    """
    return asked if asked is not None else max(1000, min(FIT_ROWS, FIT_ENTRIES // n_classes))


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


@dataclass(frozen=True, eq=False)
class Drawn:
    """The rows with the smallest hashes.

    Attributes:
        examples: in the order of their hashes.
        hashes: of these rows, in ascending order.
        rows: of each piece of the data set, those of weight 0 included.
        n_rows: rows in all, without those of weight 0.
        n_zero_rows: rows in all with a probability of exactly 0.
        least_positive: the smallest probability above 0 in all rows.
        shared: what shows that parts hold the same rows.
    """

    examples: Examples
    hashes: NDArray[np.uint64]
    rows: tuple[int, ...]
    n_rows: int
    n_zero_rows: int = 0
    least_positive: float = 1.0
    shared: SharedRows = field(default_factory=SharedRows)


@dataclass(frozen=True, kw_only=True)
class DrawTask:
    """What is needed to draw rows of a chunk."""

    chunk: Chunk
    n_keep: int
    class_names: tuple[str, ...] | None
    limit: int = LARGEST_HASH
    """the largest hash of a row to keep"""


def draw(
    scan: Scan,
    n_keep: int,
    class_names: tuple[str, ...] | None = None,
    *,
    backend: Backend | None = None,
) -> Drawn:
    """Return the `n_keep` rows with the smallest hashes, in one pass.

    Workers know how many rows there are, and so about how large the hash of the last row kept
    is: each sends its share of the sample, not as many rows as the sample has.

    Args:
        scan: all rows, with labels.
        n_keep: most rows to keep.
        class_names: the order to put the classes in, by name.
        backend: where the rows are read in parallel; None: in this process.
    """
    if backend is None:  # one task counts the rows as it reads them
        whole = Chunk(at=tuple(part_tasks(scan)), first=0, n_rows=0)
        return _drawn(scan, [DrawTask(chunk=whole, n_keep=n_keep, class_names=class_names)], None)
    chunks = chunks_of(scan, rows_of_pieces(scan, backend))
    n_rows = sum(chunk.n_rows for chunk in chunks)
    wanted = n_keep + 6 * math.sqrt(n_keep) + 16  # so that they are almost surely enough
    share = wanted / max(n_rows, 1)
    while True:
        limit = min(LARGEST_HASH, int(share * LARGEST_HASH))
        tasks = [
            DrawTask(chunk=chunk, n_keep=n_keep, limit=limit, class_names=class_names)
            for chunk in chunks
        ]
        found = _drawn(scan, tasks, backend)
        if len(found.hashes) >= min(n_keep, found.n_rows):
            return found
        share = max(2 * share, wanted / found.n_rows)  # many rows have a weight of 0


def _drawn(scan: Scan, tasks: Sequence[DrawTask], backend: Backend | None) -> Drawn:
    names = [task.chunk.name for task in tasks]
    parts = list(in_order(outcomes_of(backend, draw_chunk, tasks, names)))
    n_used = sum(part.n_rows for part in parts)
    if not n_used:
        raise ValueError(f"{scan.source}: has no rows with a weight above 0.")
    hashes = np.concatenate([part.hashes for part in parts])
    order = np.argsort(hashes)[: tasks[0].n_keep]
    filled = [part.examples for part in parts if part.examples.n_rows] or [parts[0].examples]
    shared = SharedRows()
    for part in parts:
        shared.merge(part.shared)
    return Drawn(
        filled[0] if len(filled) == 1 else Examples.joined(filled).take(order),
        hashes[order],
        tuple(n for part in parts for n in part.rows),
        n_used,
        sum(part.n_zero_rows for part in parts),
        min(part.least_positive for part in parts),
        shared,
    )


def draw_chunk(task: DrawTask) -> Drawn:
    """Return the rows of a chunk that have the smallest hashes."""
    kept: _Buffer | None = None
    n_rows = n_zero_rows = 0
    least = 1.0
    rows, start, shared = [], task.chunk.first, SharedRows()
    for piece in task.chunk.at:
        before, is_part = start, len(piece.data.parts) > 1
        for given in piece.batches():
            if is_part:
                shared.add(given)
            batch = align(given, task.class_names)
            if batch.labels is None:
                raise ValueError(f"{batch.source}: no labels found. Pass --labels FILE.")
            positions = np.arange(start, start + batch.n_rows, dtype=np.int64)
            start += batch.n_rows
            is_used = np.ones(batch.n_rows, bool) if batch.weights is None else batch.weights > 0
            n_rows += int(is_used.sum())
            if batch.kind == "probs":
                used = batch.scores[is_used]
                n_zero_rows += int((used == 0).any(axis=1).sum())
                least = float(np.min(used, where=used > 0, initial=least))
            if kept is None:
                kept = _Buffer(task.n_keep, batch, task.limit)
            kept.add(row_hash(positions), batch, is_used)
        rows.append(start - before)
    if kept is None:
        kept = _Buffer(0, task.chunk.at[0].scan().first, 0)
    return Drawn(*kept.drawn(), tuple(rows), n_rows, n_zero_rows, least, shared)


class _Buffer:
    """A buffer of rows with small hashes; when it is full, the larger ones are dropped."""

    def __init__(self, n_keep: int, like: Predictions, limit: int) -> None:
        self.n_keep, self.used, self.like = n_keep, 0, like
        self.limit = np.uint64(limit)
        room = n_keep + n_keep // 4 + 1
        self.hashes = np.empty(room, np.uint64)
        self.columns = {
            name: np.empty((room, *array.shape[1:]), array.dtype if name in SCORES else object)
            for name, array in _columns(like).items()
        }

    def add(
        self, hashes: NDArray[np.uint64], batch: Predictions, is_used: NDArray[np.bool_]
    ) -> None:
        chosen = np.flatnonzero(is_used & (hashes <= self.limit))
        given = _columns(batch)
        while len(chosen):
            free = len(self.hashes) - self.used
            if not free:
                self._tidy()
                chosen = chosen[hashes[chosen] <= self.limit]
                continue
            some, chosen = chosen[:free], chosen[free:]
            to = slice(self.used, self.used + len(some))
            self.hashes[to] = hashes[some]
            for name, array in self.columns.items():
                array[to] = given[name][some]
            self.used += len(some)

    def _tidy(self) -> None:
        """Keep the smallest hashes, moving rows down a few at a time: no second copy is made."""
        if self.used <= self.n_keep:
            return
        kept = np.argpartition(self.hashes[: self.used], self.n_keep - 1)[: self.n_keep]
        kept.sort()
        self.limit = self.hashes[kept].max()
        for array in (self.hashes, *self.columns.values()):
            for start in range(0, len(kept), MOVED):
                piece = kept[start : start + MOVED]
                array[start : start + len(piece)] = array[piece]
        self.used = self.n_keep

    def drawn(self) -> tuple[Examples, NDArray[np.uint64]]:
        self._tidy()
        order = np.argsort(self.hashes[: self.used])
        found = {name: array[order] for name, array in self.columns.items()}
        examples = Examples(
            scores=found["scores"],
            kind=self.like.kind,
            labels=found["labels"],
            weights=found.get("weights"),
            groups={name: _plain(found[f"by {name}"]) for name in self.like.groups},
            class_names=self.like.class_names,
        )
        return examples, self.hashes[order]


SCORES = ("scores", "labels", "weights")


def _columns(batch: Predictions) -> dict[str, NDArray[Any]]:
    """Return what is kept of each row; groups as objects, whose type may change with batches."""
    labels = np.empty(batch.n_rows, np.int64) if batch.labels is None else batch.labels
    found: dict[str, NDArray[Any]] = {"scores": batch.scores, "labels": labels}
    if batch.weights is not None:
        found["weights"] = batch.weights
    return found | {f"by {name}": np.asarray(c) for name, c in batch.groups.items()}


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return objects as numbers if all are numbers, else as text."""
    found = np.array(values.tolist())
    return found if found.dtype.kind in "biuf" else values


@dataclass(frozen=True, eq=False, kw_only=True)
class ChosenRows:
    """Which rows are used for what."""

    fitted: Examples
    """rows to fit on"""
    shown: Examples
    """rows evaluated on that the diagrams are drawn from"""
    limit: int | None
    """rows of the data set with a larger hash are evaluated on; None: all of the test set are"""
    n_source: int
    """rows of the data set"""
    n_tested: int
    """rows to evaluate on"""
    rows: tuple[int, ...]
    """of each piece of the data set that is evaluated on"""
    notes: tuple[str, ...]
    """what was done to probabilities of 0, and whether parts share rows"""


def choose_rows(
    source: Scan,
    test: Scan | None,
    fit_rows: int | None,
    *,
    backend: Backend | None = None,
) -> ChosenRows:
    """Return the rows to fit on, at most half of all, and to show."""
    names, k = source.class_names, source.n_classes
    n_fit = fit_rows_of(k, fit_rows)
    n_shown = max(1, min(SHOWN_ROWS, SHOWN_ENTRIES // k))
    if test is None:
        drawn = draw(source, n_fit + n_shown, names, backend=backend)
        n_fit = min(n_fit, drawn.n_rows // 2)
        shown, n_tested = drawn.examples.take(slice(n_fit, None)), drawn.n_rows - n_fit
        limit: int | None = int(drawn.hashes[n_fit - 1])
        every = [drawn]
    else:
        every = [draw(source, n_fit, names, backend=backend)]
        every.append(draw(test, n_shown, names, backend=backend))
        shown, limit, n_tested = every[1].examples, None, every[1].n_rows
    mix, notes = zeros_note(
        sum(one.n_zero_rows for one in every), min(one.least_positive for one in every), k
    )
    again = [note for one in every for note in one.shared.notes()]
    fitted = replace(every[0].examples.take(slice(0, n_fit)), predictions=source.first)
    shown = replace(shown, predictions=(test or source).first)
    return ChosenRows(
        fitted=fitted.with_zero_mix(mix),
        shown=shown.with_zero_mix(mix),
        limit=limit,
        n_source=every[0].n_rows,
        n_tested=n_tested,
        rows=every[-1].rows,
        notes=(*notes, *again),
    )
