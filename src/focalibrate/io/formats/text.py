"""Text tables (`.csv`, `.tsv`, `.txt`, compressed or not), parsed by pyarrow: every cell is text.

What decides the dialect is `formats.dialect`; what a table that pyarrow refuses is refused for is
found by Python's own csv reader, which names the line.
"""

import csv
import hashlib
import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from focalibrate.io.bytes import unpacked
from focalibrate.io.errors import Doubt, PredictionFileError
from focalibrate.io.formats.dialect import (
    FOOTER,
    Top,
    bad_cell,
    is_footer,
    look_at_top,
    split_spaces,
    table_lines,
    zero_bytes,
)
from focalibrate.io.options import Request
from focalibrate.io.source import Part
from focalibrate.io.table import Column, Opened, Schema, Table

BLOCK = 1 << 22
"""Bytes parsed at a time; a line must fit into them."""

SPLIT_CELLS = 1 << 17
"""Cells that are held at a time where Python splits the lines."""


def open_text(part: Part, first: IO[bytes], request: Request) -> Opened:
    """Return the rows of a text table; `first` is its file, opened, in which the top is read."""
    path = part.path
    with _decoded(part):
        binary = unpacked(first, path, part.compression)
        top = look_at_top(binary, part, told=request.header, encoding=request.encoding)
    names = top.names or ("",) * top.width
    columns = tuple(
        Column(
            name=str(i) if top.names is None else name or f"Unnamed: {i}",
            kind="other",  # until the first rows are read
            unnamed=top.names is not None and not name,
        )
        for i, name in enumerate(names)
    )
    schema = Schema(
        path=path,
        columns=columns,
        has_names=top.names is not None,
        separator=top.separator or " ",
        decimal_comma=top.decimal_comma,
        notes=_notes(top),
    )

    digests: list[str] = []

    def read(wanted: Sequence[int] | None, rows: int, _: int | None) -> Iterator[Table]:
        start = 0
        with _decoded(part):
            needed = list(range(top.width) if wanted is None else wanted)
            for batch in _batches(part, top, needed, digests.append):
                data = {int(n): batch.column(n) for n in batch.schema.names}
                table = Table(schema, data, len(batch), start)
                yield from (table.slice(at, rows) for at in range(0, len(batch), rows))
                start += len(batch)

    return Opened(
        schema=schema,
        read=read,
        n_rows=0 if top.is_empty else None,
        digest=lambda: digests[-1] if digests else None,
    )


def _notes(top: Top) -> tuple[str, ...]:
    if top.decimal_comma:
        return ("numbers are written with a decimal comma",)
    doubt = Doubt(
        f"WARNING: {top.thousands} is read as a fraction, as are all such numbers: if it is "
        f"to mean {top.thousands.replace('.', '')}, write it so"
    )
    return (doubt,) if top.thousands else ()


def _batches(
    part: Part, top: Top, wanted: list[int], done_reading: Callable[[str], None]
) -> Iterator[Any]:
    """Yield the rows as Arrow batches, each column named by its position."""
    done = 0
    if top.is_plain:
        try:
            with _Checked(part) as stream:
                found = _parsed(stream, top, wanted)
                for batch in _without_blank_end(found) if top.width == 1 else found:
                    yield batch
                    done += len(batch)
                stream.check_end(done_reading)
            return
        except pa.ArrowInvalid as error:
            if str(error).startswith("Empty CSV file"):
                return
            deque(rows_of(part, top), maxlen=0)  # raises our error where a line is bad
    # pyarrow cannot read it as it is, but every line is good: Python can.
    found = _split(part, top, wanted)
    for batch in _without_blank_end(found) if top.width == 1 else found:
        if len(batch) > done:
            yield batch.slice(done)
        done = max(0, done - len(batch))


