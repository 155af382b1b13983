"""What the first rows of a data set decide for all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np

from focalibrate.io.cells import looks_like_probs
from focalibrate.io.data_set import DataSet, no_rows
from focalibrate.io.errors import PredictionFileError, file_error, listing, short
from focalibrate.io.options import ReadOptions, Request, request_of
from focalibrate.io.predictions import Predictions
from focalibrate.io.roles.decide import Roles, resolve_roles
from focalibrate.io.source import Part, find_parts
from focalibrate.io.table import WORDS, Column, Schema, Table, joined_tables, with_listed_names
from focalibrate.io.values.assemble import assemble
from focalibrate.io.values.labels import Labels, first_number, pair_of
from focalibrate.io.values.other_labels import OtherLabels, labels_in
from focalibrate.io.values.scores import native_dtype

HEAD_ROWS = 1 << 16
HEAD_CELLS = 1 << 22
"""Most rows and cells of the first part that decide which column is what."""

MOST_SHARES = 0.5
"""Largest share of the first outcomes that may lie between 0 and 1, as ties do."""

FEW_ROWS = 20
"""In fewer rows of one column, log-odds may all lie between 0 and 1 by chance."""


@dataclass(frozen=True)
class Piece:
    """What one worker reads at a time: a part, or some row groups of a large parquet file.

    `number` is None for a whole part, `n_rows` where that is known only after reading it.
    """

    part: int
    number: int | None
    name: str
    n_rows: int | None


NO_ROWS = Predictions(
    scores=np.empty((0, 2)),
    kind="probs",
    labels=None,
    class_names=None,
    source=Path(),
    checksum="",
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the first rows decided for all rows; can be sent to another process.

    Attributes:
        request: what the caller says, and the format of the file.
        schema: the columns of the first part.
        roles: which column is what.
        labels: labels from a file of their own, or None.
        pair: the negative and the positive label of all rows, where one column holds the scores.
        first: the number of the first class, 0 or 1, where the labels are numbers.
        like: predictions without rows, whose classes and precision all rows have.
        parts: what is known of the parts.
        pieces: the same rows in the same order, with large parquet files cut between row groups.
        looks_like_probs: the first rows could be probabilities.
    """

    request: Request
    schema: Schema
    roles: Roles
    labels: OtherLabels | None
    pair: tuple[str, str] | None = None
    first: int | None = None
    like: Predictions = NO_ROWS
    parts: tuple[Part, ...] = ()
    pieces: tuple[Piece, ...] = ()
    looks_like_probs: bool = False

    @property
    def needed(self) -> list[int]:
        """Positions of the columns that are read: scores, label, weight, groups and key."""
        roles = self.roles
        named = [i for i in (roles.label, roles.weight, roles.cluster) if i is not None]
        if self.labels is not None and self.labels.key is not None:
            named.extend(self.labels.key.at)
        if self.schema.listed is not None:
            named.append(self.schema.listed[0])
        return list(dict.fromkeys([*roles.scores.positions, *named, *roles.groups]))


def decide(
    data: DataSet, options: ReadOptions, head_rows: int
) -> tuple[Reading, tuple[Table, Iterator[Table]]]:
    """Return what the first rows decide; and these rows and the others of the first part."""
    given = _with_roles(options, data.opened(0).schema, n_parts=len(data.groups))
    request = request_of(data.path, given)
    head, rest = _described(data, head_rows)
    is_all = rest is None and len(data.groups) == 1
    roles = resolve_roles(head, request)
    labels = _labels_of_their_own(request, head, roles.scores.positions)
    scores = head.columns[roles.scores.positions[0]]
    if scores.n_rows is not None:
        head.n_rows = min(head.n_rows, scores.n_rows)
    reading = Reading(request=request, schema=head.schema, roles=roles, labels=labels)
    _check_parts(data, reading)
    reading = _with_all_labels(data, reading, head, is_all=is_all)
    parts, pieces, stored = _laid_out(data, reading)
    first = _first_batch(data, reading, head)
    notes = list(first.notes)
    if len(parts) > 1:
        notes.insert(0, f"{len(parts)} parts, {parts[0].path.name} to {parts[-1].path.name}")
    notes += data.notes
    if labels is not None:
        notes.append(labels.note)
        if labels.is_by_order and len(parts) > 1:
            notes.append(f"order of the parts: {listing([p.path.name for p in parts])}")
    n_classes = first.n_classes
    if first.layout.form == "options":  # as many as the part with the most has
        n_classes = max(n_classes, *(columns[0].shape[-1] for columns in stored))
    like = replace(
        first.take(np.arange(0)),
        scores=np.empty((0, n_classes), _dtype(stored, percent=roles.scores.percent)),
        notes=tuple(dict.fromkeys(notes)),
        n_rounded=0,
        n_dropped=0,
    )
    is_probs = could_be_probs(first)
    reading = replace(reading, like=like, parts=parts, pieces=pieces, looks_like_probs=is_probs)
    return reading, (head, iter(()) if rest is None else rest)


