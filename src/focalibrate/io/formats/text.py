"""Text tables (`.csv`, `.tsv`, `.txt`, compressed or not), parsed by pyarrow: every cell is text.

What decides the dialect is `formats.dialect`; what a table that pyarrow refuses is refused for is
found by Python's own csv reader, which names the line.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from focalibrate.io.bytes import DAMAGE, StoredBytes
from focalibrate.io.errors import Doubt, PredictionFileError, file_error
from focalibrate.io.formats.dialect import (
    FOOTER,
    Top,
    checked_lines,
    is_footer,
    look_at_top,
    split_spaces,
    zero_bytes,
)
from focalibrate.io.formats.opened import Opened
from focalibrate.io.table import Column, Schema, Table, parsed

BLOCK = 1 << 22
"""Bytes parsed at a time; a line must fit into them."""


def look_at_source(
    source: StoredBytes, *, suffix: str, header: bool | None, encoding: str | None
) -> Top:
    """Return what the first lines say."""
    with damage_named(source):
        return look_at_top(source, suffix=suffix, told=header, encoding=encoding)


def open_text(source: StoredBytes, top: Top) -> Opened:
    """Return the rows of a text table."""
    names = top.names or ("",) * top.width
    columns = tuple(
        Column(
            name=str(i) if top.names is None else name or f"Unnamed: {i}",
            kind="other",  # until the first rows are read
            unnamed=top.names is not None and not name,
        )
        for i, name in enumerate(names)
    )
    dialect = top.dialect
    schema = Schema(
        path=source.path,
        columns=columns,
        has_names=top.names is not None,
        separator=dialect.separator or " ",
        decimal_comma=dialect.decimal_comma,
        notes=_notes(top),
    )

    digests: list[str] = []

    def read(wanted: Sequence[int] | None, rows: int, _: int | None) -> Iterator[Table]:
        start = 0
        with damage_named(source):
            needed = list(range(top.width) if wanted is None else wanted)
            for batch in _batches(source, top, needed, digests.append):
                held = Table(
                    schema, {int(n): batch.column(n) for n in batch.schema.names}, len(batch)
                )
                for at in range(0, len(batch), rows):
                    part = held.slice(at, rows)
                    part.first_row = start + at
                    yield part
                start += len(batch)

    return Opened(
        schema=schema,
        read=read,
        n_rows=0 if top.is_empty else None,
        digest=lambda: digests[-1] if digests else None,
    )


def _notes(top: Top) -> tuple[str, ...]:
    if top.dialect.decimal_comma:
        return ("numbers are written with a decimal comma",)
    if not top.thousands:
        return ()
    whole = top.thousands.replace(".", "")
    return (
        Doubt(
            f"WARNING: {top.thousands} is read as a fraction, as are all such numbers: if it is "
            f"to mean {whole}, write it so"
        ),
    )


def with_kinds(schema: Schema, head: Table) -> Schema:
    """Return the schema of a text table, its columns described by the first rows."""
    comma = schema.decimal_comma
    columns = []
    for i, column in enumerate(schema.columns):
        kind = head.kind_of_cells(i)
        lists = parsed(head.data[i], kind, decimal_comma=comma) if kind == "matrix" else None
        shape = () if lists is None else lists.shape[1:]
        columns.append(replace(column, kind=kind, shape=shape))
    return replace(schema, columns=tuple(columns))


def _batches(
    source: StoredBytes, top: Top, wanted: list[int], done_reading: Callable[[str], None]
) -> Iterator[Any]:
    """Yield the rows as Arrow batches, each column named by its position."""
    done = 0
    if top.is_plain:
        try:
            stream = _Plain(source, done_reading)
            for batch in _parsed(stream, top, wanted, skip=top.header_lines):
                yield batch
                done += len(batch)
            return
        except pa.ArrowInvalid as error:
            _check_lines(source, top, error)
    # pyarrow cannot read it as it is, but every line is good: written again, it can.
    for batch in _parsed(_Again(source, top), top, wanted, skip=0, separator=","):
        if len(batch) > done:
            yield batch.slice(done)
        done = max(0, done - len(batch))


def _parsed(
    stream: Any, top: Top, wanted: list[int], *, skip: int, separator: str | None = None
) -> Iterator[Any]:
    names = [str(i) for i in range(top.width)]
    try:
        reader = pa_csv.open_csv(
            pa.PythonFile(stream, mode="r"),
            read_options=pa_csv.ReadOptions(
                column_names=names,
                block_size=max(BLOCK, 8 * top.longest),
                use_threads=False,
                skip_rows_after_names=skip,
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=separator or top.dialect.separator,
                newlines_in_values=True,
                ignore_empty_lines=top.width > 1,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=[str(i) for i in wanted],
                null_values=[],
                strings_can_be_null=False,
            ),
        )
        yield from _without_blank_end(reader) if top.width == 1 else reader
    except pa.ArrowInvalid as error:
        stream.raise_own()
        if str(error).startswith("Empty CSV file"):
            return
        raise
    else:
        stream.check_end()
    finally:
        stream.close()


def _without_blank_end(batches: Any) -> Iterator[Any]:
    """Yield the rows of a table of one column: a blank line is a missing value, not at its end."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        if not batch.num_columns or pc.any(pc.not_equal(batch.column(0), "")).as_py():
            yield from held[:-1]
            last = np.flatnonzero(pc.not_equal(batch.column(0), "").to_numpy(zero_copy_only=False))
            yield batch.slice(0, last[-1] + 1)
            held = [batch.slice(last[-1] + 1)]


