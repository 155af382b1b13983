"""The cells of a column of a text table, as numbers, booleans, lists or text."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._dialect import MISSING, Dialect, is_number, is_value
from focalibrate.io._error import file_error
from focalibrate.io._frame import ColumnKind

BOOLEANS = {"true": True, "false": False}

_SCALAR = re.compile(r"(?:np\.|numpy\.)?(?:float|int|bfloat)\d+\(([^()]*)\)")
_ARRAY = re.compile(
    r"(?:tensor|array|Array|DenseVector)\((.*?)(?:,\s*(?:dtype|device|grad_fn)=.*)?\)", re.DOTALL
)


def unwrapped(cell: str) -> str:
    """Return a number or list without the names of types around it.

    Example:
        >>> unwrapped("[np.float64(0.25), np.float64(0.75)]")
        '[0.25, 0.75]'
        >>> unwrapped("tensor(0.5, device='cpu')")
        '0.5'
    """
    text = cell.strip()
    if "(" not in text:
        return text
    if text.startswith("(") and text.endswith(")"):
        text = f"[{text[1:-1].rstrip(',')}]"
    found = _ARRAY.fullmatch(text)
    return _SCALAR.sub(r"\1", text if found is None else found[1])


def kind_of_cells(cells: Sequence[str], dialect: Dialect) -> ColumnKind:
    """Return the kind of a column, judged by the first rows."""
    known = [unwrapped(cell) for cell in cells if cell.strip()]
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


def parse_cells(
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
        text = unwrapped(cell)
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
    """Return lists written as text: ``[0.1, 0.9]``, NumPy's ``[0.1 0.9]``, or a tensor."""
    rows: list[list[float]] = []
    for cell in cells:
        text = unwrapped(cell)
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


def joined_cells(
    parts: list[Any], kind: ColumnKind, codes: dict[str, int], path: Path
) -> NDArray[Any]:
    if kind in ("number", "bool", "matrix"):
        if kind == "matrix" and len({part.shape[1] for part in parts}) > 1:
            raise file_error(path, "every row must have the same number of scores in its list.")
        return np.concatenate(parts)
    distinct = np.array(list(codes), dtype=object)
    return np.asarray(distinct[np.concatenate(parts)])
