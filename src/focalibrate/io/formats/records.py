"""Tables of Python values: `.jsonl` (one object per line), `.json` (records or columns)."""

import gc
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from focalibrate.io.bytes import text_file
from focalibrate.io.cells import is_number
from focalibrate.io.errors import PredictionFileError, file_error, short
from focalibrate.io.formats.arrow import described_type
from focalibrate.io.options import check_fits
from focalibrate.io.roles.vocabulary import CLASS_NAMES, OPTIONS, plain
from focalibrate.io.source import Part
from focalibrate.io.table import Column, Opened, Schema, in_memory

MEMORY_FACTOR = 8
"""Python's objects for a JSON text take about this many times its bytes."""

MAX_COLUMNS = 100_000
MAX_CLASSES = 10_000
"""Most classes of a list of names and scores in one record."""


@contextmanager
def many_objects() -> Iterator[None]:
    """Do not look for cycles meanwhile: parsed JSON has none, and looking doubles the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def write_json(target: Path, document: Any, *, is_lines: bool) -> None:
    """Write a document, or a list of records line by line."""
    with text_file(target, ".jsonl" if is_lines else ".json") as file:
        if is_lines:
            file.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in document)
        else:
            json.dump(document, file, ensure_ascii=False)


@contextmanager
def _utf8(part: Part) -> Iterator[IO[str]]:
    """Open the text of a document; name what is wrong with its bytes."""
    try:
        with (
            part.damage_named(),
            part.unpacked() as binary,
            io.TextIOWrapper(binary, "utf-8-sig", newline="") as text,
        ):
            yield text
    except UnicodeDecodeError as error:
        raise part.error("must be UTF-8 text. Write it again.") from error


def records_in(part: Part, limit: int) -> list[dict[str, Any]] | None:
    """Return one object per line; None where it is a list over several lines."""
    records, taken = [], 0
    with _utf8(part) as text:  # early versions of lm-evaluation-harness wrote such lists
        if text.read(256).split()[:1] in (["["], ["[{"]):
            return None
    with _utf8(part) as text:
        lines = iter(partial(text.readline, limit), "")  # a line may have no end
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            taken += len(line)
            check_fits(part.path, taken * MEMORY_FACTOR, limit)
            record = _parsed(line, part, f"line {number}")
            if _is_numbers(record):
                record = {part.path.stem: record}
            if not isinstance(record, dict):
                raise part.error(
                    f"line {number} must be a JSON object, got {type(record).__name__}. Write one "
                    'object per line: {"label": 1, "probs": [0.2, 0.8]}.'
                )
            records.append(record)
    if not records:
        raise part.error("holds no rows. Write at least one example.")
    return records


def document_in(part: Part, limit: int) -> Any:
    """Return a JSON document; None where it has one object per line, whatever its suffix says."""
    check_fits(part.path, part.n_bytes * MEMORY_FACTOR, limit)
    with _utf8(part) as file:
        text = file.read(limit // MEMORY_FACTOR + 1)
    check_fits(part.path, len(text) * MEMORY_FACTOR, limit)
    try:
        return _parsed(text, part, "the file")
    except PredictionFileError:
        if "\n" in text.strip() and not text.lstrip().startswith("["):
            return None
        raise


def table_of_document(path: Path, document: Any) -> Opened:
    """Return the columns of a list of records, or of a mapping from columns to values.

    These are the forms of pandas' `to_json`: ``records``, ``columns``, ``index``, ``list``,
    ``split`` and ``table``.
    """
    if isinstance(document, list) and document and all(isinstance(r, dict) for r in document):
        return table_of_records(path, document)
    if isinstance(document, list) and document and all(map(is_pipeline_output, document)):
        return table_of_records(path, [{"scores": row} for row in document])
    if isinstance(document, list) and document and _is_one_column(document):
        return table_of_columns(path, {path.stem: document})
    if isinstance(document, dict):
        document = {k: v for k, v in document.items() if isinstance(v, (list, dict))} or document
        lists = [v for v in document.values() if isinstance(v, list)]
        if len(lists) == 1 and all(isinstance(r, dict) for r in lists[0]):
            return table_of_records(path, lists[0])  # {"schema": {...}, "data": [...]}
        names, document = _class_names(document)
        found = _from_mapping(document)
        if found is not None and found and len({len(v) for v in found.values()}) == 1:
            if next(iter(found.values())):
                return table_of_columns(path, found, class_names=names)
            raise file_error(path, "holds no rows. Write at least one example.")
    raise file_error(
        path,
        "must hold a list of objects, one per example, or one list per column. Write it with "
        "`df.to_json(path, orient='records')`.",
    )


def _is_one_column(cells: list[Any]) -> bool:
    """Return whether these are labels, or one list of numbers per example."""
    is_plain = all(type(cell) in (int, float, str, bool) for cell in cells)
    return is_plain or all(map(_is_numbers, cells))


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) in (int, float) for v in value) and value != []


def _class_names(document: dict[str, Any]) -> tuple[tuple[str, ...] | None, dict[str, Any]]:
    """Return the names of the classes beside columns of another length, and the columns."""
    lengths = {name: len(v) for name, v in document.items() if isinstance(v, list)}
    for name, n in lengths.items():
        is_text = all(isinstance(cell, str) for cell in document[name])
        others = {length for other, length in lengths.items() if other != name}
        if plain(name) in CLASS_NAMES and is_text and n > 1 and others and n not in others:
            return tuple(document[name]), {k: v for k, v in document.items() if k != name}
    return None, document


def _from_mapping(document: dict[str, Any]) -> dict[str, list[Any]] | None:
    """Return columns of a JSON object, or None if its form is not known."""
    names, rows = document.get("columns"), document.get("data")
    if "columns" in document and isinstance(rows, list):  # split
        if not isinstance(names, list):
            return None
        if not all(isinstance(r, list) and len(r) == len(names) for r in rows):
            return None
        index = document.get("index")
        labels = index if isinstance(index, list) and len(index) == len(rows) else range(len(rows))
        found = {str(n): [r[i] for r in rows] for i, n in enumerate(names)}
        return _index([str(label) for label in labels]) | found
    if document and all(isinstance(v, list) for v in document.values()):
        return document
    if document and all(isinstance(v, Mapping) for v in document.values()):
        keys = [list(v) for v in document.values()]
        if all(k == keys[0] for k in keys):
            outer, inner = ([k.isdigit() for k in some] for some in (document, keys[0]))
            is_alike = all(outer) == all(inner)
            if len(document) > len(keys[0]) if is_alike else all(outer):  # index
                found = {n: [v[n] for v in document.values()] for n in keys[0]}
                return _index(list(document)) | found
            return _index(keys[0]) | {n: list(v.values()) for n, v in document.items()}  # columns
    return None


def _index(labels: list[str]) -> dict[str, list[Any]]:
    """Return the index of a data frame as a column without a name, none where it only counts."""
    return {} if _counts(labels) else {"Unnamed: 0": labels}


def _counts(keys: list[str]) -> bool:
    return keys == [str(i) for i in range(len(keys))]


def _parsed(text: str, part: Part, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise part.error(f"{what} is not valid JSON ({short(error)}). Write it again.") from error


def table_of_columns(
    path: Path,
    columns: Mapping[str, Sequence[Any]],
    *,
    notes: tuple[str, ...] = (),
    class_names: tuple[str, ...] | None = None,
    objects: Mapping[str, tuple[Sequence[Any], tuple[int, ...]]] | None = None,
    is_ordered: bool = True,
    is_partial: bool = False,
) -> Opened:
    """Return a table of columns of Python values; None is a missing value."""
    found = [_column(name, cells) for name, cells in columns.items()]
    n_rows = len(next(iter(columns.values()), ()))
    objects = objects or {}
    schema = Schema(
        path=path,
        columns=tuple(column for column, _ in found),
        class_names=class_names,
        notes=notes,
        objects=tuple((name, fields) for name, (_, fields) in objects.items()),
        is_ordered=is_ordered,
        is_partial=is_partial,
    )
    data = {i: cells for i, (_, cells) in enumerate(found)}
    data |= {~i: _arrow(cells) for i, (cells, _) in enumerate(objects.values())}
    return in_memory(schema, data, n_rows)


def table_of_records(path: Path, records: Sequence[Mapping[str, Any]]) -> Opened:
    """Return a table of one mapping per row; nested mappings become columns ``outer.inner``."""
    names: dict[str, None] = {}
    flat = []
    for record in records:
        row = _flattened(record)
        names.update(dict.fromkeys(row))
        flat.append(row)
        if len(names) > MAX_COLUMNS:
            raise file_error(path, f"has more than {MAX_COLUMNS:,} different fields.")
    objects = {n: None for r in records for n, v in r.items() if _is_object(n, v, names)}
    own = {name for record in records for name in record if name not in objects}
    inside = [
        tuple(i for i, n in enumerate(names) if f"{n}.".startswith(f"{o}.") and n not in own)
        for o in objects
    ]
    return table_of_columns(
        path,
        {name: [row.get(name) for row in flat] for name in names},
        objects={
            name: ([record.get(name) for record in records], fields)
            for name, fields in zip(objects, inside, strict=True)
        },
        is_ordered=all(_follows(row, names) for row in flat),
        is_partial=any(len(row) < len(names) for row in flat),
    )


def _is_object(name: str, value: Any, names: Mapping[str, None]) -> bool:
    """Return whether a field of a record is an object whose fields became columns."""
    is_plain = isinstance(value, Mapping) and _without_lists(value)[1] is None
    return is_plain and any(f"{name}.{key}" in names for key in value)


def _follows(row: Mapping[str, Any], names: Mapping[str, None]) -> bool:
    """Return whether a row has its fields in the order of `names`, some of them left out."""
    rest = iter(names)
    return all(name in rest for name in row)


def _flattened(record: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    rest, listed = _without_lists(record)
    for name, value in rest.items():
        inner: Mapping[str, Any] = {}
        if isinstance(value, Mapping):
            inner, scores = _without_lists(value)
        else:
            scores = _label_scores(value)
        if scores is None and not isinstance(value, Mapping):
            row[str(name)] = value
            continue
        # A pipeline's output holds scores, whatever the field is called.
        outer = "scores" if scores is not None and "scores" not in record else name
        cells = {**inner, **(scores or {})}
        row.update({f"{outer}.{key}": cell for key, cell in cells.items()})
    return row | {f"scores.{key}": cell for key, cell in (listed or {}).items()}


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


def _without_lists(record: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any] | None]:
    """Return a record without its lists ``classes`` and ``scores``, and these as a mapping.

    Services sort them by score, so that each row has its own order. None: there are none that
    belong together.
    """
    lists = {k: v for k, v in record.items() if isinstance(v, list) and 1 < len(v) <= MAX_CLASSES}
    names = [
        k
        for k, v in lists.items()
        if plain(str(k)) in CLASS_NAMES | {"labels"} and all(isinstance(x, str) for x in v)
    ]
    scores = [k for k, v in lists.items() if all(type(x) in (int, float) for x in v)]
    if len(names) == len(scores) == 1:
        texts, numbers = lists[names[0]], lists[scores[0]]
        if len(texts) == len(numbers) == len(set(texts)):
            rest = {k: v for k, v in record.items() if k not in (names[0], scores[0])}
            return rest, dict(zip(texts, numbers, strict=True))
    return record, None


def _column(name: str, cells: Sequence[Any]) -> tuple[Column, Any]:
    """Return what the values of a column are, and the column as an Arrow array.

    Options of varying number are filled up with -inf.
    """
    if plain(name) in OPTIONS and all(map(_is_numbers, cells)):
        counts = np.array([len(cell) for cell in cells])
        width = int(counts.max())
        filled = np.full((len(cells), width), -np.inf)
        filled[np.arange(width) < counts[:, None]] = np.fromiter(chain(*cells), float)
        stored = pa.FixedSizeListArray.from_arrays(pa.array(filled.reshape(-1)), width)
        return Column(name=name, kind="matrix", shape=(width,), dtype=filled.dtype), stored
    stored = _arrow(cells)
    kind, width, dtype = described_type(stored.type)
    known = [cell for cell in cells if cell is not None]
    if kind == "text" and known and all(type(cell) is str and is_number(cell) for cell in known):
        if not all(cell.strip().lstrip("+-").isdigit() for cell in known):  # labels may be "007"
            kind = "number"
    elif kind == "text" and not all(type(cell) is str for cell in known):
        is_list = any(isinstance(cell, (list, dict)) for cell in known)
        kind = "other" if is_list else "text"
    if kind == "bool" and len(known) < len(cells):
        kind = "text"
    if kind == "matrix" and (len(known) < len(cells) or len({len(c) for c in known}) > 1):
        kind, width = "other", 1
    elif kind == "matrix":
        width = len(known[0])
    shape = (width,) if kind == "matrix" else ()
    unnamed = name.startswith("Unnamed: ")
    return Column(name=name, kind=kind, shape=shape, dtype=dtype, unnamed=unnamed), stored


def _arrow(cells: Sequence[Any]) -> Any:
    """Return cells as an Arrow array; those of several types as JSON text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if not (kinds <= {int, float} or len(kinds) == 1):
        return _as_json(cells)
    try:
        if kinds == {int, float}:
            if any(type(cell) is int and abs(cell) > 1 << 53 for cell in cells):
                return _as_json(cells)
            return pa.array([None if c is None else float(c) for c in cells], pa.float64())
        found = pa.array(cells)
        # A structure has the same fields, and at least one, in every row.
        is_alike = "struct<" not in str(found.type) or (
            "struct<>" not in str(found.type) and found.to_pylist() == cells
        )
        return found if is_alike else _as_json(cells)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return _as_json(cells)


def _as_json(cells: Sequence[Any]) -> Any:
    texts = [
        None if c is None else c if isinstance(c, str) else json.dumps(c, default=str)
        for c in cells
    ]
    try:
        found = pa.array(texts, pa.string())
    except (pa.ArrowException, ValueError):  # lone surrogates
        raw = [None if t is None else t.encode("utf-8", "backslashreplace") for t in texts]
        found = pa.array(raw, pa.binary()).cast(pa.string())
    is_nested = all(c is None or isinstance(c, (dict, list)) for c in cells)
    return pa.ExtensionArray.from_storage(pa.json_(), found) if is_nested else found
