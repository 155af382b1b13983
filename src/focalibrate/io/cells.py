"""What a cell of a text table can be: a number, a percentage, a missing value."""

import re
from collections.abc import Sequence

MISSING = frozenset(
    ("", "na", "n/a", "nan", "-nan", "null", "none", "nat", "<na>", "#n/a", "#na", "?", "\\n")
)
"""Cells, in lower case, that mean a missing value in a column of numbers."""

_ONE_NUMBER = re.compile(r"(\D*)(\d{1,9})(\.0|\D*)", re.ASCII)


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
        text = "." if "." in text else text.replace(",", ".", 1)
    return text.lower() in MISSING or is_number(text.removesuffix("%"))
