"""Formats that need a package of their own: `.xlsx` (openpyxl) and `.pt` (torch)."""

import io
import pickletools
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.bytes import optional, refused
from focalibrate.io.errors import file_error, listing, short
from focalibrate.io.formats.arrays import as_text, described
from focalibrate.io.formats.records import table_of_columns
from focalibrate.io.options import check_fits
from focalibrate.io.source import Part
from focalibrate.io.table import Column, Opened, Schema, in_memory

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
            chosen, notes = _chosen(book, sheet, part)
            rows = _rows(book[chosen], path, limit)
        finally:
            book.close()
    if len(rows) < 2:
        raise part.error("holds a header and no rows. Write at least one example.")
    width = max(len(row) for row in rows)
    if sum(cell is not None for cell in rows[0]) == 1 < width:
        raise part.error(
            f"its first row holds one cell, {short(next(c for c in rows[0] if c is not None))!r}, "
            "and others hold more. Remove the rows above the names of the columns."
        )
    names = [
        str(cell) if cell is not None else f"Unnamed: {i}"
        for i, cell in enumerate([*rows[0], *[None] * (width - len(rows[0]))])
    ]
    if len(set(names)) < len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        raise part.error(
            f"names must differ between columns, but {listing(twice)} occurs more than once."
        )
    columns = {
        name: [_plain(row[i]) if i < len(row) else None for row in rows[1:]]
        for i, name in enumerate(names)
    }
    return table_of_columns(path, columns, notes=notes)


def _chosen(book: Any, told: str | None, part: Part) -> tuple[str, tuple[str, ...]]:
    """Return the name of the sheet to read, and a note if there are others."""
    sheets = [sheet.title for sheet in book.worksheets]
    if told is not None and told not in sheets:
        raise part.error(f"`sheet` must be one of its sheets, {listing(sheets)}; got {told!r}.")
    if not sheets:
        raise part.error("holds no sheet of cells. Save the table in one.")
    if told is not None or len(sheets) == 1:
        return sheets[0] if told is None else told, ()
    cells = {s: chain.from_iterable(book[s].iter_rows(values_only=True)) for s in sheets}
    filled = [s for s in sheets if any(cell is not None for cell in cells[s])]
    if len(filled) > 1:
        raise part.error(
            f"holds {len(filled)} sheets that are not empty: {listing(filled)}. Say which.",
            fixes=[{"sheet": name} for name in filled[:3]],
        )
    chosen = (filled or sheets)[0]
    return chosen, (f'only the sheet "{short(chosen)}" is read, the others are empty',)


def _rows(sheet: Any, path: Path, limit: int) -> list[tuple[Any, ...]]:
    rows, taken = [], 0
    for row in sheet.iter_rows(values_only=True):
        taken += CELL_BYTES * max(1, len(row))
        check_fits(path, taken, limit)
        if any(cell is not None for cell in row):
            rows.append(row)
    return rows


def _plain(cell: Any) -> Any:
    return cell if cell is None or type(cell) in (int, float, bool, str) else str(cell)


NOT_TENSORS = (
    "holds more than tensors, or is damaged; a pickle of other objects can run any code, so it is "
    "not opened ({}). Save tensors: `torch.save({'logits': logits, 'labels': labels}, 'val.pt')`."
)
MAX_NAME = 100
"""Longest name of a class of torch."""


def open_torch(part: Part, *, limit: int) -> Opened:
    """Return the tensors of a tensor, a dictionary or a list of tensors; needs torch."""
    path = part.path
    torch = optional("torch", path, "reading .pt")
    check_fits(path, part.n_bytes, limit)
    with part.open() as raw:
        content = io.BytesIO(raw.read())
    with refused(path, NOT_TENSORS):  # torch does not document what a damaged file raises
        _check_pickle(path, content, limit=limit)
        content.seek(0)
        stored = torch.load(content, map_location="cpu", weights_only=True)
    columns, data, class_names = list[Column](), dict[int, NDArray[Any]](), None
    for name, value in _named(stored, path, torch).items():
        array = _array(value, torch)
        if array is None:
            continue
        if name in ("class_names", "classes") and array.dtype == object:
            class_names = tuple(array.tolist())
            continue
        array = as_text(array, path=path, name=name)
        if array.ndim:
            data[len(columns)] = array
        is_half = "float16" in str(getattr(value, "dtype", ""))
        columns.append(replace(described(name, array.shape, array.dtype), is_half=is_half))
    if not columns:
        raise part.error("holds no tensors. Save a dictionary of tensors.")
    schema = Schema(path=path, columns=tuple(columns), is_table=False, class_names=class_names)
    return in_memory(schema, data, max(map(len, data.values()), default=0))


def _check_pickle(path: Path, content: IO[bytes], *, limit: int) -> None:
    """Raise if the pickle of a file names anything but torch's own classes.

    torch refuses such files too, but takes minutes if a name is long.
    Nothing is executed: the operations of the pickle are only listed.
    """
    with zipfile.ZipFile(content) as archive:
        inside = [i for i in archive.infolist() if i.filename.rpartition("/")[2] == "data.pkl"]
        if len(inside) != 1:
            raise ValueError("it has no data.pkl")
        check_fits(path, inside[0].file_size * 10, limit)
        raw = archive.read(inside[0])
    for operation, argument, _ in pickletools.genops(raw):
        if operation.name in ("GLOBAL", "INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
            name = str(argument)
            is_plain = name.startswith(("torch ", "torch.", "collections OrderedDict"))
            if not is_plain or len(name) > MAX_NAME:
                raise ValueError(f"it names {name}")


def _named(stored: Any, path: Path, torch: Any) -> dict[str, Any]:
    """Return what was saved by its names: of two tensors, scores and labels if they can be."""
    if isinstance(stored, torch.Tensor):
        return {path.stem: stored}
    if isinstance(stored, Mapping):
        return {key: value for key, value in stored.items() if isinstance(key, str)}
    if not isinstance(stored, (list, tuple)):
        raise file_error(
            path, f"must hold tensors, got {type(stored).__name__}. Save a dictionary of tensors."
        )
    if len(stored) == 2 and all(isinstance(item, torch.Tensor) for item in stored):
        found = {("labels", "scores")[item.is_floating_point()]: item for item in stored}
        if len(found) == 2 and found["labels"].ndim == 1 and found["scores"].ndim <= 2:
            return found
    return {f"tensor_{i}": item for i, item in enumerate(stored)}


def _array(value: Any, torch: Any) -> NDArray[Any] | None:
    """Return a tensor, batches of one, or a list of numbers or of text; None for other things."""
    if isinstance(value, (list, tuple)) and value:
        if all(isinstance(item, str) for item in value):
            return np.array(value, dtype=object)
        if all(isinstance(item, (int, float)) for item in value):
            return np.array(value)
        if all(isinstance(item, torch.Tensor) for item in value):
            with suppress(RuntimeError):  # batches of other widths
                value = torch.cat([torch.atleast_1d(item) for item in value])
    if not isinstance(value, torch.Tensor):
        return None
    if value.layout != torch.strided or value.is_quantized or value.is_complex():
        return None
    if "float16" in str(value.dtype) or "float8" in str(value.dtype):
        value = value.float()
    return np.asarray(value.detach().numpy())
