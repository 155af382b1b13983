"""What the caller says about a file: the options of `read_predictions`."""

import csv
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from focalibrate._check import PROBS_ATOL
from focalibrate.io.errors import file_error, listing
from focalibrate.io.predictions import ScoreKind

if TYPE_CHECKING:
    from focalibrate.io.table import Schema

INPUTS = ("logits", "probs", "percent")

NO_LABELS = "none"
"""Value of `label_column` that means: the table has no labels."""

Input: TypeAlias = Literal["logits", "probs", "percent"]
"""What the scores are; percentages are probabilities times 100."""


class ReadOptions(TypedDict, total=False):
    """The options of `read_predictions`, see there."""

    labels_path: str | Path | None
    truth: str | Path | None
    iou: float | None
    input: "Input | None"
    logits_key: str | None
    probs_key: str | None
    labels_key: str | None
    label_column: str | int | None
    score_columns: str | Sequence[str] | None
    id_column: str | Sequence[str] | None
    ignore: str | Sequence[str] | None
    weight_column: str | None
    by: str | Sequence[str] | None
    cluster: str | None
    positive: str | None
    class_names: str | Sequence[str] | None
    header: bool | None
    encoding: str | None
    sheet: str | None
    drop_missing: bool
    need_labels: bool
    probs_atol: float
    max_memory: str | int | None
    progress: Callable[[int, int | None], None] | None


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which file, and what the caller says about it; see `read_predictions`."""

    path: Path
    input: Input | None = None
    logits_key: str | None = None
    probs_key: str | None = None
    labels_key: str | None = None
    label_column: str | int | None = None
    score_columns: tuple[str, ...] | None = None
    id_column: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    weight_column: str | None = None
    by: tuple[str, ...] = ()
    cluster: str | None = None
    positive: str | None = None
    class_names: tuple[str, ...] | None = None
    need_labels: bool = False
    drop_missing: bool = False
    probs_atol: float = PROBS_ATOL
    labels_path: str | Path | None = None
    truth: str | Path | None = None
    iou: float = 0.5
    header: bool | None = None
    encoding: str | None = None
    sheet: str | None = None
    max_memory: str | int | None = None

    @cached_property
    def limit(self) -> int:
        """Most bytes of memory to use."""
        return parse_size(self.max_memory)

    @property
    def kind(self) -> ScoreKind | None:
        """The kind that the caller gave, or None."""
        return "probs" if self.input == "percent" else self.input

    @property
    def kinds_by_preference(self) -> tuple[ScoreKind, ScoreKind]:
        """The kind to look for first, and the other; logits come first by default."""
        return ("probs", "logits") if self.kind == "probs" else ("logits", "probs")

    @property
    def wants_labels(self) -> bool:
        """Whether labels are looked for in this file."""
        return self.labels_path is None and self.label_column != NO_LABELS


LISTS = {"score_columns", "id_column", "ignore", "by", "class_names"}
"""Options that are several names, or text with commas between them."""


def request_of(path: Path, options: ReadOptions) -> Request:
    """Return what the caller says about a file, from the options of `read_predictions`."""
    unknown = sorted(set(options) - set(ReadOptions.__annotations__))
    if unknown:
        known = ", ".join(ReadOptions.__annotations__)
        raise TypeError(f"`{unknown[0]}` is no option of predictions; these are: {known}.")
    scale = options.get("input")
    if scale is not None and scale not in INPUTS:
        raise ValueError(f"`input` must be 'logits', 'probs' or 'percent', got {scale!r}.")
    told: dict[str, Any] = {k: value for k, value in options.items() if value is not None}
    told |= {name: as_names(told[name]) for name in LISTS & told.keys()}
    given = {name: told[name] for name in Request.__dataclass_fields__ if name in told}
    return Request(path=path, **given)


def as_names(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return names given as a sequence, or as text with commas between them.

    Example:
        >>> as_names('a,"b, c"'), as_names(["a,b"])
        (('a', 'b, c'), ('a,b',))
    """
    if value is None:
        return ()
    if isinstance(value, str):
        try:
            return tuple(next(csv.reader([value], skipinitialspace=True), []))
        except csv.Error as error:
            raise ValueError(f"`{value[:60]}` must be names separated by commas.") from error
    return tuple(str(name) for name in value)


def find_columns(schema: "Schema", wanted: Sequence[str], *, option: str) -> list[int]:
    """Return the positions of columns given by name, pattern (``p_*``) or position.

    A position is counted from 0 (-1: the last), and used if no column has that name.
    """
    found: list[int] = []
    for item in wanted:
        is_pattern, named = any(mark in item for mark in "*?["), list(enumerate(schema.names))
        places = [i for i, name in named if name == item]
        places = places or [i for i, name in named if name.strip() == item.strip()]
        if not places and is_pattern:
            places = [i for i, name in named if fnmatchcase(name, item)]
        if not places and re.fullmatch(r"-?\d{1,9}", item.strip(), re.ASCII):
            at = int(item) + (len(schema.columns) if int(item) < 0 else 0)
            places = [at] if 0 <= at < len(schema.columns) else []
        if not places:
            raise schema.error(
                f"`{option}` must name a column, got {item!r}; the columns are "
                f"{listing(schema.names)}."
            )
        if len(places) > 1 and option != "ignore" and not is_pattern:
            raise schema.error(
                f"names must differ between columns, but {item!r} occurs {len(places)} times. "
                "Rename one."
            )
        found += [place for place in places if place not in found]
    return found


SHARE = 0.8
"""Part of the machine's memory that reading may use when no limit is given."""

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: str | int | None) -> int:
    """Return bytes of "500MB", "4G" or a number; of None, `SHARE` of the machine's memory.

    Example:
        >>> parse_size("2 GB") == 2 << 30
        True
    """
    if text is None:
        try:
            return int(SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, ValueError, OSError):  # the system does not say
            return 8 << 30
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", str(text).lower(), re.ASCII)
    if not found or len(found[1]) > 20:
        raise ValueError(
            f"`max_memory` must be a size such as '4GB' or 500_000_000, got {text!r}."
        )
    size = int(float(found[1]) * UNITS[found[2]])
    if size < 1:
        raise ValueError(f"`max_memory` must be at least 1 byte, got {text!r}.")
    return size


def check_fits(path: Path, n_bytes: int, limit: int) -> None:
    """Raise where reading would take more than `limit` bytes."""
    if n_bytes > limit:
        raise file_error(
            path,
            f"needs {human(n_bytes)} of memory, but the limit is {human(limit)}. Read it "
            "in batches with `scan_predictions`, or raise the limit.",
            fixes=[{"max_memory": f"{-(-n_bytes * 11 // 10 >> 20)}MB"}] * (n_bytes < 1 << 50),
        )


def human(n_bytes: int) -> str:
    """Return a size as readable text.

    Example:
        >>> human(1_500_000_000)
        '1.4 GB'
    """
    size = float(n_bytes)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.0f} PB"
