"""The `.csv` format: one example a line, one column a class, read in blocks."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._columns import (
    LABEL_NAMES,
    Columns,
    choose_columns,
    choose_positions,
    label_position,
)
from focalibrate.io._error import SHOWN, PredictionFileError, fault, listing, rows_text
from focalibrate.io._labels import is_number
from focalibrate.io._table import Progress, Request, Table
from focalibrate.io.predictions import Layout

CHUNK = 1 << 24
"""Bytes of text parsed at a time."""


@dataclass(frozen=True)
class Lines:
    """A run of whole lines and the number of its first one, counted from 1."""

    text: list[str]
    first: int
    end: int
    """Bytes of the file read so far."""
    quoted: bool
    """Some cell is in quotes, so that commas do not tell the cells apart."""


def read_csv(request: Request, progress: Progress) -> Table:
    """Read comma-separated UTF-8 text; scores become float64.

    A header row is there if and only if the cells of the first row are not all numbers.
    """
    path = request.path
    size = path.stat().st_size
    header, columns, width = _read_top(request)
    scores: list[NDArray[np.float64]] = []
    labels: list[NDArray[np.str_]] = []
    in_header = header is not None
    for lines in _blocks_of_lines(path):
        if in_header:
            in_header = not _blank_first(lines)
        kept = [line for line in lines.text if line and not line.isspace()]
        if kept:
            block, block_labels = _parse(kept, columns, width, lines, request)
            scores.append(block)
            labels.append(block_labels)
        progress(lines.end, size)
    if not scores:
        raise fault(path, "holds a header and no rows. Write at least one example.")
    return Table(
        scores=np.concatenate(scores),
        kind=columns.kind,
        scores_name=columns.kind,
        labels=None if columns.label is None else _label_array(labels, columns, request),
        class_names=columns.class_names,
        names_are_labels=True,
        layout=Layout(
            label_column="label"
            if header is None or columns.label is None
            else header[columns.label]
        ),
    )


def _blank_first(lines: Lines) -> bool:
    """Blank the header, so that later lines keep their numbers; say whether it was there."""
    for at, line in enumerate(lines.text):
        if line.strip():
            lines.text[at] = ""
            return True
    return False


def _label_array(
    blocks: list[NDArray[np.str_]], columns: Columns, request: Request
) -> NDArray[Any]:
    """Return labels as float64 where every cell is a number and no class is, else as text."""
    cells = np.concatenate(blocks)
    missing = np.flatnonzero(cells == "")
    if len(missing):
        rows = rows_text(missing[:SHOWN].tolist(), len(missing))
        raise fault(
            request.path,
            f"labels must not be missing, but they are in {rows}, counted from 0. Drop them.",
        )
    if any(is_number(name) for name in columns.class_names or ()):
        return cells
    distinct, where = np.unique(cells, return_inverse=True)
    if all(is_number(cell) for cell in distinct.tolist()):
        return distinct.astype(np.float64)[where]
    return cells


def _read_top(request: Request) -> tuple[list[str] | None, Columns, int]:
    """Return the header or None, the columns to read, and the number of cells a row."""
    path = request.path
    first = next(
        (line for lines in _blocks_of_lines(path) for line in lines.text if line.strip()), None
    )
    if first is None:
        raise fault(path, "is empty. Write a header and at least one example.")
    cells = [cell.strip() for cell in next(csv.reader([first]))]
    if len(cells) == 1:
        used = next((mark for mark in (";", "\t", "|", " ") if mark in first), None)
        found = f"this file seems to use {used!r}" if used else "the first line has one cell"
        raise fault(
            path, f"columns must be separated by commas, but {found}. Write it with commas."
        )
    numbers = [is_number(cell) for cell in cells]
    if all(numbers):
        return None, choose_positions(len(cells), request), len(cells)
    if any(numbers):
        _check_header(cells, request)
    return cells, choose_columns(cells, request), len(cells)


def _check_header(cells: list[str], request: Request) -> None:
    """Raise unless a first row of numbers and text is known to be a header by its label column."""
    named = str(request.label_column) in cells and not is_number(str(request.label_column))
    if named or (request.label_column is None and label_position(cells, request) is not None):
        return
    raise fault(
        request.path,
        f"the first row mixes text and numbers ({listing(cells)}), so it may be a header or an "
        "example, and that is never guessed. Put a header first, with a column named "
        f"{', '.join(LABEL_NAMES)}: `label,prob_cat,prob_dog`.",
    )


def _blocks_of_lines(path: Path) -> Iterator[Lines]:
    """Yield the lines of `path`, several megabytes at a time, whatever ends them."""
    rest, number, end = b"", 1, 0
    with path.open("rb") as file:
        while True:
            piece = file.read(CHUNK)
            end += len(piece)
            whole = rest + piece
            cut = whole.rfind(b"\n") + 1 if piece else len(whole)
            rest = whole[cut:]
            if cut:
                text = _decode(whole[:cut], path, first=number == 1)
                if "\r" in text:
                    text = text.replace("\r\n", "\n").replace("\r", "\n")
                lines = text.split("\n")
                if not lines[-1]:
                    lines.pop()
                yield Lines(lines, number, end, '"' in text)
                number += len(lines)
            if not piece:
                return


def _decode(raw: bytes, path: Path, *, first: bool) -> str:
    try:
        text = raw.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise fault(
            path,
            f"must be UTF-8 text, but holds the byte 0x{raw[error.start]:02x}. "
            "Save it as CSV UTF-8.",
        ) from error
    if "\0" in text:
        raise fault(path, "must be text, but holds zero bytes. Save it as CSV UTF-8.")
    return text


def _parse(
    kept: list[str], columns: Columns, width: int, lines: Lines, request: Request
) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Return scores and labels of the lines, or say which line is wrong and why."""
    if not lines.quoted and {line.count(",") for line in kept} != {width - 1}:
        raise _bad_line(columns, width, lines, request)
    at = columns.label
    try:
        if lines.quoted:
            rows = list(csv.reader(kept, strict=True))
            if any(len(row) != width for row in rows):
                raise _bad_line(columns, width, lines, request)
            cells = [[row[i] for i in columns.scores] for row in rows]
            if any("_" in cell for row in cells for cell in row):
                raise ValueError("an underscore is no digit")
            scores = np.array(cells, dtype=np.float64)
            labels = [] if at is None else [row[at].strip() for row in rows]
        else:
            scores = np.loadtxt(
                kept, delimiter=",", comments=None, usecols=columns.scores, ndmin=2
            )
            labels = [] if at is None else [line.split(",", at + 1)[at].strip() for line in kept]
    except PredictionFileError:
        raise
    except (ValueError, csv.Error) as error:
        raise _bad_line(columns, width, lines, request) from error
    return scores, np.array(labels, dtype=np.str_)


def _bad_line(columns: Columns, width: int, lines: Lines, request: Request) -> PredictionFileError:
    """Read line by line to name the first that is wrong."""
    for number, line in enumerate(lines.text, start=lines.first):
        if not line.strip():
            continue
        try:
            cells = next(csv.reader([line], strict=True))
        except csv.Error:
            return fault(
                request.path,
                f"line {number} has an unclosed or misplaced quote. "
                "A cell may not run over the end of a line.",
            )
        if len(cells) != width:
            return fault(
                request.path,
                f"line {number} has {len(cells)} cells, the first line has {width}. "
                "Give every line the same number of cells.",
            )
        if not all(is_number(cells[i]) for i in columns.scores):
            at = next(i for i in columns.scores if not is_number(cells[i]))
            return fault(
                request.path,
                f"line {number}, column {at + 1} must be a number, got {cells[at]!r}. "
                "Write the number, or drop the line.",
            )
    return fault(request.path, "could not be parsed as comma-separated numbers.")
