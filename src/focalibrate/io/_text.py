"""Text tables (`.csv`, `.tsv`, `.txt`, compressed or not): one example per line."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._bytes import DAMAGE, Source
from focalibrate.io._dialect import (
    MISSING,
    Dialect,
    cells_of,
    find_decimal_comma,
    find_header,
    find_separator,
    is_number,
    is_value,
    split_spaces,
)
from focalibrate.io._error import PredictionFileError, file_error, listing, short
from focalibrate.io._frame import Column, ColumnKind, Frame, Progress
from focalibrate.io._limit import check_fits

CHUNK_ROWS = 20_000
"""Rows parsed at a time."""

SAMPLE = 200
"""Rows that tell the separator, the header and what the columns hold."""

MAX_SAMPLE = 1 << 24
"""Bytes in which the sample must be found: a file without line ends is no table."""

BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True)
class _Opened:
    """Where the text is and how it is written."""

    source: Source
    dialect: Dialect
    encoding: str
    names: tuple[str, ...] | None
    width: int


def open_text(
    source: Source,
    *,
    suffix: str,
    header: bool | None,
    encoding: str | None,
    progress: Progress,
) -> Frame:
    """Read a text table once: numbers are kept, text is kept as codes of its distinct cells."""
    with _damage_named(source):
        opened = _top(source, suffix=suffix, told=header, encoding=encoding)
        sample = list(islice(_rows(opened), SAMPLE))
        if not sample:
            raise file_error(
                source.path, "holds a header and no rows. Write at least one example."
            )
        kinds = [_kind([row[i] for row in sample], opened.dialect) for i in range(opened.width)]
        columns: list[NDArray[Any]] | None = None
        while columns is None:  # again only where a column of numbers has text further down
            columns = _read(opened, kinds, progress)
    described = tuple(
        Column(
            name=_name(opened, i),
            kind=kind,
            shape=columns[i].shape,
            unnamed=opened.names is not None and not opened.names[i],
        )
        for i, kind in enumerate(kinds)
    )
    notes = []
    if opened.dialect.decimal_comma:
        notes.append("numbers are written with a decimal comma")
    return Frame(
        path=source.path,
        columns=described,
        load=lambda wanted, _: [columns[i] for i in wanted],
        has_names=opened.names is not None,
        extra={
            "cells": lambda wanted: raw_cells(opened, wanted),
            "separator": opened.dialect.separator or " ",
            "decimal_comma": opened.dialect.decimal_comma,
        },
        notes=tuple(notes),
    )


def bad_cell(frame: Frame, position: int) -> PredictionFileError:
    """Return the error for a column of scores that holds text: its first such cell."""
    cells = frame.extra["cells"]([position])[0]
    comma = frame.extra["decimal_comma"]
    bad = (i for i, cell in enumerate(cells) if not is_value(cell, decimal_comma=comma))
    row = next(bad, 0)
    name = frame.names[position]
    return file_error(
        frame.path,
        f"column `{short(name)}` must hold numbers, but row {row} (0-based) has "
        f"{short(repr(cells[row]))}. Correct it, or leave the column out.",
        fixes=[{"ignore": [name]}],
    )


def raw_cells(opened: _Opened, wanted: Sequence[int]) -> list[list[str]]:
    """Return the cells of some columns exactly as the file has them."""
    found: list[list[str]] = [[] for _ in wanted]
    with _damage_named(opened.source):
        for row in _rows(opened):
            for cells, i in zip(found, wanted, strict=True):
                cells.append(row[i])
    return found


@contextmanager
def _damage_named(source: Source) -> Iterator[None]:
    """Turn what damaged bytes raise into the file's own error."""
    try:
        yield
    except PredictionFileError:
        raise
    except UnicodeDecodeError as error:
        byte = error.object[error.start] if isinstance(error.object, bytes) else 0
        raise file_error(
            source.path,
            f"must be UTF-8 text, but holds the byte 0x{byte:02x}. Save it as CSV UTF-8, or say "
            "how it is encoded.",
            fixes=[{"encoding": "cp1252"}],
        ) from error
    except DAMAGE as error:
        if isinstance(error, OSError) and not source.compression:
            raise
        raise file_error(
            source.path, f"is truncated or damaged ({error}). Copy or write it again."
        ) from error


def _name(opened: _Opened, position: int) -> str:
    if opened.names is None:
        return str(position)
    return opened.names[position] or f"Unnamed: {position}"


