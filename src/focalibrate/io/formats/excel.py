"""The `.xlsx` format: one sheet, its first row the header. The one use of openpyxl."""

from itertools import chain
from pathlib import Path
from typing import Any

from focalibrate.io.bytes import optional, refused
from focalibrate.io.errors import file_error, listing, short
from focalibrate.io.formats.opened import Opened
from focalibrate.io.formats.records import table_of_columns
from focalibrate.io.options import check_fits
from focalibrate.io.source import Part

CELL_BYTES = 100
"""Memory that one cell takes while it is read."""


def open_excel(part: Part, *, limit: int, sheet: str | None = None) -> Opened:
    """Return the columns of a sheet, by default of the only one that is not empty."""
    path = part.path
    openpyxl = optional("openpyxl", path, "reading .xlsx", ", or save the sheet as CSV")
    check_fits(path, part.n_bytes, limit)
    damage = "is not a readable .xlsx file ({}). Save it again, or as CSV."
    with refused(path, damage), part.open() as raw:
        book = openpyxl.load_workbook(raw, read_only=True, data_only=True)
        try:
            chosen, notes = _chosen(book, sheet, path)
            rows = _rows(book[chosen], path, limit)
        finally:
            book.close()
    if len(rows) < 2:
        raise file_error(path, "holds a header and no rows. Write at least one example.")
    width = max(len(row) for row in rows)
    if sum(cell is not None for cell in rows[0]) == 1 < width:
        raise file_error(
            path,
            f"its first row holds one cell, {short(next(c for c in rows[0] if c is not None))!r}, "
            "and others hold more. Remove the rows above the names of the columns.",
        )
    names = [
        str(cell) if cell is not None else f"Unnamed: {i}"
        for i, cell in enumerate([*rows[0], *[None] * (width - len(rows[0]))])
    ]
    if len(set(names)) < len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        raise file_error(
            path,
            f"names must differ between columns, but {listing(twice)} occurs more than once.",
        )
    columns = {
        name: [_plain(row[i]) if i < len(row) else None for row in rows[1:]]
        for i, name in enumerate(names)
    }
    return table_of_columns(path, columns, notes=notes)


def _chosen(book: Any, told: str | None, path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the name of the sheet to read, and a note if there are others."""
    sheets = [sheet.title for sheet in book.worksheets]
    if told is not None:
        if told not in sheets:
            raise file_error(
                path, f"`sheet` must be one of its sheets, {listing(sheets)}; got {told!r}."
            )
        return told, ()
    if not sheets:
        raise file_error(path, "holds no sheet of cells. Save the table in one.")
    filled = sheets
    if len(sheets) > 1:
        cells = {s: chain.from_iterable(book[s].iter_rows(values_only=True)) for s in sheets}
        filled = [s for s in sheets if any(cell is not None for cell in cells[s])]
    if len(filled) > 1:
        raise file_error(
            path,
            f"holds {len(filled)} sheets that are not empty: {listing(filled)}. Say which.",
            fixes=[{"sheet": name} for name in filled[:3]],
        )
    chosen = (filled or sheets)[0]
    note = f'only the sheet "{short(chosen)}" is read, the others are empty'
    return chosen, (note,) if len(sheets) > 1 else ()


def _rows(sheet: Any, path: Path, limit: int) -> list[tuple[Any, ...]]:
    rows = []
    taken = 0
    for row in sheet.iter_rows(values_only=True):
        taken += CELL_BYTES * max(1, len(row))
        check_fits(path, taken, limit)
        if any(cell is not None for cell in row):
            rows.append(row)
    return rows


def _plain(cell: Any) -> Any:
    return cell if cell is None or type(cell) in (int, float, bool, str) else str(cell)