class _Plain:
    """The bytes of a table in UTF-8, checked for what pyarrow would pass over."""

    closed = False

    def __init__(self, source: StoredBytes, done: Callable[[str], None] | None = None) -> None:
        self._source, self._file = source, source.open()
        self._digest = hashlib.sha256() if done and not source.compression else None
        self._done = done
        self._error: BaseException | None = None
        self._quotes = 0
        self._is_first = True

    def read(self, size: int | None = None) -> bytes:
        try:
            piece = self._next(size or -1)
            if b"\0" in piece:
                raise zero_bytes(self._source.path)
        except BaseException as error:
            self._error = error
            raise
        self._quotes += piece.count(b'"')
        return piece

    def _next(self, size: int) -> bytes:
        piece = self._file.read(size)
        if self._digest is not None:
            self._digest.update(piece)
        if self._is_first:
            self._is_first = False
            return piece.removeprefix(b"\xef\xbb\xbf") or self._next(size)
        return piece

    def raise_own(self) -> None:
        """Raise what stopped the reading, which pyarrow turns into an error of its own."""
        if self._error is not None:
            raise self._error

    def check_end(self) -> None:
        """Raise where a quote is not closed: the rest of the table would be one cell."""
        self.raise_own()
        if self._digest is not None and self._done is not None and not self._file.read(1):
            self._done(self._digest.hexdigest())
        if self._quotes % 2:
            raise pa.ArrowInvalid("a quote is not closed")

    def close(self) -> None:
        self._file.close()


class _Again(_Plain):
    """The rows of a table as Python's csv reader finds them, written as plain CSV."""

    def __init__(self, source: StoredBytes, top: Top) -> None:
        super().__init__(source)
        self._file.close()
        self._rows = rows_of(source, top)

    def _next(self, size: int) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for row in self._rows:
            writer.writerow(row)
            if text.tell() > BLOCK // 8:
                break
        # pyarrow takes what it asked for: the rest waits
        self._held = getattr(self, "_held", b"") + text.getvalue().encode()
        piece, self._held = self._held[:size], self._held[size:]
        return piece

    def check_end(self) -> None:
        self.raise_own()


def rows_of(source: StoredBytes, top: Top) -> Iterator[list[str]]:
    """Yield the cells of every row but the header; raise if a row has more or fewer cells."""
    is_below = False
    with _reader(source, top) as reader:
        try:
            for row in reader:
                if len(row) > 1 or (row and row[0].strip()):
                    if is_below and len(row) != top.width:
                        raise _bad_width(source, top)
                    if is_below or not top.dialect.has_header:
                        yield row
                    is_below = True
                elif is_below and top.width == 1:
                    yield [""]
        except csv.Error as error:
            raise _bad_quote(source, top, error) from error


def _check_lines(source: StoredBytes, top: Top, error: pa.ArrowInvalid) -> None:
    """Raise our error where a line is bad, in the words of Python's csv reader."""
    for _ in rows_of(source, top):
        pass


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


@contextmanager
def _reader(source: StoredBytes, top: Top) -> Iterator[Any]:
    """Give what yields the cells of every line, as `csv.reader` does."""
    separator = top.dialect.separator
    with source.open() as binary, io.TextIOWrapper(binary, top.encoding, newline="") as text:
        lines = checked_lines(text, source.path, top)
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


def _bad_quote(source: StoredBytes, top: Top, error: csv.Error) -> PredictionFileError:
    line = _first_bad_line(source, top, lambda cells: False)
    if "field larger" in str(error):
        return file_error(
            source.path,
            f"line {line} has a cell of more than {csv.field_size_limit():,} characters.",
        )
    return file_error(
        source.path,
        f"line {line} has an unclosed or misplaced quote. Correct it, and write quotes in a cell "
        'twice ("").',
    )


def _bad_width(source: StoredBytes, top: Top) -> PredictionFileError:
    found, last = [0], [""]

    def is_bad(cells: list[str]) -> bool:
        found[0], last[0] = len(cells), cells[0] if cells else ""
        return (len(cells) > 1 or bool(cells and cells[0].strip())) and found[0] != top.width

    line = _first_bad_line(source, top, is_bad, skip=int(top.dialect.row_names))
    if FOOTER.fullmatch(last[0].strip()):
        return is_footer(last[0], source.path)
    advice = "Give every line the same number of cells."
    if top.width == 1:
        advice = "Remove the lines above the names of the columns."
    return file_error(
        source.path,
        f"line {line} has {found[0]} {'cell' if found[0] == 1 else 'cells'}, the first line has "
        f"{top.width}. {advice}",
    )


def _first_bad_line(
    source: StoredBytes, top: Top, is_bad: Callable[[list[str]], bool], *, skip: int = 0
) -> int:
    """Return the number, from 1, of the first line that cannot be parsed or that `is_bad`."""
    with _reader(source, top) as reader:
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
