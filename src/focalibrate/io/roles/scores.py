"""Which columns are the scores: those the caller names, or found by name or by values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from focalibrate.io.errors import PredictionFileError, file_error, listing
from focalibrate.io.options import Request, find_columns
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.columns import (
    check_alike,
    check_no_rivals,
    class_columns,
    columns_by_prefix,
    columns_by_sum,
    is_aside,
    named_like_labels,
    numbered_columns,
    without_prefix,
)
from focalibrate.io.roles.kind import Scores, not_numbers, quoted
from focalibrate.io.roles.matrix import lone_matrix, matrix_scores
from focalibrate.io.roles.single import (
    column_by_name,
    column_of_class,
    event_columns,
    positive_column,
    unnamed_column,
)
from focalibrate.io.roles.vocabulary import (
    DERIVED,
    is_prediction,
    is_thing,
    kind_of,
    meaning_of,
    plain,
    prefixed,
    says_correct,
)
from focalibrate.io.table import Table


@dataclass(frozen=True)
class Known:
    """What is known when scores are looked for.

    Attributes:
        view: the first rows.
        request: what the caller says.
        taken: columns that have another role.
        label: the column of the labels, or None.
    """

    view: Table
    request: Request
    taken: frozenset[int]
    label: int | None

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
        known = set[object]()
        if self.label is not None and self.view.is_kind(self.label, "text"):
            known = set(self.view.values(self.label).tolist())
        return [
            i
            for i in self.numbers
            if self.view.name(i).strip() in known or not is_aside(self.view, i)
        ]


@dataclass(frozen=True)
class Rule:
    """One way to find the scores: what it looks for, in words, and the function that finds it.

    The function returns None where the rule does not apply, and raises where it does but several
    answers fit, with the options that choose one.
    """

    what: str
    find: Callable[[Known], Scores | None]
    in_arrays: bool = False
    """It applies to files of arrays too."""


def find_scores(view: Table, request: Request, taken: Iterable[int], label: int | None) -> Scores:
    """Return the scores that the first rule of `SCORES` finds.

    Raises:
        PredictionFileError: none does, with the reason.
    """
    known = Known(view, request, frozenset(taken), label)
    for rule in SCORES:
        if view.schema.is_table or rule.in_arrays:
            found = rule.find(known)
            if found is not None:
                return found
    raise _no_scores(view, known.numbers)


def _given_classes(known: Known) -> Scores | None:
    """Return the columns called as the classes that the caller listed."""
    view, expected = known.view, known.request.class_names
    if expected is None:
        return None
    named = [i for i in known.numbers if view.name(i).strip() in set(expected)]
    if not len(named) == len(expected) > 1:
        return None
    names = tuple(view.name(i).strip() for i in named)
    return class_columns(view, known.request, named, names, None)


def _on_the_simplex(known: Known) -> Scores | None:
    """Return the columns whose rows sum to 1: of the likely ones, else of all."""
    view = known.view
    for candidates in (known.likely, known.numbers):
        fitting = columns_by_sum(view, candidates, known.label) if len(candidates) > 1 else None
        if fitting is not None:
            rest = [i for i in known.likely if i not in fitting and not view.is_whole(i)]
            if rest and known.request.kind == "logits":
                return None  # they are no logits, and others may be
            if view.schema.has_names and known.request.kind is None:
                check_no_rivals(view, known.request, fitting, rest, known.label)
            names = without_prefix(view, fitting, known.label)
            notes = _left_out(view, known.numbers, fitting, why=" (the other columns sum to 1)")
            return class_columns(view, known.request, fitting, names, None, notes)
    return None


def _only_array(known: Known) -> Scores | None:
    """Return the only array of a file, of the positive class: an .npy file holds only scores."""
    view = known.view
    if view.schema.is_table or len(view.columns) > 1 or not known.numbers:
        return None
    return positive_column(view, known.request, known.numbers[0])


def _only_column(known: Known) -> Scores | None:
    """Return the only likely column, if it is called as one of two labels; else ask."""
    if len(known.likely) != 1:
        return None
    view, at = known.view, known.likely[0]
    single = column_of_class(view, known.request, at, known.label)
    if single is None and is_thing(view.name(at)):
        return None
    if single is None and not (view.is_whole(at) and view.n_rows >= 5):
        raise unnamed_column(view, known.request, at)
    return single


def _alike(known: Known) -> Scores | None:
    """Return all likely columns, called 0, 1, 2, ... or not, if the caller says their kind."""
    if len(known.likely) < 2:
        return None
    view, request = known.view, known.request
    likely = numbered_columns(view, known.likely)
    labelled = named_like_labels(view, likely, known.label)
    if view.schema.has_names and not labelled and all(is_thing(view.name(i)) for i in likely):
        return None
    if request.kind is not None and labelled:
        likely = labelled
    check_alike(view, request, likely, known.label)
    names = without_prefix(view, likely, known.label)
    notes = _left_out(view, known.numbers, likely)
    return class_columns(view, request, likely, names, None, notes)


SCORES: tuple[Rule, ...] = (
    Rule("you named them", lambda k: _named_scores(k.view, k.request), in_arrays=True),
    Rule(
        "columns with one prefix",
        lambda k: columns_by_prefix(k.view, k.request, k.free),
        in_arrays=True,
    ),
    Rule("the only matrix", lambda k: lone_matrix(k.view, k.request, k.taken), in_arrays=True),
    Rule("columns called as your classes", _given_classes),
    Rule("columns whose rows sum to 1", _on_the_simplex),
    Rule(
        "a confidence and whether it was right",
        lambda k: event_columns(k.view, k.request, k.numbers),
    ),
    Rule(
        "one column named like a score",
        lambda k: column_by_name(k.view, k.request, k.numbers),
        in_arrays=True,
    ),
    Rule("the only array", _only_array, in_arrays=True),
    Rule("one column called as a label", _only_column),
    Rule("columns of one kind", _alike),
)
"""Tried in this order; a matrix whose name says scores is found before, as labels need it."""


def _named_scores(view: Table, request: Request) -> Scores | None:
    """Return the scores that the caller named, or None."""
    keys = {"logits": request.logits_key, "probs": request.probs_key}
    if request.score_columns is not None:
        positions = find_columns(view.schema, request.score_columns, option="score_columns")
        return _chosen(view, request, positions)
    given = [k for k in ("logits", "probs") if keys[k] is not None]
    if not given:
        return None
    kind: ScoreKind = "logits" if given[0] == "logits" else "probs"
    if len(given) > 1 and request.kind is not None:
        kind = request.kind
    key = keys[kind]
    if key is None or key not in view.schema.names:
        raise file_error(
            view.path,
            f"`{kind}_key` must name an array of the file, got {key!r}; it holds "
            f"{listing([f'`{name}`' for name in view.schema.names])}.",
        )
    position = view.schema.names.index(key)
    check_readable(view, position)
    request = request if request.input == "percent" else replace(request, input=kind)
    if view.is_kind(position, "number"):
        return positive_column(view, request, position)
    if not view.is_kind(position, "matrix"):
        raise not_numbers(view, position)
    return matrix_scores(view, request, position, kind)


def _chosen(view: Table, request: Request, positions: list[int]) -> Scores:
    """Return the scores in the columns that the caller chose."""
    if len(positions) == 1:
        if view.is_kind(positions[0], "matrix"):
            kind = kind_of(meaning_of(view.name(positions[0])))
            return matrix_scores(view, request, positions[0], kind)
        if view.is_kind(positions[0], "number"):
            return positive_column(view, request, positions[0])
    for i in positions:
        check_readable(view, i)
        if not view.is_kind(i, "number"):
            raise not_numbers(view, i)
    cut = [prefixed(view.name(i)) for i in positions]
    words = {None if c is None else c.word for c in cut}
    names = tuple(
        view.name(i) if c is None or len(words) > 1 else c.name
        for i, c in zip(positions, cut, strict=True)
    )
    by_name = kind_of(cut[0].meaning) if len(words) == 1 and cut[0] is not None else None
    return class_columns(view, request, positions, names, by_name)


def _left_out(
    view: Table, numbers: list[int], classes: list[int], *, why: str = ""
) -> tuple[str, ...]:
    """Return the note that lists the columns of numbers that are not read as classes."""
    left = [quoted(view, i) for i in numbers if i not in classes]
    return (f"not read as classes: {listing(left)}{why}",) if left else ()


def _only_confidence(view: Table, numbers: list[int]) -> PredictionFileError | None:
    """Return the error for a file that has only the predicted class and its probability."""
    fractions = [i for i in numbers if not view.is_whole(i)]
    if len(fractions) != 1 or plain(view.name(fractions[0])) not in DERIVED:
        return None
    if not any(is_prediction(c.name) or says_correct(c.name) for c in view.columns):
        return None
    return file_error(
        view.path,
        f"holds only the probability of the predicted class ({quoted(view, fractions[0])}), "
        "but those of all classes are needed. Save `model.predict_proba(X)` or the logits, one "
        "column per class.",
    )


def _no_scores(view: Table, numbers: list[int]) -> PredictionFileError:
    """Return the error for a file in which no scores were found."""
    only = _only_confidence(view, numbers)
    if only is not None:
        return only
    for i, column in enumerate(view.columns):
        if kind_of(meaning_of(column.name)) is not None and column.kind not in (
            "number",
            "matrix",
        ):
            return not_numbers(view, i, is_only=True)
    what = "columns" if view.schema.is_table else "arrays"
    fixes: list[dict[str, object]] = []
    unit = [
        i
        for i in numbers
        if view.sums([i]).in_unit and view.sums([i]).fractions and not is_thing(view.name(i))
    ]
    if unit and view.schema.is_table:
        fixes = [{"score_columns": [view.name(i) for i in unit[:50]]}]
    elif numbers and not view.schema.is_table:
        fixes = [{"logits_key": view.name(numbers[0])}, {"probs_key": view.name(numbers[0])}]
    return file_error(
        view.path,
        f"has no {what} that can be recognised as scores, by name or by values; it holds "
        f"{listing(view.schema.names) if view.columns else 'nothing'}.",
        fixes=fixes,
    )


def check_readable(view: Table, position: int) -> None:
    """Raise if the column is known to be unreadable."""
    problem = view[position].problem
    if problem is not None:
        raise problem
