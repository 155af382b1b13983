"""Which column holds the labels, which the scores: decided once for all formats."""

from dataclasses import dataclass, replace

import numpy as np

from focalibrate.io._error import PredictionFileError, file_error, listing, short
from focalibrate.io._request import NO_LABELS, Request, find_columns
from focalibrate.io._score_kind import Scores
from focalibrate.io._score_matrix import find_matrix
from focalibrate.io._score_roles import find_scores
from focalibrate.io._view import View
from focalibrate.io._vocabulary import (
    LABELS_SHOWN,
    WEIGHTS,
    is_id,
    is_label,
    is_prediction,
    outcome_of,
    plain,
)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Positions of the columns by role; all other columns are ignored.

    Attributes:
        scores: which columns are the scores, of which kind and classes.
        label: the true class.
        prediction: the predicted class, used to check the scores.
        weight: weights of the examples.
        groups: columns to group by.
        ids: columns that name the rows.
        notes: what the user should know about these decisions.
    """

    scores: Scores
    label: int | None
    prediction: int | None
    weight: int | None
    groups: tuple[int, ...]
    ids: tuple[int, ...]
    notes: tuple[str, ...]


def resolve_roles(view: View, request: Request) -> Roles:
    """Return the role of every column: given by the caller, or found by name and values.

    Raises:
        PredictionFileError: if the roles are not certain, with the options that settle them.
    """
    frame = view.frame
    _check_readable(view, request)
    told = _told(view, request)
    scores = told.scores or find_matrix(view, request, told.taken)
    label = told.label
    if label is None and request.wants_labels:
        label = _find_label(view, told.taken, scores)
    taken = told.taken | ({label} if label is not None else set())
    if scores is None:
        scores = find_scores(view, request, taken, label)
    notes = [*scores.notes]
    if label is None and request.wants_labels and scores.form == "columns":
        label = _label_by_values(view, scores, taken)
        if label is not None:
            taken = taken | {label}
            name = short(view.name(label))
            notes.append(f'labels are in "{name}" because all its values are names of classes')
    if label is None and request.wants_labels and scores.form == "single":
        label = _label_of_outcome(view, scores, taken)
        if label is not None:
            taken = taken | {label}
            scores = replace(scores, positive=request.positive)
    if not frame.is_table:
        _check_rows(view, scores)
    if label is None and request.need_labels and not request.other_labels:
        raise _no_labels(view, scores)
    prediction = next(
        (
            i
            for i, column in enumerate(frame.columns)
            if is_prediction(column.name)
            and i not in {*taken, *scores.positions}
            and view.is_kind(i, "number", "text", "bool")
            and view.is_whole(i)
        ),
        None,
    )
    unused = [
        column.name
        for i, column in enumerate(frame.columns)
        if plain(column.name) in WEIGHTS and i not in taken and i not in scores.positions
    ]
    if unused and frame.is_table:
        notes.append(
            f'column "{short(unused[0])}" is not used; pass --weight-column to weight the examples'
        )
    return Roles(
        scores=scores,
        label=label,
        prediction=prediction,
        weight=told.weight,
        groups=told.groups,
        ids=told.ids,
        notes=tuple(notes),
    )


@dataclass(frozen=True)
class _Told:
    """What the caller named."""

    scores: Scores | None
    label: int | None
    weight: int | None
    groups: tuple[int, ...]
    ids: tuple[int, ...]
    taken: frozenset[int]


def _told(view: View, request: Request) -> _Told:
    frame = view.frame
    ignored = find_columns(frame, request.ignore, option="ignore")
    ids = find_columns(frame, request.id_columns, option="id_column")
    groups = find_columns(frame, request.by, option="by")
    weight = None
    if request.weight_column is not None:
        weight = find_columns(frame, [request.weight_column], option="weight_column")[0]
    label = _told_label(view, request)
    named = {*ignored, *ids}
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
    return _Told(scores, label, weight, tuple(groups), tuple(ids), taken)


def _told_label(view: View, request: Request) -> int | None:
    if request.other_labels or request.label_column == NO_LABELS:
        return None
    wanted, option = request.label_column, "label_column"
    if request.labels_key is not None and wanted is None:
        wanted, option = request.labels_key, "labels_key"
    if wanted is None:
        return None
    return find_columns(view.frame, [str(wanted)], option=option)[0]


def _check_readable(view: View, request: Request) -> None:
    """Raise if a column of a table, or an array that is needed by its name, is unreadable.

    A table's column is never left out silently: it could be a class.
    """
    for i, column in enumerate(view.frame.columns):
        is_needed = view.frame.is_table or plain(column.name) in ("logits", "probs", "labels")
        if column.problem is not None and is_needed and column.name not in request.ignore:
            view.raise_problem(i)


def _find_label(view: View, taken: frozenset[int], scores: Scores | None) -> int | None:
    """Return the column of the true class by its name, or None."""
    frame = view.frame
    if not frame.has_names:
        return None
    score_positions = set() if scores is None else set(scores.positions)
    free = [i for i in range(len(frame.columns)) if i not in taken and i not in score_positions]
    names = {plain(frame.columns[i].name) for i in free if view.is_kind(i, "number")}
    exact = [i for i in free if is_label(view.name(i))]
    if {"true", "false"} <= names:  # the classes of `columns=clf.classes_`
        exact = [i for i in exact if plain(view.name(i)) != "true"]
    found = [i for i in exact if _may_be_label(view, i)]
    if len(found) > 1:
        found = [i for i in found if not _is_list_of_classes(view, i)] or found
    if len(found) > 1 and not frame.is_table and scores is not None:
        found = _same_rest(view, found, scores) or found
    if not found:
        parts = {"label", "labels", "target", "targets", "truth"}
        if not frame.is_table:
            parts.add("y")
        loose = [
            i
            for i in free
            if parts & set(plain(view.name(i)).split("_"))
            and not is_prediction(view.name(i))
            and not any(p.startswith("pred") for p in plain(view.name(i)).split("_"))
            and view.is_kind(i, "number", "text", "bool")
            and _may_be_label(view, i)
        ]
        found = _same_rest(view, loose, scores) if scores is not None else loose
    if len(found) <= 1:
        return found[0] if found else None
    return _agreeing(view, found)


def _label_by_values(view: View, scores: Scores, taken: frozenset[int]) -> int | None:
    """Return the only column of text whose values are all names of classes, or None.

    A column of fractions counts too if it is named like labels: a class may be named ``.5``.
    """
    if scores.class_names is None:
        return None
    names = set(scores.class_names)
    numbers = {value for value in map(_number, names) if value is not None}
    found = []
    for i, column in enumerate(view.frame.columns):
        if i in taken or i in scores.positions or column.problem:
            continue
        if column.kind == "number" and is_label(column.name):
            if set(view.values(i)[0].tolist()) <= numbers:
                found.append(i)
            continue
        if column.kind != "text":
            continue
        if is_prediction(column.name) or "pred" in column.name.lower():
            continue
        if set(view.values(i)[0].tolist()) <= names:
            found.append(i)
    return found[0] if len(found) == 1 else None


def _label_of_outcome(view: View, scores: Scores, taken: frozenset[int]) -> int | None:
    """Return the column ``churn`` beside ``churn_probability`` or ``prob_churn``, or None."""
    outcome = outcome_of(view.name(scores.positions[0]))
    found = [
        i
        for i, column in enumerate(view.frame.columns)
        if plain(column.name) == outcome and i not in taken and i not in scores.positions
    ]
    if len(found) != 1 or not view.is_whole(found[0]):
        return None
    return found[0] if len(np.unique(view.values(found[0])[0].astype(str))) == 2 else None


def _check_not_long(view: View, found: list[int]) -> None:
    """Raise where a table has one row per example and class."""
    n_rows = view[0].shape[0] if view.frame.is_table else 0
    numbers = [i for i in range(len(view.frame.columns)) if view.is_kind(i, "number")]
    if not any(view.sums([i]).in_unit and not view.is_whole(i) for i in numbers):
        return
    for i in found:
        classes = len(np.unique(view.values(i)[0].astype(str)))
        for j, column in enumerate(view.frame.columns):
            if j in found or not is_id(column.name) or classes < 2 or column.problem:
                continue
            counts = np.unique(view.values(j)[0].astype(str), return_counts=True)[1]
            if (counts == classes).all() and len(counts) * classes == n_rows:
                raise file_error(
                    view.path,
                    f"has one row per example and class ({classes} rows for each "
                    f'"{short(column.name)}"); one row per example is needed. With pandas: '
                    f"`df.pivot(index={column.name!r}, columns={view.name(i)!r}, values=...)`, "
                    "and join the labels.",
                )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _same_rest(view: View, found: list[int], scores: Scores) -> list[int]:
    """Keep labels whose name differs from the scores' by one word: ``val_logits, val_labels``."""
    rest = set(plain(view.name(scores.positions[0])).split("_"))
    same = [i for i in found if len(set(plain(view.name(i)).split("_")) ^ rest) <= 2]
    return same if len(found) > 1 else found


