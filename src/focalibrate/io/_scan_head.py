"""What the first rows of a data set decide for all its batches."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from focalibrate.io._assemble import Settled
from focalibrate.io._batch_reader import BatchReader
from focalibrate.io._binary_labels import distinct_labels, pair_of
from focalibrate.io._error import file_error, short
from focalibrate.io._find_streams import DataSet
from focalibrate.io._formats import Opening
from focalibrate.io._frame import Frame, silent
from focalibrate.io._label_rows import missing_rows
from focalibrate.io._labels import first_number
from focalibrate.io._limit import parse_size
from focalibrate.io._other_labels import OtherLabels
from focalibrate.io._request import ReadOptions, Request, request_of
from focalibrate.io._roles import resolve_roles
from focalibrate.io._stream import HEAD_CELLS, HEAD_ROWS, reordered
from focalibrate.io._view import View
from focalibrate.io.predictions import Predictions
from focalibrate.io.read import read_labels


def decide(data: DataSet, options: ReadOptions) -> BatchReader:
    """Decide by the first rows which column is what, and return the reader of all batches."""
    request = request_of(data.path, options)
    labels = _labels_of_their_own(data, options, request)
    head, is_all = _head(data)
    view = View(data.completed(head))
    reader = BatchReader(
        data=data,
        options=options,
        request=request,
        roles=resolve_roles(view, request),
        labels=labels,
        settled=Settled(),
    )
    data.check_same_length(reader.needed)
    pair = _pair(reader, view, is_all=is_all)
    return replace(reader, settled=Settled(pair, _first(reader, view, is_all=is_all)))


def first_batch(reader: BatchReader) -> Predictions:
    """Return the first rows of which at least one is complete."""
    data = reader.data
    for index, stream in enumerate(data.streams):
        start = 0
        for frame in stream.read(None, head_rows(stream.frame)):
            block = data.completed(reordered(frame, data.places[index]))
            n_rows = reader.n_rows_of(block)
            rows = slice(start, start + n_rows)
            found = reader.predictions_of(block, rows, is_first=True)
            if found is not None:
                return found
            start += n_rows
    raise file_error(data.path, "has missing values in every row.")


def head_rows(frame: Frame) -> int:
    """Return how many of the first rows decide which column is what."""
    width = sum(max(1, *c.shape[1:]) if len(c.shape) > 1 else 1 for c in frame.columns)
    return max(256, min(HEAD_ROWS, HEAD_CELLS // max(1, width)))


def _labels_of_their_own(
    data: DataSet, options: ReadOptions, request: Request
) -> OtherLabels | None:
    path = options.get("labels_path")
    if path is None:
        return None
    opening = Opening(parse_size(options.get("max_memory")))
    return read_labels(Path(path), request, opening, data.streams[0].frame)


def _head(data: DataSet) -> tuple[Frame, bool]:
    """Return the first rows, and whether there are no others."""
    stream = data.streams[0]
    found: Frame | None = None
    for frame in stream.read(None, head_rows(stream.frame)):
        if found is not None:
            return found, False
        found = frame
    if found is None:
        raise file_error(data.path, "holds no rows. Write at least one example.")
    return found, len(data.streams) == 1


def _pair(reader: BatchReader, head: View, *, is_all: bool) -> tuple[str, str] | None:
    """Return the negative and the positive label of all rows, where one column has scores."""
    roles, other = reader.roles, reader.labels
    if roles.scores.form != "single" or (roles.label is None and other is None):
        return None
    name = other.name if other is not None else head.name(roles.label or 0)
    path = reader.labels_path or head.path
    values: set[str] = set()
    for labels in _label_batches(reader, head, is_all=is_all):
        if reader.options.get("drop_missing", False):
            labels = labels[~missing_rows(labels, None)]
        values |= set(distinct_labels(labels, n_rows=len(labels), path=path, name=name)[0])
        if len(values) > 1:
            break
    if not values:
        return None
    return pair_of(
        sorted(values),
        positive=roles.scores.positive,
        requested=reader.request.positive is not None,
        path=path,
        name=short(name),
    )


def _first(reader: BatchReader, head: View, *, is_all: bool) -> int | None:
    """Return whether the labels of all rows are numbers from 0 or from 1, or None if unknown."""
    scores = reader.roles.scores
    n_classes = scores.n_classes or head.values(scores.positions[0])[0].shape[-1]
    for labels in _label_batches(reader, head, is_all=is_all):
        labels = labels[~missing_rows(labels, None)]
        if labels.dtype.kind not in "iuf":
            return None
        first = first_number(labels, n_classes=n_classes)
        if first is not None:
            return first
    return None


def _label_batches(reader: BatchReader, head: View, *, is_all: bool) -> Iterator[Any]:
    """Yield the labels of the first rows, then of all: the first may not show every class."""
    label = reader.roles.label
    if reader.labels is not None:
        yield reader.labels.values
        return
    if label is None:
        return
    yield head.values(label)[0]
    if is_all:
        return
    for index, stream in enumerate(reader.data.streams):
        places = reader.data.places[index]
        for frame in stream.read([places[label]], HEAD_ROWS):
            yield reordered(frame, places).load([label], silent)[0]
