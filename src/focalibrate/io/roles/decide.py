"""Which column holds the labels, which the scores: decided once for all formats."""

from dataclasses import dataclass, replace

import numpy as np

from focalibrate.io.errors import flags, listing, short
from focalibrate.io.options import Request, find_columns
from focalibrate.io.roles.diagnoses import no_labels, of_predicted_class
from focalibrate.io.roles.facts import Facts, Scores
from focalibrate.io.roles.labels import find_label, is_binary, label_by_values, label_of_outcome
from focalibrate.io.roles.scores import find_scores, named_matrix, named_scores
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

    def named(option: str) -> list[int]:
        given = getattr(request, option)
        names = given if isinstance(given, tuple) else () if given is None else (str(given),)
        return find_columns(view.schema, names, option=option)

    groups, weights, clusters = map(named, ("by", "weight_column", "cluster"))
    told: list[int] = []
    if request.wants_labels:
        told = named("label_column" if request.label_column is not None else "labels_key")
    others = [*named("ignore"), *named("id_column"), *weights, *clusters]
    label = next(iter(told), None)
    facts = Facts(view, request, frozenset([*others, *told]), label)
    scores = named_scores(facts)
    if scores is not None:
        overlap = [i for i in scores.positions if i in facts.taken]
        if overlap:
            raise facts.error(
                f"column {listing(facts.names(overlap))} cannot be scores and have another role."
            )
    else:  # a group may be read from any column, but is a class only if the caller says so
        facts = replace(facts, taken=facts.taken | set(groups))
        scores = named_matrix(facts)
    if label is None and request.wants_labels:
        label = find_label(facts, scores)
    found = facts if label is None else replace(facts, taken=facts.taken | {label}, label=label)
    if scores is None:
        scores = find_scores(found)
    notes = scores.notes
    if scores.outcome is not None:
        label = scores.outcome
    if request.wants_labels and not told and scores.class_names is not None:
        label, why = label_by_values(facts, scores, label)
        notes += why
    elif label is None and request.wants_labels and scores.form == "single":
        label = label_of_outcome(found, scores)
        if label is not None:
            scores = replace(scores, positive=request.positive)
    if label is not None and request.positive is None and scores.outcome is None:
        problem = of_predicted_class(facts, scores, label)
        if problem is not None:
            raise problem
    if label is None and request.need_labels and not request.other_labels:
        raise no_labels(facts, scores)
    used = {*found.taken, *scores.positions} | ({label} if label is not None else set())
    predicted = (i for i, c in enumerate(view.columns) if i not in used and c.is_prediction)
    return Roles(
        scores=scores,
        label=label,
        prediction=next((i for i in predicted if view.is_whole(i)), None),
        weight=next(iter(weights), None),
        groups=tuple(groups),
        cluster=next(iter(clusters), None),
        notes=(*notes, *_unused_weight(view, used), *_unused_cluster(view, request, used)),
    )


def _unused_weight(view: Table, used: set[int]) -> tuple[str, ...]:
    """Return a note if a table has a column that is named like weights but not used."""
    is_box = any(column.plain == "h" for column in view.columns)
    for i, column in enumerate(view.columns if view.schema.is_table else ()):
        if column.plain in WEIGHTS and i not in used and not (is_box and column.plain == "w"):
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
