"""Which columns are the scores: an ordered table of rules over the facts."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from focalibrate.io.cells import find_runs, is_numbering
from focalibrate.io.errors import Doubt, flags, listing
from focalibrate.io.roles.chosen import column_scores, positive_scores
from focalibrate.io.roles.diagnoses import (
    LEAST_ROWS,
    boxes_of_yolo,
    no_scores,
    outcomes_beside,
    unclear_column,
    unclear_kind,
)
from focalibrate.io.roles.facts import Facts, Scores
from focalibrate.io.roles.named import (
    event_columns,
    lone_matrix,
    matrices,
    named_column,
    prefixed_columns,
    says_score,
)

Rule: TypeAlias = Callable[[Facts], Scores | None]
"""One way to find the scores: None where it does not apply; an error where several answers fit."""


def find_scores(facts: Facts) -> Scores:
    """Return the scores that the first rule of `SCORES` finds."""
    boxes = boxes_of_yolo(facts)
    if boxes is not None:
        raise boxes
    for rule in SCORES:
        if facts.view.schema.is_table or rule not in OF_TABLES:
            found = rule(facts)
            if found is not None:
                return with_left_out(facts, found, is_sure=rule not in BY_VALUE)
    raise no_scores(facts)


def with_left_out(facts: Facts, scores: Scores, *, is_sure: bool = True) -> Scores:
    """Return scores with a note of what is not read: what is called scores, or all numbers."""
    view, is_columns = facts.view, scores.form == "columns"
    used = {*scores.positions, scores.outcome}
    rest = [i for i in (*facts.numbers, *matrices(facts)) if i not in used]
    left = [i for i in rest if not is_sure or says_score(facts, i) is not None]
    if not left or not view.schema.has_names:
        return scores
    why = " (the other columns sum to 1)" if not is_sure and scores.kind == "probs" else ""
    what = "classes" if is_columns else "scores"
    note = f"not read as {what}: {listing(facts.quoted(left))}{why}"
    return replace(scores, notes=(note, *scores.notes))


def _given_classes(facts: Facts) -> Scores | None:
    expected = facts.request.class_names or ()
    named = [i for i in facts.numbers if facts.view.name(i).strip() in set(expected)]
    return column_scores(facts, named) if len(named) == len(expected) > 1 else None


def _on_the_simplex(facts: Facts) -> Scores | None:
    """Return the columns whose rows sum to 1: of the likely ones, else of all."""
    view = facts.view
    for candidates in (facts.likely, facts.numbers):
        fitting = _with_sum_1(facts, candidates) if len(candidates) > 1 else None
        if fitting is None:
            continue
        rest = [i for i in facts.likely if i not in fitting and not view.is_whole(i)]
        if rest and facts.request.kind == "logits":
            return None  # they are no logits, and others may be
        if view.schema.has_names and facts.request.kind is None:
            _check_no_rivals(facts, fitting, rest)
        found = column_scores(facts, fitting)
        return replace(found, notes=(*found.notes, *_never_probable(facts, fitting)))
    return None


def _with_sum_1(facts: Facts, candidates: list[int]) -> list[int] | None:
    """Return those of the `candidates` whose rows sum to 1: all, or neighbours; else None."""
    view = facts.view
    if view.sums(candidates).on_simplex:
        _check_needed(facts, candidates)
        return candidates
    bounded = [i for i in candidates if view.sums([i]).in_unit]
    named = [i for i in bounded if facts.called_as_label(i)]
    if not facts.label_words <= {view.name(i).strip() for i in named}:
        named = []
    for some in (bounded if len(bounded) < len(candidates) else [], named):
        if len(some) > 1 and view.sums(some).on_simplex and view.sums(some).fractions:
            return some
    runs = find_runs([view.values(i) for i in bounded]) if len(bounded) > 1 else []
    sets = [bounded[first : last + 1] for first, last in runs]
    if len(sets) > 1:
        raise facts.which("sets of columns that sum to 1 in every row", sets)
    return sets[0] if sets else None


def _check_needed(facts: Facts, classes: list[int]) -> None:
    """Raise where whole numbers, all 0, stand beside fractions that sum to 1 without them."""
    view = facts.view
    if not view.schema.has_names or _are_numbered(facts, classes):
        return
    zeros = [
        i
        for i in classes
        if not facts.called_as_label(i) and view[i].prefix is None and _is_whole_zero(facts, i)
    ]
    rest = [i for i in classes if i not in zeros]
    if zeros and len(rest) > 1 and view.sums(rest).fractions:
        what = "column {} holds" if len(zeros) == 1 else "columns {} hold"
        raise facts.error(
            f"{what.format(listing(facts.quoted(zeros)))} the whole number 0 in the first rows, "
            "and the others sum to 1 alone. Say which columns are classes.",
            fixes=[{"score_columns": facts.names(some)} for some in (rest, classes)],
        )


def _never_probable(facts: Facts, classes: list[int]) -> Iterator[Doubt]:
    """Yield a warning for columns of fractions, all 0, that no label names: maybe no classes."""
    view = facts.view
    if not view.schema.has_names or _are_numbered(facts, classes) or view.n_rows < LEAST_ROWS:
        return
    zeros = [
        i
        for i in classes
        if not facts.called_as_label(i) and view[i].prefix is None and not view.values(i).any()
    ]
    if 0 < len(zeros) < len(classes) / 2:
        names = facts.names(zeros)
        yield Doubt(
            "WARNING: read as a class, but 0 in all of the first rows: "
            f"{listing(facts.quoted(zeros))}. The other columns sum to 1 alone; if it is none, "
            f"pass {' '.join(flags({'ignore': names}))}"
        )


def _is_whole_zero(facts: Facts, position: int) -> bool:
    """Return whether a column is 0 everywhere and is stored, or written, as whole numbers."""
    values = facts.view.values(position)
    if (values != 0).any():
        return False
    if facts.view.has_cells:
        cells = set(facts.view.cells(position))
        return all(cell.strip().lstrip("+-").isdigit() for cell in cells)
    return bool(values.dtype.kind in "iu")


def _check_no_rivals(facts: Facts, classes: list[int], rest: list[int]) -> None:
    """Raise where other columns than `classes`, which sum to 1, fit the labels better.

    Sand, silt and clay sum to 1, too, beside the logits of three classes.
    """
    view, rivals = facts.view, list[int]()
    if facts.label_words:
        labelled = facts.named_like_labels([*classes, *rest])
        rivals = [] if set(labelled) & set(classes) else labelled
    else:
        shown = _n_classes(facts, len(classes))
        scores = [i for i in rest if view[i].score_kind is not None]
        if shown == len(rest) > 1 and any(view.sums([i]).negative for i in rest):
            rivals = rest
        elif shown == 2 < len(classes) and len(scores) == 1:
            rivals = scores
    if rivals:
        raise facts.which(
            "sets of columns that could be the classes, those that sum to 1 and those that fit "
            "the labels",
            [classes, rivals],
            facts.choices(rivals, classes),
        )


def _n_classes(facts: Facts, n_columns: int) -> int | None:
    """Return how many classes whole numbers as labels show, or None.

    None: there are no such labels, or too few rows to show all of so many classes.
    """
    view, label = facts.view, facts.label
    if label is None or view.is_kind(label, "text", "matrix") or view.n_rows < 5 * n_columns:
        return None
    shown = view.values(label)
    if shown.dtype.kind not in "biuf":
        return None
    return int((np.unique(shown.astype(np.float64)) >= 0).sum())


def _only_column(facts: Facts) -> Scores | None:
    """Return the only array of a file, or the only likely column, called as one of two labels."""
    view, told = facts.view, facts.request
    if not view.schema.is_table:  # an .npy file holds only scores
        is_only = len(view.columns) == 1 and facts.numbers
        return positive_scores(facts, facts.numbers[0]) if is_only else None
    if len(facts.likely) != 1:
        return None
    at = facts.likely[0]
    is_unit = told.kind != "logits" and view.sums([at]).in_unit
    if len(facts.label_words) == 2 and facts.called_as_label(at) and is_unit:
        found = positive_scores(replace(facts, request=replace(told, input="probs")), at)
        return replace(found, positive=told.positive or view.name(at).strip())
    if not view[at].is_thing and not (view.is_whole(at) and view.n_rows >= 5):
        raise unclear_column(facts, at)
    return None


def _alike(facts: Facts) -> Scores | None:
    """Return all likely columns, called 0, 1, 2, ... or not, if the caller says their kind."""
    if len(facts.likely) < 2:
        return None
    view, likely = facts.view, facts.likely
    numbered = [i for i in likely if view.name(i).strip().removesuffix(".0").isdigit()]
    if view.schema.has_names and len(numbered) > 1 and _are_numbered(facts, numbered):
        likely = numbered
    labelled = facts.named_like_labels(likely)
    if view.schema.has_names and not labelled and all(view[i].is_thing for i in likely):
        return None
    if facts.request.kind is not None and labelled:
        likely = labelled
    _check_alike(facts, likely)
    return column_scores(facts, likely)


def _are_numbered(facts: Facts, positions: Sequence[int]) -> bool:
    """Return whether columns are called 0, 1, 2, ... as in pandas."""
    return is_numbering([name.strip() for name in facts.names(positions)])


def _check_alike(facts: Facts, likely: list[int]) -> None:
    """Raise where one of the columns may not be a class: nothing but its numbers says that."""
    view = facts.view
    labelled, shown = facts.named_like_labels(likely), _n_classes(facts, len(likely))
    is_named = view.schema.has_names and not _are_numbered(facts, likely)
    if is_named and facts.prefix_of(likely) is None and 2 <= (shown or 0) < len(likely):
        rest = [i for i in likely if not view[i].is_thing]
        raise facts.error(
            f"the labels show {shown} classes, but {len(likely)} columns of numbers could be "
            f"classes: {listing([name.strip() for name in facts.names(likely)])}. Say which are "
            "classes: `score_columns` (command line: --score-columns).",
            fixes=facts.choices(rest) if len(rest) == shown else (),
        )
    # In fewer than 5 rows, logits may all be whole.
    whole = [i for i in likely if is_named and view.is_whole(i)]
    if 0 < len(whole) < len(likely) and view.sums(likely).n_rows >= 5:
        rest = labelled or [i for i in likely if i not in whole]
        many = len(whole) > 1
        are_probs = view.sums(rest).on_simplex or (len(rest) == 1 and view.sums(rest).in_unit)
        raise outcomes_beside(facts, whole, rest) or facts.error(
            f"column{'s' if many else ''} {listing(facts.quoted(whole))} "
            f"{'hold' if many else 'holds'} whole numbers only, unlike the others, so "
            f"{'they' if many else 'it'} may not be classes. Say which columns are classes.",
            fixes=facts.choices(rest, *([] if are_probs else [likely])),
        )
    if facts.request.kind is None and 0 < len(labelled) < len(likely):
        others = [i for i in likely if i not in labelled]
        raise facts.error(
            f"no label is called {listing(facts.quoted(others))}, unlike the other columns of "
            "numbers. Say which columns are classes.",
            fixes=facts.choices(labelled, likely),
        )
    if facts.request.kind is None:
        raise unclear_kind(facts, likely)


SCORES: tuple[Rule, ...] = (
    prefixed_columns,
    lone_matrix,
    _given_classes,
    _on_the_simplex,
    event_columns,
    named_column,
    _only_column,
    _alike,
)
"""Tried in this order. What the caller names, and then a matrix whose name says scores, are found
before, as labels need them."""


OF_TABLES = (_given_classes, _on_the_simplex, event_columns, _alike)
"""Rules that compare columns, which arrays of any shape are not."""


BY_VALUE = (_on_the_simplex, _alike)
"""Rules for columns whose names do not say that they are scores."""