def _top(source: Source, *, suffix: str, told: bool | None, encoding: str | None) -> _Opened:
    """Look at the first rows: encoding, separator, decimal mark, header."""
    path = source.path
    with source.open() as file:
        start = file.read(4)
    guessed = encoding or _encoding(start)
    try:
        "".encode(guessed)
    except LookupError as error:
        raise ValueError(f"`encoding` must be a text encoding, got {encoding!r}.") from error
    lines = []
    with _text(source, guessed) as text:
        taken = 0
        for line in text:
            taken += len(line)
            if taken > MAX_SAMPLE:
                raise file_error(path, "has lines too long for a table. Is it a text file?")
            if line.strip():
                lines.append(line.strip("\r\n"))
            if len(lines) > SAMPLE:
                break
    if not lines:
        raise file_error(path, "is empty. Write a header and at least one example.")
    comment = lines[0].lstrip().startswith("#")
    kept = [lines[0].lstrip().lstrip("#") if comment else lines[0]]
    kept += [line for line in lines[1:] if not (comment and line.lstrip().startswith("#"))]
    separator = find_separator(kept, suffix=suffix)
    dialect = Dialect(separator, comment=comment)
    try:
        rows = [cells_of(line, separator) for line in kept]
    except csv.Error:
        rows = list(islice(_rows(_Opened(source, dialect, guessed, None, 0), whole=True), SAMPLE))
    dialect = Dialect(separator, find_decimal_comma(rows[1:] or rows, separator), comment=comment)
    _check_one_header(rows, path)
    dialect = find_header(dialect, rows, path=path, told=True if comment else told)
    names = None
    if dialect.has_header:
        names = tuple(["", *rows[0]] if dialect.row_names else rows[0])
    return _Opened(source, dialect, guessed, names, len(names or rows[0]))


def _check_one_header(rows: Sequence[Sequence[str]], path: Path) -> None:
    """Raise where two rows of names stand above the numbers, as pandas writes a MultiIndex."""
    if len(rows) < 3 or len({len(row) for row in rows[:3]}) > 1:
        return
    first, second, third = rows[:3]
    named = [i for i, cell in enumerate(third) if is_number(cell) and first[i] and second[i]]
    over, under = [first[i] for i in named], [second[i] for i in named]
    if any(map(is_number, over + under)):
        return
    if len(set(over)) < len(over) == len(set(under)):
        raise file_error(
            path,
            f"has two rows of names ({listing(over)} and {listing(under)}), as pandas writes "
            "columns of two levels. Join them before saving: "
            "`df.columns = ['_'.join(map(str, c)).strip('_') for c in df.columns]`.",
        )


def _encoding(start: bytes) -> str:
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    return "utf-8-sig"


@contextmanager
def _text(source: Source, encoding: str) -> Iterator[IO[str]]:
    with source.open() as binary, io.TextIOWrapper(binary, encoding, newline="") as text:
        yield text


def _rows(opened: _Opened, *, whole: bool = False) -> Iterator[list[str]]:
    """Yield the cells of every row but the header; raise where a row has more or fewer cells."""
    for chunk, _ in _chunks(opened, whole=whole):
        yield from chunk


def _chunks(opened: _Opened, *, whole: bool = False) -> Iterator[tuple[list[list[str]], int]]:
    """Yield rows many at a time, each time with the line number reached."""
    dialect, path = opened.dialect, opened.source.path
    skip = 0 if whole else int(dialect.has_header)
    with _text(opened.source, opened.encoding) as text:
        lines = _checked_lines(text, path, comment=dialect.comment)
        reader = (
            _Split(lines)
            if dialect.separator is None
            else csv.reader(lines, delimiter=dialect.separator, strict=True)
        )
        while True:
            before = reader.line_num
            try:
                rows = list(islice(reader, CHUNK_ROWS))
            except csv.Error as error:
                raise _bad_quote(opened, error) from error
            if not rows:
                return
            kept = [row for row in rows if len(row) > 1 or (row and row[0].strip())]
            if skip and kept:
                del kept[0]
                skip = 0
            if not whole and set(map(len, kept)) - {opened.width}:
                raise _bad_width(opened)
            yield kept, before