def _is_list_of_classes(view: View, position: int) -> bool:
    """Say whether all cells are the same ``['cat', 'dog']``."""
    if not view.is_kind(position, "text"):
        return False
    values = view.values(position)[0]
    return str(values[0]).startswith("[") and bool((values == values[0]).all())


def _may_be_label(view: View, position: int) -> bool:
    if view.is_kind(position, "matrix"):
        return not view.frame.is_table or view[position].shape[-1] > 1
    return view.is_whole(position) or not view.frame.is_table


def _agreeing(view: View, found: list[int]) -> int:
    """Return the first of several label columns if all agree; raise otherwise."""
    first = found[0]
    for other in found[1:]:
        a, b = view.values(first, other)
        same = a.shape == b.shape and a.ndim == 1
        if same:
            pairs = set(zip(a.tolist(), b.tolist(), strict=True))
            same = len(pairs) == len({p for p, _ in pairs}) == len({q for _, q in pairs})
        if not same:
            _check_not_long(view, found)
            option = "label_column" if view.frame.is_table else "labels_key"
            raise file_error(
                view.path,
                f"has {len(found)} columns that could be the labels: "
                f"{listing([view.name(i) for i in found])}. Say which.",
                fixes=[{option: view.name(i)} for i in found[:3]],
            )
    return first


