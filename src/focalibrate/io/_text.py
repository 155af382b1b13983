"""Text tables (`.csv`, `.tsv`, `.txt`, compressed or not): one example per line."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from focalibrate.io._bytes import StoredBytes
from focalibrate.io._dialect import is_value
from focalibrate.io._error import PredictionFileError, file_error, short
from focalibrate.io._frame import Column, ColumnKind, Frame, Load, Progress
from focalibrate.io._limit import check_fits
from focalibrate.io._text_cells import joined_cells, kind_of_cells, parse_cells
from focalibrate.io._text_rows import (
    SAMPLE,
    Opened,
    chunks_of,
    damage_named,
    look_at_top,
    name_of,
    raw_cells,
    rows_of,
)


def open_text(
    source: StoredBytes,
    *,
    suffix: str,
    header: bool | None,
    encoding: str | None,
    progress: Progress,
) -> Frame:
    """Read a text table once: numbers are kept, text is kept as codes of its distinct cells."""
    with damage_named(source):
        opened = look_at_top(source, suffix=suffix, told=header, encoding=encoding)
        sample = list(islice(rows_of(opened), SAMPLE))
        if not sample:
            raise file_error(
                source.path, "holds a header and no rows. Write at least one example."
            )
        kinds = [
            kind_of_cells([row[i] for row in sample], opened.dialect) for i in range(opened.width)
        ]
        columns: list[NDArray[Any]] | None = None
        while columns is None:  # repeat if a column of numbers has text further down
            columns = _read(opened, kinds, progress)
    return text_frame(
        opened,
        [column_of(opened, i, kind, columns[i].shape) for i, kind in enumerate(kinds)],
        load=lambda wanted, _: [columns[i] for i in wanted],
        cells=lambda wanted: raw_cells(opened, wanted),
    )


def column_of(opened: Opened, position: int, kind: ColumnKind, shape: tuple[int, ...]) -> Column:
    """Return the description of a column of a text table."""
    is_unnamed = opened.names is not None and not opened.names[position]
    return Column(name=name_of(opened, position), kind=kind, shape=shape, unnamed=is_unnamed)


def text_frame(
    opened: Opened,
    columns: Iterable[Column],
    *,
    load: Load,
    cells: Callable[[Sequence[int]], list[list[str]]],
) -> Frame:
    """Return the frame of a text table or of some of its rows.

    Args:
        opened: the table.
        columns: its columns.
        load: reads columns by position.
        cells: returns the cells of some columns as the file has them.
    """
    dialect = opened.dialect
    return Frame(
        path=opened.source.path,
        columns=tuple(columns),
        load=load,
        has_names=opened.names is not None,
        extra={
            "cells": cells,
            "separator": dialect.separator or " ",
            "decimal_comma": dialect.decimal_comma,
        },
        notes=("numbers are written with a decimal comma",) if dialect.decimal_comma else (),
    )


def bad_cell(frame: Frame, position: int, *, is_only: bool = False) -> PredictionFileError:
    """Return the error for a column of scores that holds text: its first such cell.

    Where it `is_only`, the only scores of the file, it cannot be left out.
    """
    cells = frame.extra["cells"]([position])[0]
    comma = frame.extra["decimal_comma"]
    bad = (i for i, cell in enumerate(cells) if not is_value(cell, decimal_comma=comma))
    row = next(bad, 0)
    name = frame.names[position]
    if "..." in cells[row]:
        return file_error(
            frame.path,
            f"column `{short(name)}` holds lists that were cut short when they were printed: row "
            f"{row} (0-based) has '...' instead of numbers. Save one column per class: "
            f"`pd.DataFrame(np.stack(df[{name!r}]))`.",
        )
    if cells[row].lstrip().startswith("{"):
        return file_error(
            frame.path,
            f"column `{short(name)}` holds dictionaries. Save one column per class: "
            f"`df.join(pd.DataFrame(df[{name!r}].map(ast.literal_eval).tolist(), df.index))`.",
        )
    found = (
        f"column `{short(name)}` must hold numbers, but row {row} (0-based) has "
        f"{short(repr(cells[row]))}."
    )
    if is_only:
        return file_error(frame.path, f"{found} Correct it.")
    return file_error(
        frame.path,
        f"{found} Correct it, or leave the column out.",
        fixes=[{"ignore": [name]}],
    )


def _read(
    opened: Opened, kinds: list[ColumnKind], progress: Progress
) -> list[NDArray[Any]] | None:
    """Return every column, or None if one of `kinds` was wrong and has been corrected."""
    parts: list[list[Any]] = [[] for _ in kinds]
    codes: list[dict[str, int]] = [{} for _ in kinds]
    taken = 0
    for rows in chunks_of(opened):
        for i, kind in enumerate(kinds):
            cells = [row[i] for row in rows]
            part = parse_cells(cells, kind, codes[i], opened.dialect)
            if part is None:
                kinds[i] = "text"
                return None
            parts[i].append(part)
            taken += part.nbytes
        check_fits(opened.source.path, taken, opened.source.limit)
        progress(min(taken, opened.source.size), opened.source.size)
    return [
        joined_cells(p, kind, c, opened.source.path)
        for p, kind, c in zip(parts, kinds, codes, strict=True)
    ]
