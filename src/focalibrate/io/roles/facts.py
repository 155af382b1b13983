"""What names and values of columns say, and what the caller says: each fact is found once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from focalibrate.io.cells import is_row_number
from focalibrate.io.errors import OfFile, PredictionFileError, listing, short
from focalibrate.io.options import Request
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.vocabulary import DERIVED, WEIGHTS, Prefixed
from focalibrate.io.table import Table

Fixes: TypeAlias = list[dict[str, object]]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Which columns hold the scores, and how.

    Attributes:
        positions: one column per class, or one matrix, or one column of the positive class.
        kind: logits or probabilities.
        percent: probabilities are stored times 100.
        form: how the columns hold the classes.
        class_names: the names the columns have, or None.
        positive: name of the positive class, where one column holds its score.
        n_classes: number of classes; 0 if known only once the values are read.
        outcome: the column that says whether the answer with this confidence was right.
        notes: what the user should know.
    """

    positions: tuple[int, ...]
    kind: ScoreKind
    percent: bool = False
    form: str = "columns"
    class_names: tuple[str, ...] | None = None
    positive: str | None = None
    n_classes: int = 0
    outcome: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts(OfFile):
    """What is known when scores are looked for in the first rows, and which columns are taken."""

    view: Table
    request: Request
    taken: frozenset[int] = frozenset()
    label: int | None = None

    @cached_property
    def free(self) -> list[int]:
        """Columns that may be scores."""
        schema = self.view.schema
        return schema.where(lambda c: not c.is_index and c.problem is None, self.taken)

    @cached_property
    def numbers(self) -> list[int]:
        """Free columns of numbers."""
        return [i for i in self.free if self.view.is_kind(i, "number")]

    @cached_property
    def likely(self) -> list[int]:
        """Columns of numbers that are not usually something else, such as an id."""
        return [i for i in self.numbers if self.called_as_label(i) or not self._is_aside(i)]

    @cached_property
    def label_words(self) -> frozenset[str]:
        """The labels that are text."""
        if self.label is None or not self.view.is_kind(self.label, "text"):
            return frozenset()
        return frozenset(self.view.values(self.label).astype(str).tolist())

    def called_as_label(self, position: int) -> bool:
        """Return whether the column is called as one of the labels."""
        return self.view.name(position).strip() in self.label_words

    def named_like_labels(self, positions: Iterable[int]) -> list[int]:
        """Return the columns that are called as labels, if every label has one, or none."""
        found = [i for i in positions if self.called_as_label(i)]
        return found if len(self.label_words) == len(found) > 1 else []

    def _is_aside(self, position: int) -> bool:
        """Return whether a column is usually not a class: an id, a prediction, a weight."""
        column = self.view[position]
        if not self.view.schema.has_names:
            return False
        if column.unnamed or column.is_id or column.plain in WEIGHTS | DERIVED:
            return True
        if column.is_prediction or column.is_label:
            return self.view.is_whole(position)
        return is_row_number(self.view.values(position))

    def is_simplex(self, positions: Sequence[int]) -> bool:
        """Return whether these are columns of numbers whose rows sum to 1."""
        are_numbers = all(self.view.is_kind(i, "number") for i in positions)
        return are_numbers and self.view.sums(positions).on_simplex

    def names(self, positions: Iterable[int]) -> list[str]:
        """Return the names of columns."""
        return [self.view.name(i) for i in positions]

    def prefix_of(self, positions: Iterable[int]) -> Prefixed | None:
        """Return the prefix that all columns begin with, as the first has it, or None."""
        cut = [self.view[i].prefix for i in positions]
        return cut[0] if len({None if c is None else c.word for c in cut}) == 1 else None

    def quoted(self, positions: Iterable[int]) -> list[str]:
        """Return columns' names in double quotes, cut where they are long."""
        return [f'"{short(self.view.name(i))}"' for i in positions]

    def text(self, positions: Sequence[int]) -> str:
        """Return what messages call these columns."""
        if not self.view.schema.has_names and len(positions) > 1:
            return f"columns {positions[0]} to {positions[-1]}"
        if len(positions) == 1:
            return self.quoted(positions)[0]
        return f"columns {listing(self.names(positions))}"

    @property
    def path(self) -> Path:  # type: ignore[override]
        """The file."""
        return self.view.path

    def which(
        self, what: str, sets: Sequence[Sequence[int]], fixes: Sequence[dict[str, object]] = ()
    ) -> PredictionFileError:
        """Return the question which of several columns, or sets of columns, it is.

        Args:
            what: what they could be, after their number.
            sets: the columns.
            fixes: what chooses one, per set. Default: `score_columns`.
        """
        names = [self.names(some) for some in sets]
        are_sets = any(len(some) > 1 for some in names)
        shown = "; ".join(map(listing, names[:3])) if are_sets else listing([n for (n,) in names])
        fixes = fixes or [{"score_columns": some} for some in names]
        return self.error(f"has {len(sets)} {what}: {shown}. Say which.", fixes=fixes[:4])

    def choices(self, *sets: Sequence[int]) -> Fixes:
        """Return the options that choose columns, with their kind where it is not known."""
        found: Fixes = []
        for positions in sets:
            kind: dict[str, object] = {}
            if self.request.kind is None:
                sums = self.view.sums(positions)
                is_probs = sums.in_unit if len(positions) == 1 else sums.on_simplex
                is_percent = sums.in_percent and len(positions) > 1
                kind = {"input": "probs" if is_probs else "percent" if is_percent else "logits"}
            found.append({"score_columns": self.names(positions), **kind})
        return found
