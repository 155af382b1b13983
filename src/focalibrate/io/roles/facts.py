"""What names and values of columns say, and what the caller says; scores and their kind."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from focalibrate.io.cells import is_value
from focalibrate.io.errors import Doubt, PredictionFileError, RowError, file_error, listing, short
from focalibrate.io.evidence import RowSums, is_row_number
from focalibrate.io.options import Request
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.vocabulary import DERIVED, WEIGHTS
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
class Facts:
    """What is known when scores are looked for, each fact computed once.

    Attributes:
        view: the first rows.
        request: what the caller says.
        taken: columns that have another role.
        label: the column of the labels, or None.
    """

    view: Table
    request: Request
    taken: frozenset[int] = frozenset()
    label: int | None = None

    @cached_property
    def free(self) -> list[int]:
        """Columns that may be scores."""
        return [
            i
            for i, column in enumerate(self.view.columns)
            if i not in self.taken and not column.is_index and column.problem is None
        ]

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

    def prefix_of(self, positions: Iterable[int]) -> str | None:
        """Return the word that all columns begin with as a prefix, or None."""
        cut = [self.view[i].prefix for i in positions]
        words = {None if c is None else c.word for c in cut}
        return words.pop() if len(words) == 1 else None

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

    def error(self, text: str, *, fixes: Sequence[dict[str, object]] = ()) -> PredictionFileError:
        """Return the error with `text` about the file."""
        return file_error(self.view.path, text, fixes=fixes)

    def which(
        self, what: str, choices: Sequence[Any], fixes: Sequence[dict[str, object]]
    ) -> PredictionFileError:
        """Return the question where several columns or arrays fit, with what chooses one.

        Args:
            what: what they could be, after their number.
            choices: their names, or sets of names.
            fixes: one per choice.
        """
        are_sets = any(isinstance(one, list) for one in choices)
        names = "; ".join(map(listing, choices[:3])) if are_sets else listing(choices)
        return self.error(f"has {len(choices)} {what}: {names}. Say which.", fixes=fixes[:4])

    def which_set(self, sets: Sequence[Sequence[int]], that: str) -> PredictionFileError:
        """Return the question which of several sets of columns are the classes."""
        names = [self.names(some) for some in sets]
        fixes: Fixes = [{"score_columns": n} for n in names]
        return self.which(f"sets of columns that {that}", names, fixes)

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


def settle_kind(
    facts: Facts, positions: Sequence[int], by_name: ScoreKind | None
) -> tuple[ScoreKind, tuple[str, ...]]:
    """Return the kind: from the caller, else from the names, else from every row; or raise."""
    sums, told = facts.view.sums(positions), facts.request.kind
    what, kind = facts.text(positions), told or by_name
    if kind is None and not sums.on_simplex:
        raise unclear_kind(facts, sums, positions)
    if kind is None:
        return "probs", (f"probabilities because all rows of {what} lie in [0, 1] and sum to 1",)
    is_odd = kind == "logits" and sums.on_simplex and sums.fractions
    if not is_odd or (told is None and sums.worst >= 1e-3):
        return kind, ()
    by = "as requested" if told is not None else "as the name says"
    doubt = Doubt(
        f"WARNING: {what}: read as logits, {by}, but all values lie in [0, 1] and every row sums "
        "to 1, as probabilities do; if they are probabilities, pass --input probs"
    )
    return kind, (doubt,)


def unclear_kind(facts: Facts, sums: RowSums, positions: Sequence[int]) -> PredictionFileError:
    """Return the error for scores of unknown kind, with the options that say which."""
    what = facts.text(positions)
    verb = "hold" if len(positions) > 1 else "holds"
    if sums.in_percent:
        text = f"{what} {verb} percentages (rows sum to 100)."
        return facts.error(text, fixes=[{"input": "percent"}])
    fixes: Fixes = [{"input": "logits"}]
    if sums.in_unit and len(positions) > 1:
        return facts.error(
            f"{what} lie in [0, 1], but their rows do not sum to 1. If each is a model of its "
            "own, or a class of its own (sigmoid), read one at a time; if they are logits, say "
            "so.",
            fixes=[*one_at_a_time(facts.names(positions)), *fixes],
        )
    found = "some numbers are negative" if sums.negative else "rows do not sum to 1"
    return facts.error(
        f"does not say whether {what} {verb} logits or probabilities ({found}), and that is never "
        "guessed.",
        fixes=fixes,
    )


def one_at_a_time(names: Sequence[str]) -> Fixes:
    """Return the options that read a column alone, as the probability of one class against all."""
    return [{"score_columns": [name], "input": "probs"} for name in names[:2]]


KIND_WORDS = {
    "matrix": "lists",
    "bool": "booleans",
    "empty": "no values",
    "other": "values of another kind",
}


def not_numbers(view: Table, position: int, *, is_only: bool = False) -> PredictionFileError:
    """Return the error for a column of scores that holds no numbers, with its first such cell.

    Where it `is_only`, the only scores of the file, it cannot be left out.
    """
    column = view[position]
    name, fixes = column.name, [] if is_only else [{"ignore": [column.name]}]
    if column.kind != "text" or not view.has_cells:
        after = "If it is not a class, leave it out."
        if is_only:
            after = "Save one column of numbers per class."
        kind = KIND_WORDS.get(column.kind, "text")
        text = f"column `{short(name)}` must hold numbers, but holds {kind}. {after}"
        return file_error(view.path, text, fixes=fixes)
    return bad_cell(view, position, is_only=is_only)


def bad_cell(view: Table, position: int, *, is_only: bool = False) -> PredictionFileError:
    """Return the error for a column of scores that holds text: its first such cell."""
    name, cells, comma = view.name(position), view.cells(position), view.schema.decimal_comma
    bad = (i for i, cell in enumerate(cells) if not is_value(cell, decimal_comma=comma))
    row = next(bad, 0)
    if cells[row].lstrip().startswith("{"):
        return file_error(
            view.path,
            f"column `{short(name)}` holds dictionaries. Save one column per class: "
            f"`df.join(pd.DataFrame(df[{name!r}].map(ast.literal_eval).tolist(), df.index))`.",
        )
    before = f"column `{short(name)}` must hold numbers, but "
    or_else = "" if is_only else ", or leave the column out"
    after = f" has {short(repr(cells[row]))}. Correct it{or_else}."
    fixes: Fixes = [] if is_only else [{"ignore": [name]}]
    if "..." in cells[row]:
        before = f"column `{short(name)}` holds lists that were cut short when they were printed: "
        after = (
            " has '...' instead of numbers. Save one column per class: "
            f"`pd.DataFrame(np.stack(df[{name!r}]))`."
        )
        fixes = []
    return RowError(view.path, before, [row], after, fixes=fixes)
