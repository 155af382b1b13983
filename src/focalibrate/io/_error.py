"""What is wrong with a file: the file's name first, then the rule, the finding, the next step."""

from collections.abc import Sequence
from pathlib import Path

SHOWN = 5
"""How many row numbers or names a message lists before it only counts."""


class PredictionFileError(ValueError):
    """A file of predictions cannot be read or written; the message begins with its name."""


def fault(path: Path, text: str) -> PredictionFileError:
    """Return the error that says `text` about `path`."""
    return PredictionFileError(f"{path}: {text}")


def listing(items: Sequence[object]) -> str:
    """Return "a, b, c", or the first few and how many more."""
    shown = ", ".join(str(item) for item in items[:SHOWN])
    return shown if len(items) <= SHOWN else f"{shown} and {len(items) - SHOWN} more"


def rows_text(first: Sequence[int], count: int) -> str:
    """Return "row 3" or "12 rows (3, 7, 9, ...)": the first few numbers, counted from 0.

    Example:
        >>> rows_text([3], 1), rows_text([3, 7], 12)
        ('row 3', '12 rows (3, 7, ...)')
    """
    if count == 1:
        return f"row {first[0]}"
    shown = ", ".join(str(row) for row in first[:SHOWN])
    more = ", ..." if count > len(first[:SHOWN]) else ""
    return f"{count} rows ({shown}{more})"


def how(option: str, value: object) -> str:
    """Return how to pass `option`: in Python and on the command line.

    Example:
        >>> how("logits_key", "all_logits")
        "`logits_key='all_logits'` (command line: --logits-key all_logits)"
    """
    return f"`{option}={value!r}` (command line: --{option.replace('_', '-')} {value})"
