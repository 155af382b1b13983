"""How a text table is written: its separator, its decimal mark, and whether it has a header."""

import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import IO, cast

from focalibrate.io.cells import is_number, is_value
from focalibrate.io.errors import PredictionFileError, listing, short
from focalibrate.io.roles.vocabulary import Named
from focalibrate.io.source import Part

SEPARATORS = ("\t", ";", "|", ",")
"""Tried in this order: a comma may also be a decimal mark, or part of text."""

_DIGITS = re.compile(r"[0-9]+")
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?%?", re.ASCII)


SAMPLE = 200
"""Rows that decide the separator and the header."""

MAX_SAMPLE = 1 << 24
"""Most bytes read for the sample: a file without line breaks is not a table."""

FOOTER = re.compile(r"\(\d+ rows?\)")
_EXCEL_HINT = re.compile('("?sep=)(.?)\\2*"?', re.IGNORECASE)
_RULE = re.compile(r"[-+|:= ]*--[-+|:= ]*")


@dataclass(frozen=True, kw_only=True)
class Top:
    """What the first lines of a text table say of how its cells are found and read.

    Attributes:
        separator: between cells; None for runs of white space.
        decimal_comma: numbers are written ``0,5``.
        comment: what comments begin with: ``#``, or ``sep=`` as Excel writes above a table.
        comment_header: which line, blank ones not counted, is a comment and the header, as
            `np.savetxt` writes it; -1 if none is.
        encoding: of its text.
        names: of the columns, or None where no row names them.
        width: number of columns.
        longest: length of the longest of the lines.
        header_lines: lines to pass over before the first row.
        is_empty: there are no rows.
        thousands: a number whose dot may separate thousands, as that of every fraction may.
    """

    separator: str | None
    decimal_comma: bool
    comment: str
    comment_header: int
    encoding: str
    names: tuple[str, ...] | None
    width: int
    longest: int
    header_lines: int
    is_empty: bool
    thousands: str

    @property
    def is_plain(self) -> bool:
        """Whether the bytes can be parsed as they are."""
        is_utf8 = self.encoding.lower().replace("_", "-") in ("utf-8", "utf-8-sig", "utf8")
        return is_utf8 and self.separator is not None and not self.comment


def look_at_top(binary: IO[bytes], part: Part, *, told: bool | None, encoding: str | None) -> Top:
    """Look at the first lines: encoding, separator, decimal mark, header."""
    with io.BufferedReader(cast(io.RawIOBase, binary)) as buffered:
        is_utf16 = buffered.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff")
        guessed = encoding or ("utf-16" if is_utf16 else "utf-8-sig")
        try:
            "".encode(guessed)
        except LookupError as error:
            raise ValueError(f"`encoding` must be a text encoding, got {encoding!r}.") from error
        with io.TextIOWrapper(buffered, guessed, newline="") as text:
            return _top(text, part, told=told, encoding=guessed)


def _top(text: IO[str], part: Part, *, told: bool | None, encoding: str) -> Top:
    lines, taken, blank = [], 0, 0
    for line in text:
        taken += len(line)
        if taken > MAX_SAMPLE:
            raise part.error("has lines too long for a table. Is it a text file?")
        if line.strip():
            lines.append(line.strip("\r\n"))
        elif not lines:
            blank += 1
        if len(lines) > SAMPLE:
            break
    if not lines:
        raise part.error("is empty. Write a header and at least one example.")
    comment = "#" if lines[0].lstrip().startswith("#") else ""
    hint = _EXCEL_HINT.fullmatch(lines[0].strip())  # which takes a tab, too
    if hint is not None:
        comment = hint[1]
    kept = [line for line in lines if not (comment and line.lstrip().startswith(comment))]
    if not kept:
        raise part.error("holds only comments. Write a header and at least one example.")
    _check_not_drawn(kept, part)
    separator = find_separator(kept)
    width = max(_counts(kept[:2], separator) or [0])
    at = _comment_header(lines, kept, separator) if comment == "#" else -1
    found = table_lines(lines, comment, at, separator, width)
    kept = [line for line in found if line.strip()]
    try:
        rows = rows_in(kept, separator)
    except csv.Error as error:
        raise _bad_quote(kept, part) from error
    comma = find_decimal_comma(rows[1:] or rows, part=part)
    _check_one_header(rows, part)
    has_header, row_names = find_header(
        rows, decimal_comma=comma, part=part, told=True if at >= 0 else told
    )
    names = None
    if has_header:
        extra = [""] * (len(rows) > 1 and len(rows[1]) == len(rows[0]) + 1)
        names = tuple(extra + rows[0] if row_names else rows[0] + extra)
    return Top(
        separator=separator,
        decimal_comma=comma,
        comment=comment,
        comment_header=at,
        encoding=encoding,
        names=names,
        width=len(names or rows[0]),
        longest=max(map(len, lines)),
        header_lines=blank + has_header,
        is_empty=len(rows) == 1 and has_header,
        thousands=_thousands(rows[1:]) if separator == ";" else "",
    )


