"""The rows of a text table: encoding, separator, header, cells."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, Any

from focalibrate.io._bytes import DAMAGE, StoredBytes
from focalibrate.io._dialect import (
    Dialect,
    cells_of,
    find_decimal_comma,
    find_header,
    find_separator,
    is_number,
    split_spaces,
)
from focalibrate.io._error import PredictionFileError, file_error, listing, short

CHUNK_ROWS = 20_000
"""Rows parsed at a time."""

SAMPLE = 200
"""Rows that decide the separator, the header and what the columns hold."""

MAX_SAMPLE = 1 << 24
"""Most bytes read for the sample: a file without line breaks is not a table."""


_EXCEL_HINT = re.compile("sep=.", re.IGNORECASE)
_RULE = re.compile(r"[-+|:= ]*--[-+|:= ]*")
_FOOTER = re.compile(r"\(\d+ rows?\)")


@dataclass(frozen=True)
class Opened:
    """A text table and its dialect."""

    source: StoredBytes
    dialect: Dialect
    encoding: str
    names: tuple[str, ...] | None
    width: int


def raw_cells(opened: Opened, wanted: Sequence[int]) -> list[list[str]]:
    """Return the cells of some columns exactly as the file has them."""
    found: list[list[str]] = [[] for _ in wanted]
    with damage_named(opened.source):
        for row in rows_of(opened):
            for cells, i in zip(found, wanted, strict=True):
                cells.append(row[i])
    return found


@contextmanager
def damage_named(source: StoredBytes) -> Iterator[None]:
    """Turn the errors of damaged bytes into a `PredictionFileError`."""
    try:
        yield
    except PredictionFileError:
        raise
    except UnicodeDecodeError as error:
        byte = error.object[error.start] if isinstance(error.object, bytes) else 0
        raise file_error(
            source.path,
            f"must be UTF-8 text, but holds the byte 0x{byte:02x}. Save it as CSV UTF-8, or say "
            "which encoding it has.",
            fixes=[{"encoding": "cp1252"}],
        ) from error
    except DAMAGE as error:
        if isinstance(error, OSError) and not source.compression:
            raise
        raise file_error(
            source.path, f"is truncated or damaged ({error}). Copy or write it again."
        ) from error


def name_of(opened: Opened, position: int) -> str:
    if opened.names is None:
        return str(position)
    return opened.names[position] or f"Unnamed: {position}"


def look_at_top(
    source: StoredBytes, *, suffix: str, told: bool | None, encoding: str | None
) -> Opened:
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
    comment = "#" if lines[0].lstrip().startswith("#") else ""
    if _EXCEL_HINT.fullmatch(lines[0].strip()):
        comment = lines[0].strip()[:4]
    kept = [line for line in lines if not (comment and line.lstrip().startswith(comment))]
    if not kept:
        raise file_error(path, "holds only comments. Write a header and at least one example.")
    _check_not_drawn(kept, path)
    separator = find_separator(kept, suffix=suffix)
    at = _comment_header(lines, kept, separator) if comment == "#" else -1
    if at >= 0:
        kept.insert(0, lines[at].lstrip().lstrip("#"))
    dialect = Dialect(separator, comment=comment, comment_header=at)
    try:
        if kept[0].count('"') % 2:
            raise csv.Error("a name of a column goes on in the next line")
        rows = [cells_of(line, separator) for line in kept]
    except csv.Error:
        rows = list(islice(rows_of(Opened(source, dialect, guessed, None, 0), whole=True), SAMPLE))
    dialect = replace(dialect, decimal_comma=find_decimal_comma(rows[1:] or rows))
    _check_one_header(rows, path)
    dialect = find_header(dialect, rows, path=path, told=True if at >= 0 else told)
    names = None
    if dialect.has_header:
        names = tuple(["", *rows[0]] if dialect.row_names else rows[0])
    return Opened(source, dialect, guessed, names, len(names or rows[0]))


def _comment_header(lines: list[str], kept: list[str], separator: str | None) -> int:
    """Return the last of the comments above the table if it names its columns, or -1."""
    above = list(takewhile(lambda line: line.lstrip().startswith("#"), lines))
    try:
        widths = {len(cells_of(line, separator)) for line in kept[:2]}
        names = cells_of(above[-1].lstrip().lstrip("#"), separator)
    except csv.Error:
        return -1
    is_header = len(names) in widths and not any(map(is_number, names))
    return len(above) - 1 if is_header else -1


def _check_not_drawn(lines: Sequence[str], path: Path) -> None:
    """Raise if a line is a rule or counts the rows, as in tables drawn to be looked at."""
    if _FOOTER.fullmatch(lines[-1].strip()):
        raise _is_footer(lines[-1], path)
    drawn = [line.strip() for line in lines[:3] if _RULE.fullmatch(line.strip())]
    if drawn:
        raise file_error(
            path,
            f"is a table drawn to be looked at (it has the line {short(drawn[0])!r}). Save it as "
            "CSV: `psql --csv`, `mysql --batch`, `sqlite3 -csv -header`, or `df.to_csv(path)`.",
        )


def _is_footer(line: str, path: Path) -> PredictionFileError:
    return file_error(
        path,
        f"its last line, {short(line.strip())!r}, is not an example. Remove it (`psql --csv` does "
        "not write it).",
    )


def _check_one_header(rows: Sequence[Sequence[str]], path: Path) -> None:
    """Raise if there is a title, or a second row of names as pandas writes for a MultiIndex."""
    if len(rows) > 2 and len(rows[0]) == 1 < len(rows[1]) and not any(map(is_number, rows[1])):
        raise file_error(
            path,
            f"its first line, {short(rows[0][0])!r}, does not name the columns. Remove the lines "
            "above the names of the columns.",
        )
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
def _text(source: StoredBytes, encoding: str) -> Iterator[IO[str]]:
    with source.open() as binary, io.TextIOWrapper(binary, encoding, newline="") as text:
        yield text


def rows_of(opened: Opened, *, whole: bool = False) -> Iterator[list[str]]:
    """Yield the cells of every row but the header; raise if a row has more or fewer cells."""
    for rows in chunks_of(opened, whole=whole):
        yield from rows


def chunks_of(
    opened: Opened, *, whole: bool = False, n_rows: int | None = None
) -> Iterator[list[list[str]]]:
    """Yield the rows of `rows_of` in chunks."""
    skip = 0 if whole else int(opened.dialect.has_header)
    with _reader(opened) as reader:
        while True:
            try:
                rows = list(islice(reader, n_rows or CHUNK_ROWS))
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
            yield kept


@contextmanager
def _reader(opened: Opened) -> Iterator[Any]:
    """Give what yields the cells of every line, as `csv.reader` does."""
    separator = opened.dialect.separator
    with _text(opened.source, opened.encoding) as text:
        lines = _checked_lines(text, opened.source.path, opened.dialect)
        yield (
            _Split(lines)
            if separator is None
            else csv.reader(lines, delimiter=separator, strict=True)
        )


class _Split:
    """Rows of cells between runs of white space, in the form of `csv.reader`."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self.line_num = lines, 0

    def __iter__(self) -> "_Split":
        return self

    def __next__(self) -> list[str]:
        self.line_num += 1
        return split_spaces(next(self._lines))