def _split(part: Part, top: Top, wanted: list[int]) -> Iterator[Any]:
    rows, wanted = rows_of(part, top), wanted or list(range(top.width))
    while some := list(islice(rows, max(1, SPLIT_CELLS // top.width))):
        columns = list(zip(*some, strict=True))
        cells = [pa.array(columns[i], pa.string()) for i in wanted]
        yield pa.record_batch(cells, names=[str(i) for i in wanted])


def _parsed(stream: "_Checked", top: Top, wanted: list[int]) -> Iterator[Any]:
    names = [str(i) for i in range(top.width)]
    yield from pa_csv.open_csv(
        pa.PythonFile(stream, mode="r"),
        read_options=pa_csv.ReadOptions(
            column_names=names,
            block_size=max(BLOCK, 8 * top.longest),
            use_threads=False,
            skip_rows_after_names=top.header_lines,
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=top.separator, newlines_in_values=True, ignore_empty_lines=top.width > 1
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=[str(i) for i in wanted],
            null_values=[],
            strings_can_be_null=False,
        ),
    )


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


class _Checked(io.RawIOBase):
    """The bytes of a table, checked for what pyarrow would pass over."""

    def __init__(self, part: Part) -> None:
        self._part, self._file = part, part.unpacked()
        self._digest = None if part.compression else hashlib.sha256()
        self._quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        if self._digest is not None:
            self._digest.update(piece)
        if b"\0" in piece:
            raise zero_bytes(self._part)
        self._quotes += piece.count(b'"')
        return piece

    def check_end(self, done: Callable[[str], None]) -> None:
        """Raise where a quote is not closed: the rest of the table would be one cell."""
        if self._digest is not None and not self._file.read(1):
            done(self._digest.hexdigest())
        if self._quotes % 2:
            raise pa.ArrowInvalid("a quote is not closed")

    def close(self) -> None:
        self._file.close()
        super().close()


def rows_of(part: Part, top: Top) -> Iterator[list[str]]:
    """Yield the cells of every row but the header; raise if a row has more or fewer cells."""
    n_rows, line, done = 0, 1, 0

    def counted(text: Iterable[str]) -> Iterator[str]:
        nonlocal done
        for line in table_lines(text, top.comment, top.comment_header, top.separator, top.width):
            if "\0" in line:
                raise zero_bytes(part)
            done += 1
            yield line

    with part.unpacked() as binary, io.TextIOWrapper(binary, top.encoding, newline="") as text:
        rows: Iterator[list[str]] = map(split_spaces, counted(text))
        if top.separator is not None:
            rows = csv.reader(counted(text), delimiter=top.separator, strict=True)
        try:
            for row in rows:
                if len(row) > 1 or (row and row[0].strip()):
                    if n_rows and len(row) != top.width:
                        raise _bad_width(part, top, row, line)
                    if n_rows or top.names is None:
                        yield row
                    n_rows += 1
                elif n_rows and top.width == 1:
                    yield [""]
                line = done + 1
        except csv.Error as error:
            is_long = "field larger" in str(error)
            raise bad_cell(part, line, is_long=is_long) from error


def _bad_width(part: Part, top: Top, row: Sequence[str], line: int) -> PredictionFileError:
    if FOOTER.fullmatch(row[0].strip()):
        return is_footer(row[0], part)
    advice = "Give every line the same number of cells."
    if top.width == 1:
        advice = "Remove the lines above the names of the columns."
    cells = "cell" if len(row) == 1 else "cells"
    return part.error(
        f"line {line} has {len(row)} {cells}, the first line has {top.width}. {advice}"
    )


@contextmanager
def _decoded(part: Part) -> Iterator[None]:
    """Turn the errors of damaged bytes into a `PredictionFileError`."""
    try:
        with part.damage_named():
            yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start] if isinstance(error.object, bytes) else 0
        raise part.error(
            f"must be UTF-8 text, but holds the byte 0x{byte:02x}. Save it as CSV UTF-8, or say "
            "which encoding it has.",
            fixes=[{"encoding": "cp1252"}],
        ) from error