def _thousands(rows: Sequence[Sequence[str]]) -> str:
    """Return a number such as ``1.234`` where every fraction is written so, or ""."""
    cells = [cell for row in rows for cell in row if "." in cell and is_number(cell)]
    return cells[0] if cells and all(_THOUSANDS.fullmatch(cell) for cell in cells) else ""


def _bad_quote(lines: Sequence[str], part: Part) -> PredictionFileError:
    for i, line in enumerate(lines, start=1):
        if len(line) > csv.field_size_limit():
            return bad_cell(part, i, is_long=True)
    return bad_cell(part, 1, is_long=False)


def bad_cell(part: Part, line: int, *, is_long: bool) -> PredictionFileError:
    """Return the error for a line that cannot be cut into cells."""
    what = 'an unclosed or misplaced quote. Correct it, and write quotes in a cell twice ("").'
    if is_long:
        what = f"a cell of more than {csv.field_size_limit():,} characters."
    return part.error(f"line {line} has {what}")


def _comment_header(lines: list[str], kept: list[str], separator: str | None) -> int:
    """Return the last of the comments above the table if it names its columns, or -1."""
    above = list(takewhile(lambda line: line.lstrip().startswith("#"), lines))
    try:
        widths = {len(cells_of(line, separator)) for line in kept[:2]}
        names = cells_of(above[-1].lstrip().lstrip("#"), separator)
    except csv.Error:
        return -1
    is_header = len(names) in widths and not any(map(is_number, names))
    if len(names) == 1:
        is_header = is_header and Named(names[0]).is_role
    return len(above) - 1 if is_header else -1


def _check_not_drawn(lines: Sequence[str], part: Part) -> None:
    """Raise if a line is a rule or counts the rows, as in tables drawn to be looked at."""
    if FOOTER.fullmatch(lines[-1].strip()):
        raise is_footer(lines[-1], part)
    drawn = [line.strip() for line in lines[:3] if _RULE.fullmatch(line.strip())]
    if drawn:
        raise part.error(
            f"is a table drawn to be looked at (it has the line {short(drawn[0])!r}). Save it as "
            "CSV: `psql --csv`, `mysql --batch`, `sqlite3 -csv -header`, or `df.to_csv(path)`."
        )


def is_footer(line: str, part: Part) -> PredictionFileError:
    """Return the error for a last line that counts the rows."""
    return part.error(
        f"its last line, {short(line.strip())!r}, is not an example. Remove it (`psql --csv` does "
        "not write it)."
    )


def _check_one_header(rows: Sequence[Sequence[str]], part: Part) -> None:
    """Raise if there is a title, or a second row of names as pandas writes for a MultiIndex."""
    is_lone = rows[0][0] != "" and not any(rows[0][1:])  # a title, with the commas of a row or not
    is_above = len(rows) > 2 and len(rows[0]) == 1 < len(rows[1])
    is_title = is_above and not any(map(is_number, rows[1]))
    if is_lone and (is_title or len(rows[0]) > 2):
        raise part.error(
            f"its first line, {short(rows[0][0])!r}, does not name the columns. Remove the lines "
            "above the names of the columns."
        )
    if len(rows) < 3 or len({len(row) for row in rows[:3]}) > 1:
        return
    first, second, third = rows[:3]
    named = [i for i, cell in enumerate(third) if is_number(cell) and first[i] and second[i]]
    over, under = [first[i] for i in named], [second[i] for i in named]
    if any(map(is_number, over + under)):
        return
    if len(set(over)) < len(over) == len(set(under)):
        raise part.error(
            f"has two rows of names ({listing(over)} and {listing(under)}), as pandas writes "
            "columns of two levels. Join them before saving: "
            "`df.columns = ['_'.join(map(str, c)).strip('_') for c in df.columns]`."
        )


def is_comment(line: str, comment: str, separator: str | None, width: int) -> bool:
    """Return whether a line below the names is a comment: not if it has the cells of a row."""
    if comment != "#" or not line.lstrip().startswith(comment):
        return False
    try:
        return len(cells_of(line, separator)) != width
    except csv.Error:
        return True


def table_lines(
    lines: Iterable[str], comment: str, comment_header: int, separator: str | None, width: int
) -> Iterator[str]:
    """Yield the lines of a table, empty in place of comments; see `Top`."""
    number, is_above = -1, bool(comment)
    for line in lines:
        number += bool(line.strip())
        is_above = is_above and (not line.strip() or line.lstrip().startswith(comment))
        if is_above and number == comment_header:
            line = line.lstrip().lstrip("#").lstrip()
        elif is_above or is_comment(line, comment, separator, width):
            line = "\n"
        yield line


