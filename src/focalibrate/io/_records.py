"""Columns from rows of Python values: what JSON and Excel files hold."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._dialect import is_number
from focalibrate.io._error import file_error, short
from focalibrate.io._frame import Column, ColumnKind, Frame
from focalibrate.io._vocabulary import CLASS_NAMES, plain

MAX_COLUMNS = 100_000
MAX_CLASSES = 10_000
"""Most classes of a list of names and scores in one record."""


def frame_of_columns(
    path: Path, columns: Mapping[str, Sequence[Any]], *, notes: tuple[str, ...] = ()
) -> Frame:
    """Return a frame of columns of Python values; None is a missing value."""
    arrays = []
    described = []
    for name, cells in columns.items():
        kind, array = _array(cells)
        arrays.append(array)
        unnamed = name.startswith("Unnamed: ")
        described.append(Column(name=name, kind=kind, shape=array.shape, unnamed=unnamed))
    return Frame(
        path=path,
        columns=tuple(described),
        load=lambda wanted, _: [arrays[i] for i in wanted],
        extra={"values": lambda wanted: [list(columns.values())[i] for i in wanted]},
        notes=notes,
    )


def frame_of_records(path: Path, records: Sequence[Mapping[str, Any]]) -> Frame:
    """Return a frame of one mapping per row; nested mappings become columns ``outer.inner``."""
    names: dict[str, None] = {}
    flat = []
    for record in records:
        row = _flattened(record)
        names.update(dict.fromkeys(row))
        flat.append(row)
        if len(names) > MAX_COLUMNS:
            raise file_error(path, f"has more than {MAX_COLUMNS:,} different fields.")
    frame = frame_of_columns(path, {name: [row.get(name) for row in flat] for name in names})
    return replace(
        frame,
        is_ordered=all(_follows(row, names) for row in flat),
        is_partial=any(len(row) < len(names) for row in flat),
    )


def _follows(row: Mapping[str, Any], names: Mapping[str, None]) -> bool:
    """Return whether a row has its fields in the order of `names`, some of them left out."""
    rest = iter(names)
    return all(name in rest for name in row)


def _flattened(record: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    lists = _class_lists(record)
    for name, value in record.items():
        if name in lists:
            continue
        scores = _label_scores(value)
        inner = value if isinstance(value, Mapping) else scores
        if isinstance(value, Mapping):
            nested = _class_lists(value)
            if nested:
                scores = _paired(value, nested)
                inner = {k: v for k, v in value.items() if k not in nested} | scores
        if inner is None:
            row[str(name)] = value
        else:
            # A pipeline's output holds scores, whatever the field is called.
            outer = "scores" if scores is not None and "scores" not in record else name
            row.update({f"{outer}.{key}": cell for key, cell in inner.items()})
    if lists:
        row.update({f"scores.{key}": cell for key, cell in _paired(record, lists).items()})
    return row


_CLASS = {"label", "class", "class_name", "name", "category"}
_SCORE = {"score", "prob", "proba", "probability", "confidence"}


def _label_scores(value: Any) -> dict[str, Any] | None:
    """Return ``[{"label": "cat", "score": 0.9}, ...]``, a pipeline's output, as a mapping."""
    if not isinstance(value, list) or not value or len(value) > MAX_CLASSES:
        return None
    if not all(isinstance(v, Mapping) and len(v) == 2 for v in value):
        return None
    names, scores = _CLASS & set(value[0]), _SCORE & set(value[0])
    if len(names) != 1 or len(scores) != 1 or any(set(v) != names | scores for v in value):
        return None
    (name,), (score,) = names, scores
    found = {str(v[name]): v[score] for v in value}
    return found if len(found) == len(value) else None


def is_pipeline_output(value: Any) -> bool:
    """Return whether a value lists the classes of one example with their scores."""
    return _label_scores(value) is not None


def _class_lists(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields ``classes`` and ``scores`` where they are two lists that belong together.

    Services sort them by score, so that each row has its own order.
    """
    lists = [
        (k, v) for k, v in record.items() if isinstance(v, list) and 1 < len(v) <= MAX_CLASSES
    ]
    names = [
        k
        for k, v in lists
        if plain(str(k)) in CLASS_NAMES | {"labels"} and all(isinstance(x, str) for x in v)
    ]
    scores = [k for k, v in lists if all(type(x) in (int, float) for x in v)]
    if len(names) != 1 or len(scores) != 1:
        return ()
    texts, numbers = record[names[0]], record[scores[0]]
    fits = len(texts) == len(numbers) == len(set(texts))
    return (names[0], scores[0]) if fits else ()


def _paired(record: Mapping[str, Any], lists: tuple[str, ...]) -> dict[str, Any]:
    names, scores = lists
    return dict(zip(record[names], record[scores], strict=True))


def _array(cells: Sequence[Any]) -> tuple[ColumnKind, NDArray[Any]]:
    """Return what the values of a column are, and the column as an array."""
    known = [cell for cell in cells if cell is not None]
    if not known:
        return "empty", np.full(len(cells), "", dtype=object)
    if all(type(cell) is bool for cell in known):
        if len(known) == len(cells):
            return "bool", np.array(cells, bool)
    elif all(type(cell) in (int, float) for cell in known):
        try:
            numbers = [np.nan if cell is None else float(cell) for cell in cells]
            return "number", np.array(numbers, np.float64)
        except OverflowError:
            return "other", _texts(cells)
    elif all(type(cell) is str and is_number(cell) for cell in known):
        if not all(cell.strip().lstrip("+-").isdigit() for cell in known):  # labels may be "007"
            return "number", np.array([np.nan if c is None else float(c) for c in cells])
    elif all(isinstance(cell, list) for cell in known):
        matrix = _matrix(cells)
        if matrix is not None:
            return "matrix", matrix
        return "other", _texts(cells)
    return "text", _texts(cells)


def _texts(cells: Sequence[Any]) -> NDArray[Any]:
    return np.array(["" if cell is None else str(cell) for cell in cells], dtype=object)


def _matrix(cells: Sequence[Any]) -> NDArray[Any] | None:
    width = len(cells[0]) if isinstance(cells[0], list) else -1
    for cell in cells:
        if not isinstance(cell, list) or len(cell) != width:
            return None
        if not all(type(v) in (int, float) for v in cell):
            return None
    try:
        return np.array([[float(v) for v in cell] for cell in cells], np.float64)
    except OverflowError:
        return None


def short_type(value: object) -> str:
    """Return the type of a value as messages show it."""
    return short(type(value).__name__)
