"""What a reader is asked for and what it hands back, before any check of values."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from focalibrate.io.predictions import Kind, Layout

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done and how much there is."""

NO_LABELS = "none"
"""As `label_column`: the table has no column of labels."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """Which file, and what the caller says about it."""

    path: Path
    input: Kind | None = None
    logits_key: str | None = None
    probs_key: str | None = None
    labels_key: str | None = None
    label_column: str | int | None = None
    need_labels: bool = False
    other_labels: bool = False
    """Labels come from another file: those in this one are not wanted."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Arrays as stored: scores of any number dtype, labels of any dtype."""

    scores: NDArray[Any]
    kind: Kind
    scores_name: str
    labels: NDArray[Any] | None = None
    labels_name: str = "labels"
    class_names: tuple[str, ...] | None = None
    was_half: bool = False
    """The scores carry only the digits of float16 or bfloat16."""
    names_are_labels: bool = False
    """Class names stand in column headers: whole-number labels are those names."""
    layout: Layout = field(default_factory=Layout)
