"""What the first rows of a data set decide for all of them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from focalibrate.io.data_set import (
    DataSet,
    dtype_of,
    groups_of,
    no_rows,
    other_length,
    parts_of,
    pieces_of,
)
from focalibrate.io.errors import file_error, listing
from focalibrate.io.evidence import looks_like_probs
from focalibrate.io.formats.opened import Opened
from focalibrate.io.formats.text import with_kinds
from focalibrate.io.options import ReadOptions, Request, request_of
from focalibrate.io.predictions import Predictions
from focalibrate.io.roles.decide import resolve_roles
from focalibrate.io.roles.listed import with_class_names, with_listed_names
from focalibrate.io.source import find_parts
from focalibrate.io.table import WORDS, Table, joined_tables
from focalibrate.io.values.assemble import Reading, assemble
from focalibrate.io.values.labels import Labels, first_number, pair_of
from focalibrate.io.values.other_labels import OtherLabels, labels_in

HEAD_ROWS = 1 << 16
HEAD_CELLS = 1 << 22
"""Most rows and cells of the first part that decide which column is what."""

MOST_SHARES = 0.5
"""Largest share of the first outcomes that may lie between 0 and 1, as ties do."""

FEW_ROWS = 20
"""In fewer rows of one column, log-odds may all lie between 0 and 1 by chance."""


def decide(
    data: DataSet, options: ReadOptions, head_rows: int
) -> tuple[Reading, tuple[Table, Iterator[Table]]]:
    """Return what the first rows decide; and these rows and the others of the first part."""
    opened = data.opened(0)
    request = request_of(data.path, data.with_roles(options, opened.schema))
    schema = with_class_names(opened)
    head, rest = _head(opened, head_rows)
    is_all = rest is None and len(data.groups) == 1
    everything = list(range(len(schema.columns)))
    schema = with_kinds(schema, head) if head.has_cells else schema
    schema = with_listed_names(head.in_order(schema, everything))
    head = head.in_order(schema, everything)
    roles = resolve_roles(head, request)
    labels = _labels_of_their_own(request, head, roles.scores.positions)
    positions = roles.scores.positions
    n_rows = schema.columns[positions[0]].n_rows
    if n_rows is not None:
        head.n_rows = min(head.n_rows, n_rows)
    data.settle(schema)
    reading = Reading(request=request, schema=schema, roles=roles, labels=labels)
    _check_parts(data, reading)
    pair = _pair(data, reading, head, is_all=is_all)
    reading = replace(reading, pair=pair, first=_first(data, reading, head, is_all=is_all))
    parts = parts_of(data, positions[0])
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
        widths = [one.schema.columns[p[positions[0]]].shape[-1] for one, p in data.each()]
        n_classes = max(n_classes, *widths)
    none = first.take(np.arange(0))
    dtype = dtype_of(data, positions, percent=roles.scores.percent)
    like = replace(
        none,
        scores=np.empty((0, n_classes), dtype),
        notes=tuple(dict.fromkeys(notes)),
        n_rounded=0,
        n_dropped=0,
    )
    reading = replace(
        reading,
        like=like,
        parts=parts,
        pieces=pieces_of(data, parts, drop=request.drop_missing),
        looks_like_probs=could_be_probs(first),
    )
    return reading, (head, iter(()) if rest is None else rest)


def could_be_probs(found: Predictions) -> bool:
    """Return whether scores could hardly be anything but probabilities."""
    if found.layout.form != "single":
        return looks_like_probs(found.scores)
    values = found.scores.sum(axis=1)  # the other class has logit 0
    is_inside = 0 <= values.min() < 0.1 and 0.9 < values.max() <= 1
    return bool(is_inside and len(values) >= FEW_ROWS)


def _head(opened: Opened, head_rows: int) -> tuple[Table, Iterator[Table] | None]:
    """Return the first rows, and what yields the others, or None where there are none."""
    width = sum(max(1, *c.shape) if c.shape else 1 for c in opened.schema.columns)
    wanted = max(min(256, head_rows), min(head_rows, HEAD_CELLS // max(1, width)))
    tables = opened.read(None, wanted, None)
    found: list[Table] = []
    n_rows = 0
    for table in tables:
        if n_rows >= wanted:
            return joined_tables(found), chain([table], tables)
        found.append(table)
        n_rows += table.n_rows
    if not found:
        raise no_rows(opened.schema.path)
    return joined_tables(found), None


def _labels_of_their_own(
    request: Request, head: Table, scores: tuple[int, ...]
) -> OtherLabels | None:
    if request.labels_path is None:
        return None
    path, _, parts = find_parts(request.labels_path, limit=request.limit)
    data = DataSet(path, groups_of(path, parts), Request(path=path, max_memory=request.max_memory))
    data.drop_empty()
    opened = data.opened(0)
    schema = replace(with_class_names(opened), path=path)
    tables = list(opened.read(None, HEAD_ROWS, None))
    if not tables:
        raise no_rows(path)
    if opened.is_text:
        schema = with_kinds(schema, joined_tables(tables))
    data.settle(schema)
    for index in range(1, len(data.groups)):
        tables += data.read(index, None, HEAD_ROWS)
    whole = joined_tables(tables).in_order(schema, list(range(len(schema.columns))))
    found = labels_in(whole, request, head, scores)
    if len(data.groups) == 1 or not found.is_by_order:
        return found
    names = listing([data.main(index).path.name for index in range(len(data.groups))])
    return replace(found, note=type(found.note)(f"{found.note}; order of their parts: {names}"))


def _first_batch(data: DataSet, reading: Reading, head: Table) -> Predictions:
    """Return the first predictions with a complete row, and what is to be said of them."""
    others = (data.read(i, None, head.n_rows) for i in range(len(data.groups)))
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
    for opened, places in data.each():
        own = with_class_names(opened)
        columns = [own.columns[i] for i in places]
        if own.class_names != first.class_names and first.listed is None:
            raise file_error(
                own.path, f"must have the class names of {first.path.name}, in the same order."
            )
        scores = columns[reading.roles.scores.positions[0]]
        for i in reading.needed:
            mine, other = first.columns[i], columns[i]
            # numbers in text are numbers, and stay text in the file
            alike = (mine.kind, stored.columns[i].kind, "empty")
            differs = other.kind not in alike and mine.kind != "empty"
            if differs and not opened.is_text and other.problem is None:
                raise file_error(
                    own.path,
                    f"column `{mine.name}` must hold {WORDS.get(mine.kind, mine.kind)} as in "
                    f"{first.path.name}, but holds {WORDS.get(other.kind, other.kind)}.",
                )
        for other in (columns[i] for i in reading.needed):
            if other.n_rows not in (None, scores.n_rows):
                raise other_length(own.path, scores, other)


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
            for table in data.read(index, [label], HEAD_ROWS):
                yield Labels(table.values(label), head.name(label), head.path)


def _pair(data: DataSet, reading: Reading, head: Table, *, is_all: bool) -> tuple[str, str] | None:
    """Return the negative and the positive label of all rows, where one column has scores."""
    values: set[str] = set()
    if reading.roles.scores.form != "single":
        return None
    for labels in _label_values(data, reading, head, is_all=is_all):
        missing = labels.missing(None)
        if missing.any() and not reading.request.drop_missing:
            return None  # the batch with the first of them is refused by its row
        known = labels[~missing]
        shares = known.shares()
        if shares.mean() <= MOST_SHARES:  # else they are no outcomes, which is refused
            known = known[~shares]
        values |= set(known.distinct(len(known.values))[0])
        if len(values) > 1:
            break
    if not values:
        return None
    positive, requested = reading.roles.scores.positive, reading.request.positive is not None
    return pair_of(labels, sorted(values), positive=positive, requested=requested)


def _first(data: DataSet, reading: Reading, head: Table, *, is_all: bool) -> int | None:
    """Return whether the labels of all rows are numbers from 0 or from 1, or None."""
    scores = reading.roles.scores
    n_classes = scores.n_classes or head.values(scores.positions[0]).shape[-1]
    for labels in _label_values(data, reading, head, is_all=is_all):
        known = labels.values[~labels.missing(None)]
        if known.dtype.kind not in "iuf":
            return None
        first = first_number(known, n_classes=n_classes)
        if first is not None:
            return first
    return None
