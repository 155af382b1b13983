"""JSON tables: `.jsonl` (one object per line) and `.json` (records, or columns)."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from focalibrate.io._bytes import DAMAGE, StoredBytes
from focalibrate.io._error import PredictionFileError, file_error, short
from focalibrate.io._frame import Frame
from focalibrate.io._limit import check_fits
from focalibrate.io._records import (
    frame_of_columns,
    frame_of_records,
    is_pipeline_output,
    short_type,
)
from focalibrate.io._vocabulary import CLASS_NAMES, plain

MEMORY_FACTOR = 8
"""Python's objects for a JSON text take about this many times its bytes."""


def open_json_lines(source: StoredBytes) -> Frame:
    """Return the columns of one JSON object per line."""
    records = []
    taken = 0
    try:
        with source.open() as binary, io.TextIOWrapper(binary, "utf-8-sig") as text:
            for number, line in enumerate(text, start=1):
                if not line.strip():
                    continue
                taken += len(line)
                check_fits(source.path, taken * MEMORY_FACTOR, source.limit)
                record = _parsed(line, source, f"line {number}")
                if _is_numbers(record):
                    record = {source.path.stem: record}
                if not isinstance(record, dict):
                    raise file_error(
                        source.path,
                        f"line {number} must be a JSON object, got {short_type(record)}. Write "
                        'one object per line: {"label": 1, "probs": [0.2, 0.8]}.',
                    )
                records.append(record)
    except UnicodeDecodeError as error:
        raise file_error(source.path, "must be UTF-8 text. Write it again.") from error
    except PredictionFileError:
        raise
    except DAMAGE as error:
        raise _damaged(source, error) from error
    if not records:
        raise file_error(source.path, "holds no rows. Write at least one example.")
    return frame_of_records(source.path, records)


def open_json(source: StoredBytes) -> Frame:
    """Return the columns of a list of records, or of a mapping from columns to values.

    The forms of pandas' `to_json`: ``records``, ``columns``, ``index``, ``list``, ``split``
    and ``table``.
    """
    check_fits(source.path, source.size * MEMORY_FACTOR, source.limit)
    try:
        with source.open() as binary:
            text = binary.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise file_error(source.path, "must be UTF-8 text. Write it again.") from error
    except PredictionFileError:
        raise
    except DAMAGE as error:
        raise _damaged(source, error) from error
    try:
        document = _parsed(text, source, "the file")
    except PredictionFileError:
        if "\n" in text.strip():
            return open_json_lines(source)
        raise
    if isinstance(document, list) and document and all(isinstance(r, dict) for r in document):
        return frame_of_records(source.path, document)
    if isinstance(document, list) and document and all(map(is_pipeline_output, document)):
        return frame_of_records(source.path, [{"scores": row} for row in document])
    if isinstance(document, list) and document and _is_one_column(document):
        return frame_of_columns(source.path, {source.path.stem: document})
    if isinstance(document, dict):
        document = {k: v for k, v in document.items() if isinstance(v, (list, dict))} or document
        lists = [v for v in document.values() if isinstance(v, list)]
        if len(document) == len(lists) == 1 and all(isinstance(r, dict) for r in lists[0]):
            return frame_of_records(source.path, lists[0])  # {"model": "a", "results": [...]}
        names, document = _class_names(document)
        found = _from_mapping(document)
        if found is not None and found and len({len(v) for v in found.values()}) == 1:
            if next(iter(found.values())):
                return replace(frame_of_columns(source.path, found), class_names=names)
            raise file_error(source.path, "holds no rows. Write at least one example.")
    raise file_error(
        source.path,
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
    if set(document) >= {"columns", "data"} and isinstance(document["data"], list):  # split
        names, rows = document["columns"], document["data"]
        if isinstance(names, list) and all(
            isinstance(r, list) and len(r) == len(names) for r in rows
        ):
            return {str(n): [r[i] for r in rows] for i, n in enumerate(names)}
        return None
    if "schema" in document and isinstance(document.get("data"), list):  # table
        rows = document["data"]
        if rows and all(isinstance(r, dict) for r in rows):
            return {str(n): [r.get(n) for r in rows] for n in rows[0]}
        return None
    if document and all(isinstance(v, list) for v in document.values()):
        return document
    if document and all(isinstance(v, Mapping) for v in document.values()):
        keys = [list(v) for v in document.values()]
        if all(k == keys[0] for k in keys):
            if _counts(list(document)) and not _counts(keys[0]):  # index
                return {n: [v[n] for v in document.values()] for n in keys[0]}
            return {n: list(v.values()) for n, v in document.items()}  # columns
    return None


def _counts(keys: list[str]) -> bool:
    return keys == [str(i) for i in range(len(keys))]


def _parsed(text: str, source: StoredBytes, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise file_error(
            source.path, f"{what} is not valid JSON ({short(error)}). Write it again."
        ) from error


def _damaged(source: StoredBytes, error: BaseException) -> PredictionFileError:
    if isinstance(error, OSError) and not source.compression:
        return file_error(source.path, f"could not be read: {error.strerror or error}.")
    return file_error(
        source.path, f"is truncated or damaged ({short(error)}). Copy or write it again."
    )
