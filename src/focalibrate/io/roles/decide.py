"""Which column holds the labels, which the scores: decided once for all formats."""

from dataclasses import dataclass, replace

import numpy as np

from focalibrate.io.errors import PredictionFileError, file_error, flags, listing, short
from focalibrate.io.options import NO_LABELS, Request, find_columns
from focalibrate.io.roles.kind import Scores
from focalibrate.io.roles.labels import (
    find_label,
    is_binary,
    label_by_values,
    label_of_outcome,
    no_labels,
)
from focalibrate.io.roles.matrix import find_matrix
from focalibrate.io.roles.scores import find_scores
from focalibrate.io.roles.vocabulary import (
    WEIGHTS,
    is_cluster,
    is_label,
    is_prediction,
    is_thing,
    plain,
)
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
        ids: columns that name the rows.
        notes: what the user should know about these decisions.
    """

    scores: Scores
    label: int | None
    prediction: int | None
    weight: int | None
    groups: tuple[int, ...]
    cluster: int | None
    ids: tuple[int, ...]
    notes: tuple[str, ...]


def resolve_roles(view: Table, request: Request) -> Roles:
    """Return the role of every column: given by the caller, or found by name and values.

    Raises:
        PredictionFileError: if the roles are not certain, with the options that settle them.
    """
    _check_readable(view, request)
    named = _named(view, request)
    scores = named.scores or find_matrix(view, request, named.taken)
    label = named.label
    if label is None and request.wants_labels:
        label = find_label(view, named.taken, scores)
    taken = named.taken | ({label} if label is not None else set())
    if scores is None:
        scores = find_scores(view, request, taken, label)
    if scores.outcome is not None:
        label = scores.outcome
    notes = [*scores.notes]
    if request.wants_labels and named.label is None and scores.class_names is not None:
        label, why = label_by_values(view, scores, named.taken, label)
        notes += why
    elif label is None and request.wants_labels and scores.form == "single":
        label = label_of_outcome(view, scores, taken)
        if label is not None:
            scores = replace(scores, positive=request.positive)
    if not view.schema.is_table:
        _check_rows(view, scores)
    if label is not None and request.positive is None and scores.outcome is None:
        _check_not_of_predicted(view, scores, label)
    if label is None and request.need_labels and not request.other_labels:
        if {"image_id", "category_id", "bbox"} <= set(view.schema.names):
            raise file_error(
                view.path,
                "holds detections, and the objects that they should find are in another file. "
                "Pass it as `truth='instances.json'` (command line: --truth instances.json).",
            )
        raise no_labels(view, scores)
    used = {*taken, *scores.positions} | ({label} if label is not None else set())
    return Roles(
        scores=scores,
        label=label,
        prediction=_find_prediction(view, used),
        weight=named.weight,
        groups=named.groups,
        cluster=named.cluster,
        ids=named.ids,
        notes=(*notes, *_unused_weight(view, used), *_unused_cluster(view, request, used)),
    )


LEAST_ROWS = 20
"""In fewer rows it is no surprise that every probability is above a half."""


def _check_not_of_predicted(view: Table, scores: Scores, label: int) -> None:
    """Raise if one column holds the probability of the predicted class, whichever that is.

    It is so if it is never below a half, and a column of predictions has two classes whose
    probabilities overlap: no threshold explains these predictions.
    """
    if scores.form != "single" or scores.kind != "probs" or scores.percent:
        return
    at = scores.positions[0]
    values = view.values(at)
    if values.ndim != 1 or len(values) < LEAST_ROWS or not (values >= 0.5).all():
        return
    for i, column in enumerate(view.columns):
        may_be = is_prediction(column.name) or is_label(column.name)
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
            raise _of_predicted(view.name(at), view.name(i), classes[1], view)


def _of_predicted(score: str, pred: str, positive: object, view: Table) -> PredictionFileError:
    shown = repr(int(positive)) if isinstance(positive, (int, float)) else repr(positive)
    name = f"prob_{positive if isinstance(positive, str) else shown}"
    return file_error(
        view.path,
        f'"{short(score)}" holds the probability of the predicted class, "{short(pred)}": it is '
        "at least 0.5 in every row. That of one class is needed. With pandas: "
        f"`df[{name!r}] = df[{score!r}].where(df[{pred!r}] == {shown}, 1 - df[{score!r}])`.",
    )


def _find_prediction(view: Table, used: set[int]) -> int | None:
    """Return the first column of predicted classes, or None."""
    for i, column in enumerate(view.columns):
        may_be_classes = view.is_kind(i, "number", "text", "bool")
        if i not in used and is_prediction(column.name) and may_be_classes and view.is_whole(i):
            return i
    return None


def _unused_weight(view: Table, used: set[int]) -> tuple[str, ...]:
    """Return a note if a table has a column that is named like weights but not used."""
    if not view.schema.is_table:
        return ()
    for i, column in enumerate(view.columns):
        is_width = plain(column.name) == "w" and "h" in map(plain, view.schema.names)
        if plain(column.name) in WEIGHTS and i not in used and not is_width:
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
        if (
            not is_free
            or is_binary(view, i)
            or is_prediction(column.name)
            or is_label(column.name)
        ):
            continue
        if column.kind == "number" and not view.is_whole(i):
            continue
        counts = np.unique(view.values(i).astype(str), return_counts=True)[1]
        is_repeated = LEAST_CLUSTERS <= len(counts) <= 0.9 * view.n_rows
        is_even = counts.min() == counts.max() and not is_thing(column.name)
        if is_repeated and (is_cluster(column.name) or is_even):
            name = short(column.name)
            fix = " ".join(flags({"cluster": column.name}))
            return (
                f'"{name}" has {len(counts):,} values in {view.n_rows:,} rows: if rows of one '
                f"{name} belong together, pass {fix}",
            )
    return ()


@dataclass(frozen=True)
class _Named:
    """What the caller named."""

    scores: Scores | None
    label: int | None
    weight: int | None
    groups: tuple[int, ...]
    cluster: int | None
    ids: tuple[int, ...]
    taken: frozenset[int]


def _named(view: Table, request: Request) -> _Named:
    schema = view.schema
    ignored = find_columns(schema, request.ignore, option="ignore")
    ids = find_columns(schema, request.id_columns, option="id_column")
    groups = find_columns(schema, request.by, option="by")
    weight = None
    if request.weight_column is not None:
        weight = find_columns(schema, [request.weight_column], option="weight_column")[0]
    label = _named_label(view, request)
    named = {*ignored, *ids}
    cluster = None
    if request.cluster is not None:
        cluster = find_columns(schema, [request.cluster], option="cluster")[0]
        named.add(cluster)
    if weight is not None:
        named.add(weight)
    if label is not None:
        named.add(label)
    taken = frozenset(named)
    scores = None
    if request.score_columns is not None or request.logits_key or request.probs_key:
        scores = find_scores(view, request, set(taken), label)
        overlap = [view.name(i) for i in scores.positions if i in taken]
        if overlap:
            raise file_error(
                view.path,
                f"column {listing(overlap)} cannot be scores and have another role.",
            )
    elif groups:
        # A group may be read from any column, but is a class only if the caller says so.
        taken = frozenset({*taken, *groups})
    return _Named(scores, label, weight, tuple(groups), cluster, tuple(ids), taken)


def _named_label(view: Table, request: Request) -> int | None:
    if request.other_labels or request.label_column == NO_LABELS:
        return None
    wanted, option = request.label_column, "label_column"
    if request.labels_key is not None and wanted is None:
        wanted, option = request.labels_key, "labels_key"
    if wanted is None:
        return None
    return find_columns(view.schema, [str(wanted)], option=option)[0]


def _check_readable(view: Table, request: Request) -> None:
    """Raise if a column of a table, or an array that is needed by its name, is unreadable.

    A table's column is never left out silently: it could be a class.
    """
    for column in view.columns:
        is_needed = view.schema.is_table or plain(column.name) in ("logits", "probs", "labels")
        if column.problem is not None and is_needed and column.name not in request.ignore:
            raise column.problem


def _check_rows(view: Table, scores: Scores) -> None:
    """Raise where the arrays of one file have different numbers of rows."""
    sizes = {view[i].n_rows for i in scores.positions}
    if len(sizes) > 1:
        raise file_error(
            view.path,
            f"score arrays must have the same number of rows, got {listing(list(sizes))}.",
        )
