"""Scores in columns that are chosen: their form, their kind and the names of the classes."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from focalibrate.io.errors import Doubt, listing, short
from focalibrate.io.options import find_columns
from focalibrate.io.predictions import ScoreKind
from focalibrate.io.roles.diagnoses import (
    log_probability,
    not_numbers,
    unclear_column,
    unclear_kind,
)
from focalibrate.io.roles.facts import Facts, Scores
from focalibrate.io.roles.vocabulary import (
    LOGIT,
    OPTIONS,
    PREDICTIONS,
    PROBABILITY,
    SCORE,
    outcome_of,
    plain,
    says_log_probability,
    says_percent,
)
from focalibrate.io.values.labels import is_negative


def named_scores(facts: Facts) -> Scores | None:
    """Return the scores that the caller named, or None."""
    schema, request = facts.view.schema, facts.request
    if request.score_columns is not None:
        chosen = find_columns(schema, request.score_columns, option="score_columns")
        return _chosen(facts, chosen)
    keys: dict[ScoreKind, str | None] = {"logits": request.logits_key, "probs": request.probs_key}
    given = [kind for kind, key in keys.items() if key is not None]
    if not given:
        return None
    kind = request.kind if len(given) > 1 and request.kind is not None else given[0]
    key = keys[kind]
    if key not in schema.names:
        raise facts.error(
            f"`{kind}_key` must name an array of the file, got {key!r}; it holds "
            f"{listing([f'`{name}`' for name in schema.names])}."
        )
    if request.input != "percent":
        facts = replace(facts, request=replace(request, input=kind))
    return _chosen(facts, [schema.names.index(key)])


def _chosen(facts: Facts, positions: list[int]) -> Scores:
    for i in positions:
        if (problem := facts.view[i].problem) is not None:
            raise problem
    if len(positions) > 1:
        return column_scores(facts, positions)
    if facts.view.is_kind(positions[0], "matrix"):
        return matrix_scores(facts, positions[0])
    if not facts.view.is_kind(positions[0], "number"):
        raise not_numbers(facts.view, positions[0])
    return positive_scores(facts, positions[0])


def matrix_scores(facts: Facts, position: int) -> Scores:
    """Return the scores in a matrix, an array ``[N, K]`` or a column of lists."""
    view, column = facts.view, facts.view[position]
    if len(column.shape) > 1:
        raise facts.error(
            f"`{short(column.name)}` must have shape [N, K], got "
            f"{(column.n_rows or view.n_rows, *column.shape)}. Save one row per example and one "
            "column per class."
        )
    form = "options" if column.plain in OPTIONS else "matrix"
    names, width = view.schema.class_names, max(0, column.shape[-1])
    return _settled(facts, [position], form=form, class_names=names, n_classes=width)


def column_scores(facts: Facts, positions: list[int]) -> Scores:
    """Return the scores in one column per class; none is left out, as labels would shift."""
    view = facts.view
    for i in positions:
        if not view.is_kind(i, "number"):
            raise not_numbers(view, i)
    if all(re.search(r"(^|_)(top|rank)_?\d", view[i].plain) for i in positions):
        raise facts.error(
            f"holds the probabilities by rank ({facts.quoted(positions)[0]}, ...), each row in an "
            "order of its own; one column per class is needed. Save `model.predict_proba(X)` or "
            "the logits."
        )
    names = _class_names(facts, positions) if view.schema.has_names else None
    form = {"form": "columns", "class_names": names, "n_classes": len(positions)}
    return _settled(facts, positions, **form)


NO_CLASS = ("pos", "positive", "hat", "pred", "true", "")
"""What follows the prefix of a score without naming a class."""


def positive_scores(facts: Facts, position: int) -> Scores:
    """Return the scores in one column: of the positive of two classes."""
    column, positive = facts.view[position], facts.request.positive
    cut, is_whole = column.prefix, column.plain in PROBABILITY | LOGIT
    if positive is None and cut is not None:
        is_unit = plain(cut.name) in NO_CLASS or says_percent(cut.name)
        is_class = not (is_unit or is_whole)
        positive = cut.name if is_class or cut.name in facts.label_words else None  # ``prob_-``
    outcome = outcome_of(column.name)  # ``no_prob``, ``class_0_probability``, ``P(y=0)``
    if outcome is not None and is_negative(outcome) and not is_negative(positive or ""):
        positive = facts.request.positive or outcome
    return _settled(facts, [position], form="single", positive=positive, n_classes=2)


OPPOSITE = {"1": "0", "true": "false", "yes": "no"}
"""Names of a positive class that are names of a score where the other class has no column."""


def _settled(facts: Facts, positions: Sequence[int], **of_form: Any) -> Scores:
    """Return scores, once the caller, their names or every row say of which kind they are."""
    kind, notes = _kind(facts, positions, of_form["form"])
    is_percent = facts.request.input == "percent"
    return Scores(
        positions=tuple(positions), kind=kind, percent=is_percent, notes=notes, **of_form
    )


def _kind(facts: Facts, positions: Sequence[int], form: str) -> tuple[ScoreKind, tuple[str, ...]]:
    """Return the kind of scores, and what is to be said about it; raise where nothing shows it."""
    sums, told, what = facts.view.sums(positions), facts.request.kind, facts.text(positions)
    column, prefix = facts.view[positions[0]], facts.prefix_of(positions)
    kind = told or (None if form == "columns" else column.score_kind)
    if kind is None and prefix is not None and form != "matrix":
        kind = prefix.kind
    says_log = form == "single" and kind != "probs" and says_log_probability(column.name)
    if says_log and not (facts.view.values(positions[0]) > 0).any():
        raise log_probability(facts, positions[0])
    if told is None and form == "single" and kind != "logits":
        _check_not_percent(facts, positions[0])
    if kind is None and form == "single":
        says_score = column.plain in SCORE | PREDICTIONS | OPPOSITE.keys() or prefix
        if not (sums.in_unit and sums.fractions and says_score):
            raise unclear_column(facts, positions[0])
        return "probs", (
            f"{what} is read as probabilities because all values lie in [0, 1]; if these are "
            "margins, pass --input logits",
        )
    if kind is None and not sums.on_simplex:
        raise unclear_kind(facts, positions)
    if kind is None:
        return "probs", (f"probabilities because all rows of {what} lie in [0, 1] and sum to 1",)
    is_single = form == "single"
    is_odd = sums.fractions and (sums.in_unit if is_single else sums.on_simplex)
    if kind != "logits" or not is_odd or (told is None and not is_single and sums.worst >= 1e-3):
        return kind, ()
    by = "as requested" if told is not None else "as the name says"
    rest = "" if is_single else " and every row sums to 1"
    doubt = Doubt(
        f"WARNING: {what}: read as logits, {by}, but all values lie in [0, 1]{rest}, as "
        "probabilities do; if they are probabilities, pass --input probs"
    )
    return kind, (doubt,)


def _check_not_percent(facts: Facts, position: int) -> None:
    """Raise where a column is called percentages, but all values lie in [0, 1].

    So do percentages of what is rare. Cells with a sign (0.4%) are read by it.
    """
    view = facts.view
    if not (says_percent(view.name(position)) and view.sums([position]).in_unit):
        return
    if not (view.is_written(position) and any("%" in c for c in view.cells(position) if c)):
        raise facts.error(
            f"{facts.text([position])} is called percentages, but all values lie in [0, 1], as "
            "probabilities and percentages below 1 % do. Say which they are.",
            fixes=[{"input": "percent"}, {"input": "probs"}],
        )


def cut_names(facts: Facts, positions: Sequence[int]) -> tuple[str, ...]:
    """Return what follows the prefixes of columns that have one."""
    cut = (facts.view[i].prefix for i in positions)
    return tuple(c.name for c in cut if c is not None)


def _class_names(facts: Facts, positions: Sequence[int]) -> tuple[str, ...]:
    """Return the class names: those of the columns, without a prefix that all share.

    Where the labels repeat the whole names, such as ``class_0``, the prefix stays.
    """
    view = facts.view
    whole = tuple(name.strip() for name in facts.names(positions))
    if facts.prefix_of(positions) is None:
        return whole
    for i, column in enumerate(view.columns):
        may_be = i == facts.label if facts.label is not None else not column.is_prediction
        is_text = i not in positions and column.kind == "text" and column.problem is None
        if may_be and is_text and set(view.values(i).tolist()) <= set(whole):
            return whole
    return cut_names(facts, positions)
