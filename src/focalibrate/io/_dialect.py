"""How a text table is written: its separator, its decimal mark, and whether it has a header."""

import csv
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from focalibrate.io._error import file_error, listing
from focalibrate.io._vocabulary import is_known_role

SEPARATORS = ("\t", ";", "|", ",")
"""Tried in this order: a comma may also be a decimal mark, or part of text."""

MISSING = frozenset(
    ("", "na", "n/a", "nan", "-nan", "null", "none", "nat", "<na>", "#n/a", "#na", "?", "\\n")
)
"""Cells, in lower case, that mean a missing value in a column of numbers."""

_WHOLE = re.compile(r"[+-]?\d+(\.0*)?", re.ASCII)
_ONE_NUMBER = re.compile(r"(\D*)(\d{1,9})(\.0|\D*)", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?%?", re.ASCII)


@dataclass(frozen=True)
class Dialect:
    """How the cells of a text table are found and read.

    Attributes:
        separator: between cells; None for runs of white space.
        decimal_comma: numbers are written ``0,5``.
        has_header: the first row names the columns.
        row_names: rows have one cell more than the header, their first.
        comment: what comments begin with: ``#``, or ``sep=`` as Excel writes above a table.
        comment_header: which line, blank ones not counted, is a comment and the header, as
            `np.savetxt` writes it; -1 if none is.
    """

    separator: str | None
    decimal_comma: bool = False
    has_header: bool = True
    row_names: bool = False
    comment: str = ""
    comment_header: int = -1


def is_number(cell: str) -> bool:
    """Return whether `cell` is a number as text tables write it: ``1e-3``, not ``1_0``."""
    try:
        float(cell)
    except ValueError:
        return False
    # `float` also accepts 1_0 and the digits of other scripts; a table does not.
    return "_" not in cell and cell.isascii()


def is_numbering(names: Sequence[str]) -> bool:
    """Return whether the names are 0, 1, 2, ... (or ``0.0, 1.0, ...``) in any order."""
    whole = {name.removesuffix(".0") for name in names}
    return len(whole) == len(names) and whole == {str(i) for i in range(len(names))}


def numbers_in(names: Sequence[str]) -> list[int] | None:
    """Return the numbers of names that differ only in a number, from 0 or from 1, or None.

    Names that are nothing but a number count if they begin at 0.

    Example:
        >>> numbers_in(["LABEL_2", "LABEL_0", "LABEL_1"]), numbers_in(["V1", "V2"])
        ([2, 0, 1], [1, 2])
        >>> numbers_in(["grade 5", "grade 9"]) is None
        True
    """
    found = [_ONE_NUMBER.fullmatch(name) for name in names]
    parts = [match.groups() for match in found if match is not None]
    if len(parts) < len(names) or len({(head, tail) for head, _, tail in parts}) != 1:
        return None
    numbers = [int(number) for _, number, _ in parts]
    first = min(numbers)
    is_range = sorted(numbers) == list(range(first, first + len(numbers)))
    is_bare = not parts[0][0] and parts[0][2] in ("", ".0")
    return numbers if is_range and (first == 0 or (first == 1 and not is_bare)) else None


def is_value(cell: str, *, decimal_comma: bool = False) -> bool:
    """Return whether `cell` is a number, a percentage or missing."""
    text = cell.strip()
    if decimal_comma:
        text = text.replace(",", ".", 1)
    return text.lower() in MISSING or is_number(text.removesuffix("%"))


def cells_of(line: str, separator: str | None) -> list[str]:
    """Return the cells of one line, stripped."""
    if separator is None:
        return split_spaces(line)
    found = next(csv.reader([line], delimiter=separator), [])
    return [cell.strip() for cell in found]


def split_spaces(line: str) -> list[str]:
    """Return the cells between runs of white space; spaces in quotes stay."""
    if '"' not in line:
        return line.split()
    return next(csv.reader([" ".join(line.split())], delimiter=" ", strict=True), [])


def find_separator(lines: Sequence[str], *, suffix: str) -> str | None:
    """Return the separator that cuts every line into the same number of cells.

    The first line may have one cell fewer, as R writes a header above row names. A single
    column counts as separated by commas.
    """
    order = ("\t", *SEPARATORS) if suffix in (".tsv", ".tab") else SEPARATORS
    usable, even = [], []
    for mark in order:
        counts = _counts(lines, mark)
        if counts is None or min(counts) < 2:
            continue
        body = set(counts[1:]) or {counts[0]}
        if len(body) == 1 and counts[0] in (max(body), max(body) - 1):
            even.append(mark)
        usable.append(mark)
    if even:  # a class may be called "|"
        return max(even, key=lambda mark: _share_of_numbers(lines, mark)) if even[1:] else even[0]
    if usable:
        return max(usable, key=lambda mark: (lines[0].count(mark), mark == ","))
    spaced = _counts(lines, None) or [0]
    if (
        min(spaced) > 1
        and len(set(spaced[1:])) <= 1
        and spaced[0] in (spaced[-1], spaced[-1] - 1)
        and not any("," in line for line in lines)
    ):
        return None
    first = _counts(lines[:1], ",")
    return "," if first is not None else None


def _share_of_numbers(lines: Sequence[str], mark: str) -> float:
    cells = [cell for line in lines[1:] for cell in cells_of(line, mark)]
    numbers = sum(is_value(cell) or is_value(cell, decimal_comma=True) for cell in cells)
    return numbers / max(1, len(cells))


def _counts(lines: Sequence[str], mark: str | None) -> list[int] | None:
    try:
        return [len(cells_of(line, mark)) for line in lines]
    except csv.Error:
        return None


def find_decimal_comma(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether numbers are written with a comma: some cell is ``0,5``, none ``0.5``.

    Where commas separate cells too, such a cell is in quotes.
    """
    cells = [cell for row in rows for cell in row]
    commas = any(_DECIMAL_COMMA.fullmatch(cell) for cell in cells)
    return commas and not any(is_number(cell) and "." in cell for cell in cells)


def find_header(
    dialect: Dialect, rows: Sequence[Sequence[str]], *, path: Path, told: bool | None
) -> Dialect:
    """Return `dialect` with `has_header` set; raise if that is not certain.

    A first row with text above numbers is a header, a first row of fractions is not. Ascending
    whole numbers (``0,1,2``) are a header if every number below is a fraction; if they could
    also be an example, the file is refused.
    """
    first, body = list(rows[0]), rows[1:]
    if body and len(first) == len(body[0]) - 1:
        return replace(dialect, has_header=True, row_names=True)
    if told is not None:
        return replace(dialect, has_header=told)
    verdict = _is_header(first, body, decimal_comma=dialect.decimal_comma)
    if verdict is None:
        raise file_error(
            path,
            f"the first row ({listing(first)}) may be a header or an example, and that is never "
            "guessed. Say whether it is a header.",
            fixes=[{"header": True}, {"header": False}],
        )
    return replace(dialect, has_header=verdict)


def _is_header(
    first: Sequence[str], body: Sequence[Sequence[str]], *, decimal_comma: bool
) -> bool | None:
    """Return whether the first row is a header; None if it may be either."""
    numbers = [is_value(cell, decimal_comma=decimal_comma) and cell != "" for cell in first]
    if not any(numbers):
        return not (len(first) == 1 and _is_example(first[0], body))
    columns = [[row[i] for row in body if i < len(row)] for i in range(len(first))]
    for cell, number, below in zip(first, numbers, columns, strict=True):
        if not number and is_known_role(cell) and cell not in below:
            return True
    for cell, number, below in zip(first, numbers, columns, strict=True):
        values = [is_value(b, decimal_comma=decimal_comma) for b in below if b]
        if not number and cell and values and all(values):
            return True  # text above numbers
    marked = [i for i, number in enumerate(numbers) if number]
    whole = [_WHOLE.fullmatch(first[i]) for i in marked]
    if not all(whole) or "" in (first[i] for i in marked):
        return False if all(numbers) else _mixed(first, numbers, columns)
    given = [float(first[i]) for i in marked]
    if any(a >= b for a, b in itertools.pairwise(given)):
        return False if all(numbers) else _mixed(first, numbers, columns)
    if "" in first:
        return True  # an unnamed index beside columns 0, 1, 2: no example leaves a cell empty
    below = [cell for i in marked for cell in columns[i] if cell]
    if not below:
        return False if all(numbers) else None
    fractions = [not _WHOLE.fullmatch(cell) or "." in cell for cell in below]
    if all(fractions) and len(marked) > 1:
        written_alike = any("." in first[i] for i in marked)
        return None if written_alike and sum(given) == 1 and min(given) >= 0 else True
    return False if not any(fractions) and all(numbers) else None


def _mixed(
    first: Sequence[str], numbers: Sequence[bool], columns: Sequence[Sequence[str]]
) -> bool | None:
    """Return whether a row of fractions and text is a header: not if its text recurs below."""
    texts = [i for i, number in enumerate(numbers) if not number]
    repeated = all(first[i] in columns[i] for i in texts if first[i])
    fraction = any(numbers[i] and not _WHOLE.fullmatch(first[i]) for i in range(len(first)))
    return False if fraction and (repeated or not columns[texts[0]]) else None


def _is_example(cell: str, body: Sequence[Sequence[str]]) -> bool:
    """Return whether the only cell of a first row of text is one of the values below it."""
    return not is_known_role(cell) and any(row and row[0] == cell for row in body)