def _check_rows(view: View, scores: Scores) -> None:
    """Raise where the arrays of one file have different numbers of rows."""
    sizes = {view[i].shape[0] for i in scores.positions}
    if len(sizes) > 1:
        raise file_error(
            view.path,
            f"score arrays must have the same number of rows, got {sorted(sizes)}.",
        )


def _no_labels(view: View, scores: Scores) -> PredictionFileError:
    frame = view.frame
    free = [
        i
        for i in range(len(frame.columns))
        if i not in scores.positions
        and view.is_kind(i, "number", "text", "bool")
        and not is_prediction(view.name(i))
        and view.is_whole(i)
        and (frame.is_table or view[i].shape[0] == view[scores.positions[0]].shape[0])
        and len(np.unique(view.values(i)[0].astype(str))) <= max(2, 2 * scores.n_classes)
    ]
    _check_not_one_hot(view, free, scores)
    option = "label_column" if frame.is_table else "labels_key"
    fixes: list[dict[str, object]] = [{option: view.name(i)} for i in free[:2]]
    if not fixes:
        fixes = [{"labels_path": "labels.npy"}]
    what = "column" if frame.is_table else "array"
    return file_error(
        view.path,
        f"has no {what} of labels (usual names: {LABELS_SHOWN}); it holds {listing(frame.names)}.",
        fixes=fixes,
    )


def _check_not_one_hot(view: View, free: list[int], scores: Scores) -> None:
    """Raise where the labels are one column of 0 and 1 per class."""
    columns = [i for i in free if view.is_kind(i, "number") and view.sums([i]).in_unit]
    if len(columns) == scores.n_classes > 1 and view.sums(columns).on_simplex:
        names = [view.name(i) for i in columns]
        raise file_error(
            view.path,
            f"has its labels in {len(names)} columns of 0 and 1, {listing(names)}; one column is "
            "needed. With pandas, where the order is that of the scores: "
            f"`df['label'] = df[{names[:20]!r}].to_numpy().argmax(axis=1)`.",
        )
