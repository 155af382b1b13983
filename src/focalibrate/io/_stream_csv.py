"""Plain text tables parsed by pyarrow, block by block, wherever that gives the same cells.

What is plain: UTF-8, one separator, no quotes, numbers that pyarrow reads and that are not nan. Of
such cells its numbers are those of Python's `float`, to the last bit. From the first block that is
not plain, our own reader goes on, with its rules and its messages.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._arrow import import_arrow
from focalibrate.io._dialect import Dialect
from focalibrate.io._frame import ColumnKind
from focalibrate.io._text_rows import Opened

BLOCK = 1 << 22
"""Bytes parsed at a time."""
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class PlainBlock:
    """Some rows: the columns wanted, and the bytes they came from."""

    arrays: dict[int, NDArray[Any]]
    n_rows: int
    content: bytes
    dialect: Dialect

    def cells(self, positions: Sequence[int]) -> list[list[str]]:
        """Return the cells of some columns as the file has them."""
        lines = io.StringIO(self.content.decode("utf-8"), newline="")
        reader = csv.reader(lines, delimiter=self.dialect.separator or ",", strict=True)
        rows = [row for row in reader if len(row) > 1 or (row and row[0].strip())]
        return [[row[i] for row in rows] for i in positions]


def can_be_plain(opened: Opened, kinds: Sequence[ColumnKind]) -> bool:
    """Return whether pyarrow is installed and reads columns of these kinds as our reader does."""
    dialect = opened.dialect
    return (
        find_spec("pyarrow") is not None
        and opened.encoding in ("utf-8", "utf-8-sig")
        and dialect.separator is not None
        and len(dialect.separator) == 1
        and not dialect.decimal_comma
        and not dialect.comment
        and set(kinds) <= {"number", "text"}
    )


def plain_blocks(
    opened: Opened, wanted: Sequence[int], kinds: Sequence[ColumnKind]
) -> Iterator[PlainBlock | None]:
    """Yield blocks of rows from the first on, and None where one is not plain, as the last.

    Args:
        opened: the table.
        wanted: positions of columns.
        kinds: what each of these holds.
    """
    with opened.source.open() as file:
        rest = file.read(len(BOM))
        rest = b"" if rest == BOM else rest
        if opened.dialect.has_header:
            header, rest = _first_line(file, rest)
            if b'"' in header or b"\0" in header or b"\r" in header.rstrip(b"\r\n"):
                yield None
                return
        while True:
            piece = file.read(BLOCK)
            rest += piece
            end = len(rest) if not piece else rest.rfind(b"\n") + 1
            content, rest = rest[:end], rest[end:]
            if content:
                found = _parsed(content, opened, wanted, kinds)
                if found is None or found.n_rows:
                    yield found
                if found is None:
                    return
            if not piece:
                return
            if len(rest) > 64 * BLOCK:  # no line breaks: nothing for us
                yield None
                return


def _first_line(file: IO[bytes], start: bytes) -> tuple[bytes, bytes]:
    """Return the first line that is not blank, and what was read beyond it."""
    found = start
    while True:
        stripped = found.lstrip(b" \t\r\n\f\v")
        end = stripped.find(b"\n")
        if end >= 0:
            return stripped[: end + 1], stripped[end + 1 :]
        piece = file.read(BLOCK)
        if not piece:
            return stripped, b""
        found = stripped + piece


def _parsed(
    content: bytes, opened: Opened, wanted: Sequence[int], kinds: Sequence[ColumnKind]
) -> PlainBlock | None:
    """Return the rows of some lines, or None where they are not plain."""
    if b'"' in content or b"\0" in content or content.count(b"\r") != content.count(b"\r\n"):
        return None
    if not content.strip():
        return PlainBlock({}, 0, content, opened.dialect)
    path = opened.source.path
    pa, arrow_csv = import_arrow("pyarrow", path=path), import_arrow("pyarrow.csv", path=path)
    names = [str(i) for i in range(opened.width)]
    types = {str(i): pa.float64() if k == "number" else pa.string() for i, k in _by(wanted, kinds)}
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=arrow_csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(1 << 16, 2 * len(content))
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=opened.dialect.separator, quote_char=False
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=[str(i) for i in wanted],
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException:
        return None
    arrays: dict[int, NDArray[Any]] = {}
    for at, (i, kind) in enumerate(_by(wanted, kinds)):
        column = table.column(at).combine_chunks()
        found = column.to_numpy(zero_copy_only=False) if kind == "number" else _text(column)
        if found is None or column.null_count or (kind == "number" and np.isnan(found).any()):
            return None
        arrays[i] = found
    return PlainBlock(arrays, table.num_rows, content, opened.dialect)


def _by(wanted: Sequence[int], kinds: Sequence[ColumnKind]) -> list[tuple[int, ColumnKind]]:
    return list(zip(wanted, kinds, strict=True))


def _text(column: Any) -> NDArray[Any] | None:
    """Return the cells without white space around them; None where one is too long for us."""
    found = column.dictionary_encode()
    words = found.dictionary.to_pylist()
    if any(len(word) > csv.field_size_limit() for word in words):
        return None
    distinct = np.array([word.strip() for word in words], dtype=object)
    return np.asarray(distinct[found.indices.to_numpy(zero_copy_only=False)])
