"""Which rows of a data set are fitted on, evaluated on and shown: by a hash of their position.

The same rows for any batches and any number of workers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator
from focalibrate.comparison import N_UNITS, Batch, Sums, judge
from focalibrate.engines import Backend
from focalibrate.io import Predictions, Scan, align
from focalibrate.io.join import SharedRows
from focalibrate.metrics.sketch import MAX_CLASSWISE
from focalibrate.pipeline.examples import Examples, Zeros
from focalibrate.pipeline.work import Chunk, chunks_of, in_order, outcomes_of, rows_of_pieces

FIT_ROWS = 200_000
FIT_ENTRIES = 40_000_000
"""Default limits on the rows, and on the scores, that methods are fitted on."""
SHOWN_ROWS = 50_000
SHOWN_ENTRIES = 10_000_000
"""Limits on the evaluated rows, and scores, that the diagrams of the page are drawn from."""
LARGEST_HASH = 2**64 - 1


FitRows = int | Literal["all"]
"""Most rows to fit on."""


def fit_rows_of(n_classes: int, asked: int | None = None) -> int:
    """Return the most rows that methods are fitted on: fewer if there are many classes.

    Example:
        >>> fit_rows_of(10), fit_rows_of(1000), fit_rows_of(1000, asked=100_000)
        (200000, 40000, 100000)
    """
    return asked if asked is not None else max(1000, min(FIT_ROWS, FIT_ENTRIES // n_classes))


def rows_to_fit(scan: Scan, fit_rows: FitRows | None = None) -> Predictions | None:
    """Return all rows where they are no more than are fitted on; None where they are more."""
    if fit_rows == "all" or scan.first.layout.form == "options":  # which are ranked row by row
        return scan.read()
    return scan.read_up_to(fit_rows_of(scan.n_classes, fit_rows))


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


def _hashed(
    batch: Predictions, first: int, class_names: tuple[str, ...] | None
) -> tuple[NDArray[np.uint64], Examples]:
    """Return the rows of a batch with a weight above 0, and the hash of the position of each."""
    hashes = row_hash(np.arange(first, first + batch.n_rows, dtype=np.int64))
    if batch.weights is not None:
        hashes = hashes[batch.weights > 0]
    return hashes, Examples.of_predictions(align(batch, class_names))


class Drawn:
    """The rows with the smallest hashes of those seen so far; memory is that of a few more.

    Attributes:
        rows: of each piece of the data set, those of weight 0 included.
        n_rows: rows in all, without those of weight 0.
        zeros: of all rows.
        shared: what shows that parts hold the same rows.
    """

    def __init__(self, n_keep: int, limit: int = LARGEST_HASH) -> None:
        """Keep `n_keep` rows, none with a hash above `limit`."""
        self.n_keep, self.limit = n_keep, np.uint64(limit)
        self.rows: list[int] = []
        self.n_rows, self.zeros = 0, Zeros()
        self.shared = SharedRows()
        self._kept: list[tuple[NDArray[np.uint64], Examples]] = []

    def add(self, hashes: NDArray[np.uint64], examples: Examples) -> None:
        """Look at more rows."""
        self.n_rows += examples.n_rows
        self.zeros += Zeros.of(examples)
        chosen = np.flatnonzero(hashes <= self.limit)
        if len(chosen):
            self._kept.append((hashes[chosen], examples.take(chosen)))
        if sum(len(one) for one, _ in self._kept) > self.n_keep + self.n_keep // 4:
            self._drop()

    def merge(self, other: "Drawn") -> None:
        """Add what was drawn from other rows, after these."""
        self.rows += other.rows
        self.n_rows += other.n_rows
        self.zeros += other.zeros
        self.shared.merge(other.shared)
        self._kept += other._kept

    def _drop(self) -> None:
        """Drop all rows but those with the smallest hashes, some at a time: without a copy."""
        hashes = self.hashes
        if len(hashes) <= self.n_keep:
            return
        self.limit = np.partition(hashes, self.n_keep - 1)[self.n_keep - 1]
        for i, (some, examples) in enumerate(self._kept):
            chosen = some <= self.limit
            self._kept[i] = some[chosen], examples.take(chosen)
        self._kept = [pair for pair in self._kept if len(pair[0])]

    @property
    def hashes(self) -> NDArray[np.uint64]:
        """Of the rows kept, as they came."""
        return np.concatenate([np.empty(0, np.uint64), *(some for some, _ in self._kept)])

    def take(self, start: int, stop: int | None) -> Examples:
        """Return the rows kept, by their rank among all hashes."""
        self._drop()
        return Examples.joined([e for _, e in self._kept], np.argsort(self.hashes)[start:stop])


def draw(
    scan: Scan,
    n_keep: int,
    class_names: tuple[str, ...] | None = None,
    *,
    backend: Backend | None = None,
) -> Drawn:
    """Return the `n_keep` rows with the smallest hashes, in one pass.

    Workers know how many rows there are, and so about how large the hash of the last row kept
    is: each sends its share of the sample, not as many rows as the sample has. Classes are put in
    the order of `class_names`.
    """
    if backend is None:  # one call counts the rows as it reads them
        found = draw_chunk(Chunk.of(scan, scan.pieces), n_keep, LARGEST_HASH, class_names)
        return _not_empty(found, scan)
    rows = rows_of_pieces(scan, backend)
    wanted = n_keep + 6 * math.sqrt(n_keep) + 16  # so that they are almost surely enough
    share = wanted / max(sum(rows), 1)
    while True:
        limit = min(LARGEST_HASH, int(share * LARGEST_HASH))
        calls = [(chunk, n_keep, limit, class_names) for chunk in chunks_of(scan, rows)]
        found = Drawn(n_keep)
        for one in in_order(outcomes_of(backend, draw_chunk, calls)):
            found.merge(one)
        if len(found.hashes) >= min(n_keep, _not_empty(found, scan).n_rows):
            return found
        share = max(2 * share, wanted / found.n_rows)  # many rows have a weight of 0


def _not_empty(found: Drawn, scan: Scan) -> Drawn:
    if not found.n_rows:
        raise ValueError(f"{scan.source}: has no rows with a weight above 0.")
    return found


def draw_chunk(
    chunk: Chunk, n_keep: int, limit: int, class_names: tuple[str, ...] | None
) -> Drawn:
    """Return the rows of a chunk that have the smallest hashes, none above `limit`."""
    found, position = Drawn(n_keep, limit), chunk.first
    for piece in chunk.pieces:
        before = position
        for batch in chunk.batches([piece]):
            if len(chunk.data.parts) > 1:
                found.shared.add(batch)
            hashes, examples = _hashed(batch, position, class_names)
            found.add(hashes, replace(examples, layout=chunk.data.first.layout))
            position += batch.n_rows
        found.rows.append(position - before)
    return found


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
    rows: Sequence[int]
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
    limit: int | None = None
    if test is None:
        drawn = tested = draw(source, n_fit + n_shown, names, backend=backend)
        n_fit = min(n_fit, drawn.n_rows // 2)
        shown, n_tested = drawn.take(n_fit, None), drawn.n_rows - n_fit
        limit = int(np.sort(drawn.hashes)[n_fit - 1])
    else:
        drawn = draw(source, n_fit, names, backend=backend)
        tested = draw(test, n_shown, names, backend=backend)
        shown, n_tested = tested.take(0, None), tested.n_rows
    every = list(dict.fromkeys([drawn, tested]))
    mix, notes = sum((one.zeros for one in every), Zeros()).rule(k)
    return ChosenRows(
        fitted=replace(drawn.take(0, n_fit), zero_mix=mix),
        shown=replace(shown, zero_mix=mix),
        limit=limit,
        n_source=drawn.n_rows,
        n_tested=n_tested,
        rows=tested.rows,
        notes=(*notes, *(note for one in every for note in one.shared.notes())),
    )


def judge_scan(
    fitted: Mapping[str, Calibrator],
    scan: Scan,
    rows: ChosenRows,
    *,
    n_bins: int,
    backend: Backend | None = None,
) -> dict[str, Sums]:
    """Return the sums over the rows of a data set to evaluate on, for each method.

    Every chunk of the data is summed by itself and the sums are added in order, so that the
    result is the same to the last bit for any number of workers.
    """
    told = rows.limit, rows.fitted.zero_mix, rows.fitted.class_names
    calls = [(chunk, fitted, n_bins, *told) for chunk in chunks_of(scan, rows.rows)]
    found = in_order(outcomes_of(backend, judge_chunk, calls))
    total = next(found)
    for sums in found:
        for method, one in sums.items():
            total[method].merge(one)
    return total


def judge_chunk(
    chunk: Chunk,
    fitted: Mapping[str, Calibrator],
    n_bins: int,
    limit: int | None,
    zero_mix: float,
    class_names: tuple[str, ...] | None,
) -> dict[str, Sums]:
    """Evaluate all methods on the rows of a chunk whose hash is above `limit`, or on all."""

    def batches() -> Iterator[Batch]:
        position = chunk.first
        for batch in chunk.batches(half=chunk.data.n_classes > MAX_CLASSWISE):
            hashes, examples = _hashed(batch, position, class_names)
            position += batch.n_rows
            if limit is not None:
                kept = hashes > np.uint64(limit)
                hashes, examples = hashes[kept], examples.take(kept)
            if examples.n_rows:
                yield Batch(
                    logits=replace(examples, zero_mix=zero_mix).logits,
                    labels=examples.labels.astype(np.intp, copy=False),
                    unit=(hashes >> np.uint64(7)).astype(np.int64) % N_UNITS,
                    weights=examples.weights,
                    groups=examples.groups,
                )

    return judge(fitted, batches(), n_bins=n_bins)
