"""Text tables, read some rows at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn

from numpy.typing import NDArray

from focalibrate.io._bytes import COMPRESSED, source_at
from focalibrate.io._dialect import is_value
from focalibrate.io._error import PredictionFileError, file_error, short
from focalibrate.io._formats import Opening
from focalibrate.io._frame import ColumnKind, Frame
from focalibrate.io._place import Place
from focalibrate.io._stream import HEAD_CELLS, HEAD_ROWS, Kinds, Stream
from focalibrate.io._stream_csv import PlainBlock, can_be_plain, plain_blocks
from focalibrate.io._text import column_of, text_frame
from focalibrate.io._text_cells import joined_cells, kind_of_cells, parse_cells
from focalibrate.io._text_rows import (
    SAMPLE,
    Opened,
    chunks_of,
    damage_named,
    look_at_top,
    name_of,
    rows_of,
)


def stream_text(place: Place, opening: Opening, kinds: Kinds | None) -> Stream:
    """Return the rows of a text table; the first rows decide what its columns hold."""
    source = source_at(place.path, place.size, place.open)
    suffixes = [s.lower() for s in place.path.suffixes if s.lower() not in COMPRESSED]
    with damage_named(source):
        opened = look_at_top(
            source,
            suffix=suffixes[-1] if suffixes else "",
            told=opening.header,
            encoding=opening.encoding,
        )
        is_empty = False
        if kinds is None:
            rows = max(SAMPLE, min(HEAD_ROWS, HEAD_CELLS // max(1, opened.width)))
            head = list(islice(rows_of(opened), rows))
            is_empty = not head
            found = [_settled(opened, [row[i] for row in head]) for i in range(opened.width)]
        else:
            found = [kinds.get(name_of(opened, i), "text") for i in range(opened.width)]
    columns = [column_of(opened, i, kind, (0,)) for i, kind in enumerate(found)]
    base = text_frame(opened, columns, load=_not_loaded, cells=_not_loaded)

    def read(wanted: Sequence[int] | None, n_rows: int) -> Iterator[Frame]:
        needed = range(opened.width) if wanted is None else wanted
        done = start = 0
        with damage_named(source):
            kinds = [columns[i].kind for i in needed]
            is_plain = wanted is not None and can_be_plain(opened, kinds)
            for block in plain_blocks(opened, list(needed), kinds) if is_plain else ():
                if block is None:
                    is_plain = False
                    break
                for at in range(0, block.n_rows, n_rows):
                    part = slice(at, min(at + n_rows, block.n_rows))
                    yield _plain_frame(base, opened, block, part)
                    done += part.stop - part.start
            for rows in () if is_plain else chunks_of(opened, n_rows=n_rows):
                start += len(rows)
                if start > done:  # the others were parsed by pyarrow
                    some = rows[-(start - done) :]
                    yield _block(base, opened, some, needed, start - len(some))
                    done = start

    return Stream(place=place, frame=base, n_rows=0 if is_empty else None, read=read)


def _settled(opened: Opened, cells: list[str]) -> ColumnKind:
    """Return what the cells of the first rows are, corrected as when a file is read whole."""
    kind = kind_of_cells(cells[:SAMPLE], opened.dialect)
    return "text" if parse_cells(cells, kind, {}, opened.dialect) is None else kind


def _not_loaded(wanted: Sequence[int], _: object = None) -> NoReturn:
    raise RuntimeError(f"columns {wanted} of a text table are read in batches only")


def _block(
    base: Frame, opened: Opened, rows: list[list[str]], wanted: Sequence[int], start: int
) -> Frame:
    arrays: dict[int, NDArray[Any]] = {}
    for i in wanted:
        kind = base.columns[i].kind
        codes: dict[str, int] = {}
        cells = [row[i] for row in rows]
        part = parse_cells(cells, kind, codes, opened.dialect)
        if part is None:
            raise _changed(base, i, cells, start, opened)
        arrays[i] = joined_cells([part], kind, codes, base.path)
    shapes = [arrays[i].shape if i in arrays else (len(rows),) for i in range(opened.width)]
    return text_frame(
        opened,
        [replace(c, shape=shape) for c, shape in zip(base.columns, shapes, strict=True)],
        load=lambda positions, _: [arrays[i] for i in positions],
        cells=lambda positions: [[row[i] for row in rows] for i in positions],
    )


def _plain_frame(base: Frame, opened: Opened, block: PlainBlock, part: slice) -> Frame:
    n_rows = part.stop - part.start
    return text_frame(
        opened,
        [replace(c, shape=(n_rows,)) for c in base.columns],
        load=lambda positions, _: [block.arrays[i][part] for i in positions],
        cells=lambda positions: [cells[part] for cells in block.cells(positions)],
    )


def _changed(
    base: Frame, position: int, cells: list[str], start: int, opened: Opened
) -> PredictionFileError:
    """Return the error for a column that holds other values than in the first rows."""
    column = base.columns[position]
    comma = opened.dialect.decimal_comma
    what = {"number": "numbers", "bool": "true and false", "matrix": "lists"}.get(
        column.kind, "nothing"
    )
    bad = range(len(cells))
    if column.kind == "number":
        bad = [i for i, cell in enumerate(cells) if not is_value(cell, decimal_comma=comma)]  # type: ignore[assignment]
    row = bad[0] if len(bad) else 0
    return file_error(
        base.path,
        f"column `{short(column.name)}` holds {what} in the first rows, but row {start + row} "
        f"(0-based) has {short(repr(cells[row]))}. Correct it, or leave the column out.",
        fixes=[{"ignore": [column.name]}],
    )