def _checked_lines(text: IO[str], path: Path, dialect: Dialect) -> Iterator[str]:
    number = -1
    for line in text:
        if "\0" in line:
            raise file_error(
                path,
                "must be text, but holds zero bytes. Save it as CSV UTF-8; if it is UTF-16, "
                "say so.",
                fixes=[{"encoding": "utf-16-le"}],
            )
        number += bool(line.strip())
        if dialect.comment and line.lstrip().startswith(dialect.comment):
            is_header = number == dialect.comment_header
            line = line.lstrip().lstrip("#").lstrip() if is_header else "\n"
        yield line


def _bad_quote(opened: Opened, error: csv.Error) -> PredictionFileError:
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


def _bad_width(opened: Opened) -> PredictionFileError:
    found, last = [0], [""]

    def is_bad(cells: list[str]) -> bool:
        found[0], last[0] = len(cells), cells[0] if cells else ""
        return (len(cells) > 1 or bool(cells and cells[0].strip())) and found[0] != opened.width

    skip = 1 if opened.dialect.row_names else 0
    line = _first_bad_line(opened, is_bad, skip=skip)
    if _FOOTER.fullmatch(last[0].strip()):
        return _is_footer(last[0], opened.source.path)
    advice = "Give every line the same number of cells."
    if opened.width == 1:
        advice = "Remove the lines above the names of the columns."
    return file_error(
        opened.source.path,
        f"line {line} has {found[0]} {'cell' if found[0] == 1 else 'cells'}, the first line has "
        f"{opened.width}. {advice}",
    )


def _first_bad_line(opened: Opened, is_bad: Any, *, skip: int = 0) -> int:
    """Return the number, from 1, of the first line that cannot be parsed or that `is_bad`."""
    with _reader(opened) as reader:
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
