"""Batches of predictions as one, and the rows that several parts share."""

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.errors import Doubt, short
from focalibrate.io.predictions import Predictions

LEAST_ROWS = 20
"""In fewer rows it is no surprise that all have the same label."""


def joined_predictions(
    batches: Sequence[Predictions],
    *,
    kept: Callable[[], Iterator[Predictions]],
    notes: Sequence[str],
    n_labels: int | None,
) -> Predictions:
    """Return batches one below another, with the notes that need all rows."""
    first = batches[0]
    scores = np.concatenate([b.scores for b in batches]) if len(batches) > 1 else first.scores
    whole = replace(
        first,
        scores=scores,
        labels=_stacked([b.labels for b in batches]),
        weights=_weights(batches),
        groups={k: _stacked([b.groups[k] for b in batches]) for k in first.groups},
        cluster=_stacked([b.cluster for b in batches]),
        n_rounded=sum(b.n_rounded for b in batches),
        n_dropped=sum(b.n_dropped for b in batches),
        layout=replace(first.layout, rest=lambda: _rest(kept)),
    )
    more = [*_notes(whole)]
    if len({batch.source for batch in batches}) > 1:
        shared = SharedRows()
        for batch in batches:
            shared.add(batch)
        more += shared.notes()
    if n_labels is not None and n_labels > whole.n_rows + whole.n_dropped:
        name = first.labels_source.name if first.labels_source else ""
        n_unused = n_labels - whole.n_rows - whole.n_dropped
        more.append(f"labels in {name} that belong to no row: {n_unused}")
    return replace(whole, notes=tuple(dict.fromkeys([*notes, *more])))


def _notes(found: Predictions) -> Iterator[str]:
    """Yield how many rows are left out, were divided by their sum or have a 0; or one label."""
    if found.n_dropped:
        rows = "1 row" if found.n_dropped == 1 else f"{found.n_dropped:,} rows"
        yield f"{rows} with missing values left out"
    if found.n_rounded:
        rule = "rounded so that they do not sum to 1: each is divided by its sum"
        yield f"{found.n_rounded} rows {rule}"
    zeros = int((found.scores == 0).any(axis=1).sum()) if found.kind == "probs" else 0
    if zeros:
        rows = "1 row has" if zeros == 1 else f"{zeros:,} rows have"
        yield f"{rows} a probability of exactly 0"
    y, names = found.labels, found.class_names
    if y is not None and len(y) >= LEAST_ROWS and (y == y[0]).all():
        yield Doubt(
            f"WARNING: the label of every row is {y[0] if names is None else short(names[y[0]])}: "
            "check the labels. Rows of one class cannot show whether its probability is right"
        )


def _weights(batches: Sequence[Predictions]) -> Any:
    """Return the weights of all rows; only batches with shared outcomes may have some."""
    if all(b.weights is None for b in batches):
        return None
    return _stacked([np.ones(b.n_rows) if b.weights is None else b.weights for b in batches])


def _stacked(parts: Sequence[NDArray[Any] | None]) -> Any:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if arrays else None


def _rest(kept: Callable[[], Iterator[Predictions]]) -> Any:
    tables = [b.layout.rest() for b in kept() if b.layout.rest is not None]
    names = tables[0].column_names
    columns = [_column([table.column(i) for table in tables]) for i in range(len(names))]
    return pa.table(columns, names=names)


def _column(parts: Sequence[Any]) -> Any:
    """Return the parts of a column as one; text where no type holds the values of all.

    Numbers are whole where some are by their type and all by their value: pandas writes whole
    numbers as 1.0 where one is missing.
    """
    types = {part.type for part in parts if not pa.types.is_null(part.type)}
    wanted = [pa.int64()] if any(map(pa.types.is_integer, types)) and len(types) > 1 else []
    is_decimal = any(map(pa.types.is_decimal, types))  # 1.10, which no other number is
    with suppress(pa.ArrowException):
        schemas = [pa.schema([("", kind)]) for kind in types or {pa.null()}]
        common = (
            pa.unify_schemas(schemas, promote_options="default" if is_decimal else "permissive")
            .field(0)
            .type
        )
        for kind in [*wanted, common]:
            with suppress(pa.ArrowInvalid):
                return pa.chunked_array([c for p in parts for c in p.cast(kind).chunks], kind)
    return pa.chunked_array([_as_text(part) for part in parts], pa.string())


def _as_text(part: Any) -> Any:
    if pa.types.is_nested(part.type):
        texts = [None if v is None else json.dumps(v, default=str) for v in part.to_pylist()]
        return pa.array(texts, pa.string())
    return part.cast(pa.string()).combine_chunks()


MOST_ROWS = 1 << 17
"""Most rows that are remembered; of more, those are that a hash of them chooses."""


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the names of files, with their folders where they are alike."""
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [*map(str, paths)]


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
        names = _names([path for path, some in once.items() if np.isin(again, some).any()][:2])
        share = sizes.sum() / sum(self.sizes.values())
        n_rows = f"{n_across:,}" if share == 1 else f"about {n_across / share:,.2g}"
        doubt = f"{n_rows} rows are in more than one part (same scores, same label), such as"
        return [Doubt(f"WARNING: {doubt} {names[0]} and {names[1]}, and count more than once")]

    def _same_labels(self) -> list[str]:
        """Return a warning where two parts have the same labels in the same order."""
        known = dict[tuple[int, int, int], Path]()
        for path, (digest, changes) in self.labels.items():
            n_rows = self.sizes[path]
            if n_rows < LEAST_ROWS or changes < LEAST_ROWS / 2:
                continue
            first = known.setdefault((n_rows, digest, changes), path)
            if first != path:
                doubt = (
                    f"{' and '.join(_names([first, path]))} have the same labels in the same order"
                )
                advice = "if they are two models on the same rows, use `focalibrate compare`"
                return [Doubt(f"WARNING: {doubt}: {advice}")]
        return []
