"""Errors about files: the name first, then the rule, what was found and the next step."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SHOWN = 5
"""Most row numbers or names that a message lists; the others are counted."""

MAX_NAME = 60
"""Longest name or cell that a message shows in full."""

MAX_MESSAGE = 2000
"""Longest message: a file can hold names of any length."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


_USER = re.compile(r"([a-z][a-z0-9+.-]+://)[^/@\s]*@", re.ASCII)
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]+):/(?!/)", re.ASCII)


class PredictionFileError(ValueError):
    """A file of predictions cannot be read or written; the message begins with its name.

    Attributes:
        fixes: options of `read_predictions` that make the file readable, one mapping per
            alternative; the command line prints them as commands to paste.
    """

    def __init__(self, message: str, *, fixes: Sequence[Mapping[str, object]] = ()) -> None:
        super().__init__(message)
        self.fixes = tuple(dict(fix) for fix in fixes)


class RowError(PredictionFileError):
    """Rows of a file break a rule; their numbers are data, counted from the start of a batch."""

    def __init__(
        self,
        path: Path | str,
        before: str,
        rows: Any,
        after: str,
        *,
        fixes: Sequence[Mapping[str, object]] = (),
    ) -> None:
        text = f"{before}{rows_text(rows)}{after}"
        super().__init__(str(file_error(path, text, fixes=fixes)), fixes=fixes)
        self._parts = (path, before, rows, after)

    def among(self, rows: Any) -> "RowError":
        """Return the error of some rows, with their numbers among all."""
        path, before, own, after = self._parts
        return RowError(path, before, [int(rows[i]) for i in own], after, fixes=self.fixes)

    def __reduce__(self) -> tuple[Any, ...]:
        return PredictionFileError, (str(self),), {"fixes": self.fixes}


@contextmanager
def numbered_by(rows: Any) -> Iterator[None]:
    """Let errors in these rows of others have their numbers there; None: in the same rows."""
    try:
        yield
    except RowError as error:
        if rows is None:
            raise
        raise error.among(rows) from error


class Doubt(str):
    """A note that warns of something that is probably wrong."""

    __slots__ = ()


def file_error(
    path: Path | str, text: str, *, fixes: Sequence[Mapping[str, object]] = ()
) -> PredictionFileError:
    """Return the error with `text` about `path`, followed by how to pass each fix."""
    if fixes:
        text = f"{text} Pass {' or '.join(hint(fix) for fix in fixes)}."
    if len(text) > MAX_MESSAGE:
        text = f"{text[:MAX_MESSAGE]} ..."
    return PredictionFileError(printable(f"{shown(path)}: {text}"), fixes=fixes)


class OfFile:
    """What is in a file, or is one: errors about it begin with the file's name."""

    path: Path

    def error(
        self, text: str, *, fixes: Sequence[Mapping[str, object]] = ()
    ) -> PredictionFileError:
        """Return the error with `text` about the file."""
        return file_error(self.path, text, fixes=fixes)

    def rows_error(
        self, before: str, rows: Any, after: str, *, fixes: Sequence[Mapping[str, object]] = ()
    ) -> RowError:
        """Return the error that some rows break a rule."""
        return RowError(self.path, before, rows, after, fixes=fixes)


def shown(path: Path | str) -> str:
    """Return a path as the user wrote it, without user name and password.

    `Path` turns ``s3://`` into ``s3:/``; this restores it.

    Example:
        >>> shown(Path("s3://bucket/a.csv")), shown("s3://me:secret@bucket/a.csv?region=eu")
        ('s3://bucket/a.csv', 's3://bucket/a.csv?region=eu')
        >>> shown(Path("file:///tmp/a.csv"))
        'file:///tmp/a.csv'
    """
    text = _SCHEME.sub(r"\1://", str(path))
    if text.startswith("file://") and not text.startswith("file:///"):
        text = text.replace("file://", "file:///", 1)
    return without_user(text)


def without_user(text: str) -> str:
    """Return text without the user names and passwords in its URLs."""
    return _USER.sub(r"\1", text)


def printable(text: str) -> str:
    r"""Return `text` with control characters escaped, so that a name cannot move the cursor.

    Example:
        >>> printable("a\x1b[2Jb")
        'a\\x1b[2Jb'
    """
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def short(text: object) -> str:
    """Return `text`, cut off if it is too long."""
    whole = str(text)
    return whole if len(whole) <= MAX_NAME else f"{whole[:MAX_NAME]}..."


def listing(items: Sequence[object]) -> str:
    """Return "a, b, c", or the first few and how many more."""
    shown = ", ".join(short(item) for item in items[:SHOWN])
    return shown if len(items) <= SHOWN else f"{shown} and {len(items) - SHOWN} more"


def rows_text(rows: Any) -> str:
    """Return the first few row numbers, counted from 0, and how many rows there are.

    Example:
        >>> rows_text([3]), rows_text(range(3, 15))
        ('row 3 (0-based)', '12 rows (3, 4, 5, 6, 7, ...; 0-based)')
    """
    if len(rows) == 1:
        return f"row {rows[0]} (0-based)"
    shown = ", ".join(str(row) for row in rows[:SHOWN])
    return f"{len(rows)} rows ({shown}{', ...' if len(rows) > SHOWN else ''}; 0-based)"


def hint(fix: Mapping[str, object]) -> str:
    """Return how to pass several options together: in Python and on the command line."""
    python = ", ".join(f"{name}={short(repr(value))}" for name, value in fix.items())
    return f"`{python}` (command line: {' '.join(short(f) for f in flags(fix))})"


def flags(fix: Mapping[str, object]) -> list[str]:
    """Return the command-line options of one fix.

    Example:
        >>> flags({"label_column": "my y", "drop_missing": True})
        ['--label-column', "'my y'", '--drop-missing']
    """
    words = []
    for name, value in fix.items():
        flag = {"labels_path": "labels"}.get(name, name).replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
            continue
        items = value if isinstance(value, (list, tuple)) else [value]
        if name in ("score_columns", "by", "class_names"):
            items = [",".join(_quoted(str(item)) for item in items)]
        for item in items:
            text = shlex.quote(str(item))
            words += [f"--{flag}={text}"] if str(item).startswith("-") else [f"--{flag}", text]
    return words


def _quoted(name: str) -> str:
    """Return a column's name for a comma-separated list: in double quotes where it has a comma."""
    plain = "," not in name and '"' not in name and name == name.strip() and name
    return name if plain else '"' + name.replace('"', '""') + '"'
