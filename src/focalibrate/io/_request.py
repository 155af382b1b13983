"""What the caller says about a file: the options of `read_predictions`."""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict

from focalibrate.io._error import file_error, listing
from focalibrate.io._frame import Frame
from focalibrate.io.predictions import ScoreKind

INPUTS = ("logits", "probs", "percent")

NO_LABELS = "none"
"""Value of `label_column` that means: the table has no labels."""

Input: TypeAlias = Literal["logits", "probs", "percent"]
"""What the scores are; percentages are probabilities times 100."""


class ReadOptions(TypedDict, total=False):
    """The options of `read_predictions`, see there."""

    labels_path: str | Path | None
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
    id_columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    weight_column: str | None = None
    by: tuple[str, ...] = ()
    positive: str | None = None
    class_names: tuple[str, ...] | None = None
    need_labels: bool = False
    other_labels: bool = False
    """Labels come from another file, so those in this one are ignored."""

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
        return not self.other_labels and self.label_column != NO_LABELS


def request_of(path: Path, options: ReadOptions) -> Request:
    """Return what the caller says about a file, from the options of `read_predictions`."""
    given = options.get("input")
    if given is not None and given not in INPUTS:
        raise ValueError(f"`input` must be 'logits', 'probs' or 'percent', got {given!r}.")
    score_columns, class_names = options.get("score_columns"), options.get("class_names")
    return Request(
        path=path,
        input=given,
        logits_key=options.get("logits_key"),
        probs_key=options.get("probs_key"),
        labels_key=options.get("labels_key"),
        label_column=options.get("label_column"),
        score_columns=None if score_columns is None else as_names(score_columns),
        id_columns=as_names(options.get("id_column")),
        ignore=as_names(options.get("ignore")),
        weight_column=options.get("weight_column"),
        by=as_names(options.get("by")),
        positive=options.get("positive"),
        class_names=None if class_names is None else as_names(class_names),
        need_labels=options.get("need_labels", False),
        other_labels=options.get("labels_path") is not None,
    )


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


def find_columns(frame: Frame, wanted: Sequence[str], *, option: str) -> list[int]:
    """Return the positions of columns given by name, pattern (``p_*``) or position.

    A position is counted from 0 (-1: the last), and used if no column has that name.
    """
    found: list[int] = []
    for item in wanted:
        places = [i for i, name in enumerate(frame.names) if name == item]
        if not places:
            places = [i for i, name in enumerate(frame.names) if name.strip() == item.strip()]
        if not places and any(mark in item for mark in "*?["):
            places = [i for i, name in enumerate(frame.names) if fnmatchcase(name, item)]
        if not places and re.fullmatch(r"-?\d{1,9}", item.strip(), re.ASCII):
            at = int(item) + (len(frame.columns) if int(item) < 0 else 0)
            places = [at] if 0 <= at < len(frame.columns) else []
        if not places:
            raise file_error(
                frame.path,
                f"`{option}` must name a column, got {item!r}; the columns are "
                f"{listing(frame.names)}.",
            )
        if len(places) > 1 and option != "ignore" and not any(mark in item for mark in "*?["):
            raise file_error(
                frame.path,
                f"names must differ between columns, but {item!r} occurs {len(places)} times. "
                "Rename one.",
            )
        found += [place for place in places if place not in found]
    return found