class _Split:
    """Rows of cells between runs of white space, in the form of `csv.reader`."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self.line_num = lines, 0

    def __iter__(self) -> "_Split":
        return self

    def __next__(self) -> list[str]:
        self.line_num += 1
        return split_spaces(next(self._lines))


def _checked_lines(text: IO[str], path: Path, *, comment: bool) -> Iterator[str]:
    for number, line in enumerate(text):
        if "\0" in line:
            raise file_error(path, "must be text, but holds zero bytes. Save it as CSV UTF-8.")
        if comment and line.lstrip().startswith("#"):
            line = line.lstrip().lstrip("#").lstrip() if number == 0 else "\n"
        yield line


def _bad_quote(opened: _Opened, error: csv.Error) -> PredictionFileError:
    line = _first_bad_line(opened, lambda cells: False)
    if "field larger" in str(error):
        return file_error(
            opened.source.path,
            f"line {line} has a cell of more than {csv.field_size_limit():,} characters.",
        )
    return file_error(
        opened.source.path,
        f"line {line} has an unclosed or misplaced quote. Correct it, and write quotes in a cell "
        'twice ("").',
    )


def _bad_width(opened: _Opened) -> PredictionFileError:
    found = [0]

    def is_bad(cells: list[str]) -> bool:
        found[0] = len(cells)
        return (len(cells) > 1 or bool(cells and cells[0].strip())) and found[0] != opened.width

    skip = 1 if opened.dialect.row_names else 0
    line = _first_bad_line(opened, is_bad, skip=skip)
    return file_error(
        opened.source.path,
        f"line {line} has {found[0]} cells, the first line has {opened.width}. Give every line "
        "the same number of cells.",
    )


def _first_bad_line(opened: _Opened, is_bad: Any, *, skip: int = 0) -> int:
    """Return the number, from 1, of the first line that cannot be parsed or that `is_bad`."""
    dialect = opened.dialect
    with _text(opened.source, opened.encoding) as text:
        lines = _checked_lines(text, opened.source.path, comment=dialect.comment)
        reader = (
            _Split(lines)
            if dialect.separator is None
            else csv.reader(lines, delimiter=dialect.separator, strict=True)
        )
        start = 1
        try:
            for cells in reader:
                if cells and skip:
                    skip -= 1
                elif is_bad(cells):
                    break
                start = reader.line_num + 1
        except csv.Error:
            pass
    return start


def _kind(cells: Sequence[str], dialect: Dialect) -> ColumnKind:
    """Return what the cells of a column seem to be, by the first rows."""
    known = [cell.strip() for cell in cells if cell.strip()]
    if not known:
        return "empty"
    if all(is_value(cell, decimal_comma=dialect.decimal_comma) for cell in known):
        # a column of nothing but "None" or "?" is text
        return "number" if any(cell.lower() not in MISSING for cell in known) else "text"
    if all(cell.lower() in BOOLEANS for cell in known):
        return "bool"
    if all(cell.startswith("[") and cell.endswith("]") for cell in known):
        return "matrix"
    return "text"


def _read(
    opened: _Opened, kinds: list[ColumnKind], progress: Progress
) -> list[NDArray[Any]] | None:
    """Return every column, or None where one of `kinds` was wrong and has been corrected."""
    parts: list[list[Any]] = [[] for _ in kinds]
    codes: list[dict[str, int]] = [{} for _ in kinds]
    taken = 0
    for rows, _ in _chunks(opened):
        for i, kind in enumerate(kinds):
            cells = [row[i] for row in rows]
            part = _parse(cells, kind, codes[i], opened.dialect)
            if part is None:
                kinds[i] = "text"
                return None
            parts[i].append(part)
            taken += part.nbytes
        check_fits(opened.source.path, taken, opened.source.limit)
        progress(min(taken, opened.source.size), opened.source.size)
    return [_joined(p, kind, c, opened) for p, kind, c in zip(parts, kinds, codes, strict=True)]


def _parse(
    cells: list[str], kind: ColumnKind, codes: dict[str, int], dialect: Dialect
) -> NDArray[Any] | None:
    """Return one chunk of a column, or None where a cell is not of its kind."""
    if kind == "number":
        return _numbers(cells, dialect)
    if kind == "bool":
        try:
            return np.array([BOOLEANS[cell.strip().lower()] for cell in cells])
        except KeyError:
            return None
    if kind == "matrix":
        return _matrix(cells)
    if kind == "empty" and any(cell.strip() for cell in cells):
        return None
    return np.array([codes.setdefault(cell.strip(), len(codes)) for cell in cells], np.int32)


def _numbers(cells: list[str], dialect: Dialect) -> NDArray[np.float64] | None:
    if dialect.decimal_comma:
        cells = [cell.replace(",", ".", 1) for cell in cells]
    joined = "".join(cells)
    if "_" not in joined and joined.isascii():
        try:
            return np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            pass
    numbers = np.empty(len(cells))
    for i, cell in enumerate(cells):
        text = cell.strip()
        if text.lower() in MISSING:
            numbers[i] = np.nan
        elif is_number(text):
            numbers[i] = float(text)
        elif text.endswith("%") and is_number(text[:-1]):
            numbers[i] = float(text[:-1]) / 100
        else:
            return None
    return numbers


def _matrix(cells: list[str]) -> NDArray[np.float64] | None:
    """Return lists written as text: ``[0.1, 0.9]`` or NumPy's ``[0.1 0.9]``."""
    rows: list[list[float]] = []
    for cell in cells:
        text = cell.strip()
        if not (text.startswith("[") and text.endswith("]")):
            return None
        try:
            row = json.loads(text)
        except (ValueError, RecursionError):
            row = text[1:-1].replace(",", " ").split()
        try:
            numbers = [float(value) for value in row]
        except (ValueError, TypeError, OverflowError):
            return None
        if rows and len(numbers) != len(rows[0]):
            return None
        rows.append(numbers)
    return np.array(rows, np.float64)


def _joined(
    parts: list[Any], kind: ColumnKind, codes: dict[str, int], opened: _Opened
) -> NDArray[Any]:
    if kind in ("number", "bool", "matrix"):
        if kind == "matrix" and len({part.shape[1] for part in parts}) > 1:
            raise file_error(
                opened.source.path, "every row must have the same number of scores in its list."
            )
        return np.concatenate(parts)
    distinct = np.array(list(codes), dtype=object)
    return np.asarray(distinct[np.concatenate(parts)])