def _with_roles(options: ReadOptions, schema: Schema, *, n_parts: int) -> ReadOptions:
    """Return the options with what the format says about the columns.

    Of several logs the task is the group; names that the caller gives count first.
    """
    roles = dict(schema.roles)
    if roles and n_parts > 1 and "task" in schema.names:
        roles.setdefault("by", "task")
    given = {name: value for name, value in options.items() if value not in (None, (), [])}
    if {"logits_key", "probs_key", "score_columns"} & set(given):
        for name in ("logits_key", "score_columns", "input", "positive"):
            roles.pop(name, None)
    return cast(ReadOptions, {**roles, **given}) if roles else options


def _described(data: DataSet, head_rows: int) -> tuple[Table, Iterator[Table] | None]:
    """Return the first rows, whose values describe the columns of all parts from now on.

    And what yields the other rows of the first part, or None where there are none.
    """
    opened = data.opened(0)
    schema = opened.schema
    width = sum(max(1, *c.shape) if c.shape else 1 for c in schema.columns)
    wanted = max(min(256, head_rows), min(head_rows, HEAD_CELLS // max(1, width)))
    tables = opened.read(None, wanted, None)
    found = list[Table]()
    while sum(table.n_rows for table in found) < wanted and (table := next(tables, None)):
        found.append(table)
    if not found:
        raise no_rows(schema.path)
    head, after = joined_tables(found), next(tables, None)
    everything = range(len(schema.columns))
    schema = head.described() if head.has_cells else schema
    schema = with_listed_names(head.in_order(schema, everything))
    data.settle(schema)
    if after is None:
        return head.in_order(schema, everything), None
    others = (table.in_order(schema, everything) for table in chain([after], tables))
    return head.in_order(schema, everything), others


def _dtype(parts: Sequence[Sequence[Column]], *, percent: bool) -> np.dtype[Any]:
    """Return the dtype in which the scores of all parts keep every digit."""
    wide = np.dtype(np.float64)
    found = [
        native_dtype(np.result_type(*(column.dtype or wide for column in columns)))
        for columns in parts
    ]
    return wide if percent else np.result_type(*found)


def _laid_out(
    data: DataSet, reading: Reading
) -> tuple[tuple[Part, ...], tuple[Piece, ...], list[list[Column]]]:
    """Return the parts with their rows, what workers read at a time, the columns of the scores."""
    parts, pieces, stored = list[Part](), list[Piece](), list[list[Column]]()
    for index, opened in enumerate(data.each()):
        stored.append([opened.schema.columns[i] for i in reading.roles.scores.positions])
        n_rows, size = opened.n_rows, data.size(index)
        if n_rows is None and not opened.schema.is_table:
            n_rows = stored[-1][0].n_rows
        part = replace(data.main(index), n_bytes=size, n_rows=n_rows, remote=None, content=None)
        parts.append(part)
        for i, n in enumerate(opened.pieces or [n_rows]):
            n_given = None if reading.request.drop_missing else n
            pieces.append(Piece(index, i if opened.pieces else None, part.name, n_given))
    return tuple(parts), tuple(pieces), stored


def could_be_probs(found: Predictions) -> bool:
    """Return whether scores could hardly be anything but probabilities."""
    if found.layout.form != "single":
        return looks_like_probs(found.scores)
    values = found.scores.sum(axis=1)  # the other class has logit 0
    is_inside = 0 <= values.min() < 0.1 and 0.9 < values.max() <= 1
    return bool(is_inside and len(values) >= FEW_ROWS)


def _labels_of_their_own(
    request: Request, head: Table, scores: tuple[int, ...]
) -> OtherLabels | None:
    if request.labels_path is None:
        return None
    path, _, parts = find_parts(request.labels_path, limit=request.limit)
    shared = ("labels_path", "header", "encoding", "sheet", "max_memory")
    told = {name: getattr(request, name) for name in shared}
    data = DataSet(path, parts, Request(path=path, **told))
    first, rest = _described(data, HEAD_CELLS)
    others = (data.opened(i).read(None, HEAD_ROWS, None) for i in range(1, len(data.groups)))
    whole = joined_tables([first, *(rest or ()), *chain(*others)])
    whole.schema = replace(whole.schema, path=path)
    found = labels_in(whole, request, head, scores)
    if len(data.groups) == 1 or not found.is_by_order:
        return found
    order = listing([data.main(index).path.name for index in range(len(data.groups))])
    return replace(found, note=type(found.note)(f"{found.note}; order of their parts: {order}"))


def _first_batch(data: DataSet, reading: Reading, head: Table) -> Predictions:
    """Return the first predictions with a complete row, and what is to be said of them."""
    others = (opened.read(None, head.n_rows, None) for opened in data.each())
    start = -head.n_rows
    for table in chain([head], *others):
        rows = slice(max(0, start), max(0, start) + table.n_rows)
        found = assemble(table, reading, rows, is_first=True)
        if found is not None:
            return found
        start += table.n_rows
    raise file_error(data.path, "has missing values in every row.")


def _check_parts(data: DataSet, reading: Reading) -> None:
    """Raise where a part has other columns, kinds, class names or lengths than the first."""
    first, stored = reading.schema, data.opened(0).schema
    for opened in data.each():
        own = opened.schema
        if own.class_names != first.class_names and first.listed is None:
            raise file_error(
                own.path, f"must have the class names of {first.path.name}, in the same order."
            )
        scores = own.columns[reading.roles.scores.positions[0]]
        for i in reading.needed:
            mine, other = first.columns[i], own.columns[i]
            # numbers in text are numbers, and stay text in the file
            alike = (mine.kind, stored.columns[i].kind, "empty")
            differs = other.kind not in alike and mine.kind != "empty"
            if differs and own.separator is None and other.problem is None:
                raise own.error(
                    f"column `{mine.name}` must hold {WORDS.get(mine.kind, mine.kind)} as in "
                    f"{first.path.name}, but holds {WORDS.get(other.kind, other.kind)}."
                )
        for other in (own.columns[i] for i in reading.needed):
            if other.n_rows not in (None, scores.n_rows):
                raise _other_length(own.path, scores, other)


def _other_length(path: Path, scores: Column, other: Column) -> PredictionFileError:
    """Return the error for an array that does not have one entry per row of the scores."""
    n, found = scores.n_rows or 0, other.n_rows or 0
    if scores.shape == (found,):
        advice = f"Its columns do: save `{short(scores.name)}.T`, one row per example."
    elif found and n % found == 0 and not scores.shape:
        advice = f"If the scores of all classes are in one row: `.reshape({found}, -1)`."
    else:
        advice = "Check that both come from the same split."
    more = "more" if found > n else "fewer"
    return file_error(
        path,
        f"`{short(other.name)}` must hold one label per row, but there are {more} labels than "
        f"rows: {found} labels, {n} rows. {advice}",
    )


def _label_values(
    data: DataSet, reading: Reading, head: Table, *, is_all: bool
) -> Iterator[Labels]:
    """Yield the labels of the first rows, then of all: the first may not show every class."""
    label = reading.roles.label
    if reading.labels is not None:
        yield reading.labels.all
    elif label is not None:
        yield Labels(head.values(label), head.name(label), head.path)
        for index in range(0 if is_all else len(data.groups)):
            for table in data.opened(index).read([label], HEAD_ROWS, None):
                yield Labels(table.values(label), head.name(label), head.path)


def _with_all_labels(data: DataSet, reading: Reading, head: Table, *, is_all: bool) -> Reading:
    """Return what is decided, with what the labels of all rows show.

    Of one column of scores the negative and the positive label; else, of numbers, the first.
    """
    scores, values = reading.roles.scores, set[str]()
    n_classes = scores.n_classes or head.values(scores.positions[0]).shape[-1]
    for labels in _label_values(data, reading, head, is_all=is_all):
        missing = labels.missing(None)
        known = labels[~missing]
        if scores.form != "single":
            first = first_number(known.values, n_classes=n_classes)
            if first is not None or known.values.dtype.kind not in "iuf":
                return replace(reading, first=first)
            continue
        if missing.any() and not reading.request.drop_missing:
            return reading  # the batch with the first of them is refused by its row
        shares = known.shares()
        if shares.mean() <= MOST_SHARES:  # else they are no outcomes, which is refused
            known = known[~shares]
        values |= set(known.distinct()[0])
        if len(values) > 1:
            break
    if not values:
        return reading
    requested = reading.request.positive is not None
    pair = pair_of(labels, sorted(values), positive=scores.positive, requested=requested)
    return replace(reading, pair=pair)