def zero_bytes(part: Part) -> PredictionFileError:
    """Return the error for text with zero bytes."""
    return part.error(
        "must be text, but holds zero bytes. Save it as CSV UTF-8; if it is UTF-16, say so.",
        fixes=[{"encoding": "utf-16-le"}],
    )


def rows_in(lines: Sequence[str], separator: str | None) -> list[list[str]]:
    """Return the cells of lines, stripped; one in quotes may go on in the next line."""
    if separator is None:
        return [split_spaces(line) for line in lines]
    rows = csv.reader((f"{line}\n" for line in lines), delimiter=separator)
    return [[cell.strip() for cell in row] for row in rows]


def cells_of(line: str, separator: str | None) -> list[str]:
    """Return the cells of one line, stripped."""
    return next(iter(rows_in([line], separator)), [])


def split_spaces(line: str) -> list[str]:
    """Return the cells between runs of white space; spaces in quotes stay."""
    if '"' not in line:
        return line.split()
    return next(csv.reader([" ".join(line.split())], delimiter=" ", strict=True), [])


def find_separator(lines: Sequence[str]) -> str | None:
    """Return the separator that cuts every line into the same number of cells.

    The first line may have one cell fewer, as R writes a header above row names. A single
    column counts as separated by commas.
    """
    usable, even = [], []
    for mark in SEPARATORS:
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
        counts = [len(row) for row in rows_in(lines, mark)]
    except csv.Error:
        return None
    is_cut = len(counts) > 2 and len(counts) < len(lines)  # the last may go on below the sample
    return counts[:-1] if is_cut else counts


def find_decimal_comma(rows: Sequence[Sequence[str]], *, part: Part) -> bool:
    """Return whether numbers are written with a comma: some cell is ``0,5``, none ``0.5``.

    Where commas separate cells too, such a cell is in quotes. Where every comma may as well
    separate thousands, the file is refused.
    """
    cells = [cell for row in rows for cell in row]
    commas = [cell for cell in cells if _DECIMAL_COMMA.fullmatch(cell)]
    if not commas or any(is_number(cell) and "." in cell for cell in cells):
        return False
    if all(_THOUSANDS.fullmatch(cell) for cell in commas):
        raise part.error(
            f"the comma in {short(repr(commas[0]))} may be a decimal comma or separate thousands, "
            "and that is never guessed. Write numbers with a decimal point, and without a mark "
            "between thousands."
        )
    return True


def find_header(
    rows: Sequence[Sequence[str]], *, decimal_comma: bool, part: Part, told: bool | None
) -> tuple[bool, bool]:
    """Return whether the first row is a header, and rows have a name before their cells.

    A first row with text above numbers is a header, a first row of fractions is not. Ascending
    whole numbers (``0,1,2``) are a header if every number below is a fraction; if they could
    also be an example, the file is refused.
    """
    first, body = list(rows[0]), rows[1:]
    if body and len(first) == len(body[0]) - 1:
        return True, any(row[-1:] != [""] for row in body)
    verdict = told
    if verdict is None:
        verdict = _is_header(first, body, decimal_comma=decimal_comma)
    if verdict is None and _is_numbered_alike(first, body):
        verdict = False
    if verdict is None:
        raise part.error(
            f"the first row ({listing(first)}) may be a header or an example, and that is never "
            "guessed. Say whether it is a header.",
            fixes=[{"header": True}, {"header": False}],
        )
    return verdict, False


def _is_header(
    first: Sequence[str], body: Sequence[Sequence[str]], *, decimal_comma: bool
) -> bool | None:
    """Return whether the first row is a header; None if it may be either."""
    numbers = [is_value(cell, decimal_comma=decimal_comma) and cell != "" for cell in first]
    if not any(numbers):
        return not (len(first) == 1 and _is_example(first[0], body))
    columns = [[row[i] for row in body if i < len(row)] for i in range(len(first))]
    for cell, number, below in zip(first, numbers, columns, strict=True):
        values = [is_value(b, decimal_comma=decimal_comma) for b in below if b]
        is_above_numbers = cell and values and all(values)
        if not number and (is_above_numbers or (Named(cell).is_role and cell not in below)):
            return True
    marked = [i for i, number in enumerate(numbers) if number]
    is_whole = all(_WHOLE.fullmatch(first[i]) for i in marked)
    given = [float(first[i]) for i in marked] if is_whole else []
    if not is_whole or any(a >= b for a, b in itertools.pairwise(given)):
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


def _is_numbered_alike(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool:
    """Return whether text in the first row and in all others differs by digits alone.

    Such a row is an example: ``img_0007.jpg`` above ``img_0012.jpg``.
    """
    for i, cell in enumerate(first):
        below = {_DIGITS.sub("0", row[i]) for row in body if i < len(row)}
        if not is_value(cell) and len(body) > 1 and below == {_DIGITS.sub("0", cell)} != {cell}:
            return True
    return False


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
    return not Named(cell).is_role and any(row and row[0] == cell for row in body)
