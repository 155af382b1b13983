"""Which column holds the labels, which the scores: decided once for all formats."""

from dataclasses import dataclass, replace

import numpy as np

from focalibrate.io.errors import flags, listing, short
from focalibrate.io.options import Request, find_columns
from focalibrate.io.roles.facts import Facts, Scores
from focalibrate.io.roles.labels import (
    find_label,
    is_binary,
    label_by_values,
    label_of_outcome,
    no_labels,
)
from focalibrate.io.roles.matrix import find_matrix
from focalibrate.io.roles.scores import find_scores, named_scores
from focalibrate.io.roles.vocabulary import WEIGHTS, is_cluster
from focalibrate.io.table import Table


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Positions of the columns by role; all other columns are ignored.

    Attributes:
        scores: which columns are the scores, of which kind and classes.
        label: the true class.
        prediction: the predicted class, used to check the scores.
        weight: weights of the examples.
        groups: columns to group by.
        cluster: the column whose rows belong together.
        notes: what the user should know about these decisions.
    """

    scores: Scores
    label: int | None
    prediction: int | None
    weight: int | None
    groups: tuple[int, ...]
    cluster: int | None
    notes: tuple[str, ...]


def resolve_roles(view: Table, request: Request) -> Roles:
    """Return the role of every column: given by the caller, or found by name and values.

    Raises:
        PredictionFileError: if the roles are not certain, with the options that settle them.
    """
    _check_readable(view, request)

    def named(option: str, *names: object) -> list[int]:
        given = [str(name) for name in names if name is not None]
        return find_columns(view.schema, given, option=option)

    groups = named("by", *request.by)
    weight = next(iter(named("weight_column", request.weight_column)), None)
    cluster = next(iter(named("cluster", request.cluster)), None)
    label = None
    if request.wants_labels:
        key = None if request.label_column is not None else request.labels_key
        told = [*named("label_column", request.label_column), *named("labels_key", key)]
        label = next(iter(told), None)
    is_told = label is not None
    taken = {*named("ignore", *request.ignore), *named("id_column", *request.id_column)}
    taken |= {i for i in (weight, cluster, label) if i is not None}
    facts = Facts(view, request, frozenset(taken), label)
    scores = named_scores(facts)
    if scores is not None:
        overlap = [i for i in scores.positions if i in taken]
        if overlap:
            raise facts.error(
                f"column {listing(facts.names(overlap))} cannot be scores and have another role."
            )
    else:  # a group may be read from any column, but is a class only if the caller says so
        facts = replace(facts, taken=facts.taken | set(groups))
        scores = find_matrix(facts)
    found = facts
    if label is None and request.wants_labels:
        label = find_label(facts, scores)
        found = replace(
            facts, taken=facts.taken | {i for i in (label,) if i is not None}, label=label
        )
    if scores is None:
        scores = find_scores(found)
    label, notes = label if scores.outcome is None else scores.outcome, scores.notes
    if request.wants_labels and not is_told and scores.class_names is not None:
        label, why = label_by_values(facts, scores, label)
        notes += why
    elif label is None and request.wants_labels and scores.form == "single":
        label = label_of_outcome(found, scores)
        if label is not None:
            scores = replace(scores, positive=request.positive)
    if not view.schema.is_table:
        _check_rows(facts, scores)
    if label is not None and request.positive is None and scores.outcome is None:
        _check_not_of_predicted(facts, scores, label)
    if label is None and request.need_labels and not request.other_labels:
        raise no_labels(facts, scores)
    used = {*found.taken, *scores.positions} | ({label} if label is not None else set())
    return Roles(
        scores=scores,
        label=label,
        prediction=_find_prediction(view, used),
        weight=weight,
        groups=tuple(groups),
        cluster=cluster,
        notes=(*notes, *_unused_weight(view, used), *_unused_cluster(view, request, used)),
    )


LEAST_ROWS = 20
"""In fewer rows it is no surprise that every probability is above a half."""


def _check_not_of_predicted(facts: Facts, scores: Scores, label: int) -> None:
    """Raise if one column holds the probability of the predicted class, whichever that is.

    It is so if it is never below a half, and a column of predictions has two classes whose
    probabilities overlap: no threshold explains these predictions.
    """
    if scores.form != "single" or scores.kind != "probs" or scores.percent:
        return
    view, at = facts.view, scores.positions[0]
    values = view.values(at)
    if values.ndim != 1 or len(values) < LEAST_ROWS or not (values >= 0.5).all():
        return
    for i, column in enumerate(view.columns):
        may_be = column.is_prediction or column.is_label
        if i in (label, at) or not may_be or column.n_rows not in (None, len(values)):
            continue
        if not view.is_kind(i, "number", "text", "bool") or not view.is_whole(i):
            continue
        predicted = view.values(i).tolist()
        classes = sorted(set(predicted), key=str)
        if len(classes) != 2:
            continue
        one, other = (values[[p == c for p in predicted]] for c in classes)
        if one.min() <= other.max() and other.min() <= one.max():
            score, pred, positive = view.name(at), column.name, classes[1]
            is_number = isinstance(positive, (int, float))
            shown = repr(int(positive)) if is_number else repr(positive)
            name = f"prob_{positive if isinstance(positive, str) else shown}"
            raise facts.error(
                f'"{short(score)}" holds the probability of the predicted class, '
                f'"{short(pred)}": it is at least 0.5 in every row. That of one class is needed. '
                f"With pandas: `df[{name!r}] = df[{score!r}].where(df[{pred!r}] == {shown}, "
                f"1 - df[{score!r}])`."
            )


def _find_prediction(view: Table, used: set[int]) -> int | None:
    """Return the first column of predicted classes, or None."""
    for i, column in enumerate(view.columns):
        may_be_classes = view.is_kind(i, "number", "text", "bool")
        if i not in used and column.is_prediction and may_be_classes and view.is_whole(i):
            return i
    return None


def _unused_weight(view: Table, used: set[int]) -> tuple[str, ...]:
    """Return a note if a table has a column that is named like weights but not used."""
    names = {column.plain for column in view.columns}
    for i, column in enumerate(view.columns if view.schema.is_table else ()):
        is_width = column.plain == "w" and "h" in names
        if column.plain in WEIGHTS and i not in used and not is_width:
            name = short(column.name)
            return (f'column "{name}" is not used; pass --weight-column to weight the examples',)
    return ()


LEAST_CLUSTERS = 20
"""Fewer values than this are groups to compare, not a sample of clusters."""


def _unused_cluster(view: Table, request: Request, used: set[int]) -> tuple[str, ...]:
    """Return a note if the values of a column repeat as those of an id do, and it is not used."""
    if not view.schema.is_table or request.cluster is not None or not request.need_labels:
        return ()
    for i, column in enumerate(view.columns):
        is_free = i not in used and column.kind in ("text", "number") and column.problem is None
        is_class = column.is_prediction or column.is_label
        if not is_free or is_class or is_binary(view, i) or not view.is_whole(i):
            continue
        counts = np.unique(view.values(i).astype(str), return_counts=True)[1]
        is_repeated = LEAST_CLUSTERS <= len(counts) <= 0.9 * view.n_rows
        is_even = counts.min() == counts.max() and not column.is_thing
        if column.name.strip().lower() == "id":  # meant to be unique: any that repeats is said
            is_repeated, is_even = LEAST_CLUSTERS <= len(counts) < view.n_rows, True
        if is_repeated and (is_cluster(column.name) or is_even):
            name = short(column.name)
            fix = " ".join(flags({"cluster": column.name}))
            return (
                f'"{name}" has {len(counts):,} values in {view.n_rows:,} rows: if rows of one '
                f"{name} belong together, pass {fix}",
            )
    return ()


def _check_readable(view: Table, request: Request) -> None:
    """Raise if a column of a table, or an array that is needed by its name, is unreadable.

    A table's column is never left out silently: it could be a class.
    """
    for column in view.columns:
        is_needed = view.schema.is_table or column.plain in ("logits", "probs", "labels")
        if column.problem is not None and is_needed and column.name not in request.ignore:
            raise column.problem


def _check_rows(facts: Facts, scores: Scores) -> None:
    """Raise where the arrays of one file have different numbers of rows."""
    sizes = {facts.view[i].n_rows for i in scores.positions}
    if len(sizes) > 1:
        raise facts.error(
            f"score arrays must have the same number of rows, got {listing(list(sizes))}."
        )
