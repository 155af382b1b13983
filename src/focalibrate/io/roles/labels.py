"""Which column holds the labels: found by its name, or by its values; and why none does."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING, is_number
from focalibrate.io.errors import PredictionFileError, listing, short
from focalibrate.io.roles.facts import Facts, Fixes, Scores
from focalibrate.io.roles.vocabulary import (
    LABEL_PARTS,
    LABELS_SHOWN,
    outcome_of,
    plain,
    split_of,
)
from focalibrate.io.table import Table

Why: TypeAlias = PredictionFileError | None

LOOSE = {"label", "labels", "target", "targets", "truth"}
"""Words in the names of labels; of arrays, ``y`` is one too."""


def find_label(facts: Facts, scores: Scores | None) -> int | None:
    """Return the column of the true class by its name, or None."""
    view, is_table = facts.view, facts.view.schema.is_table
    if not view.schema.has_names:
        return None
    used = facts.taken | set(() if scores is None else scores.positions)
    free = [i for i in range(len(view.columns)) if i not in used]
    if not is_table and scores is not None:
        free = _of_split(facts, free, scores)
    names = {view[i].plain for i in free if view.is_kind(i, "number")}
    found = [i for i in free if view[i].is_label and _may_be_label(view, i)]
    if {"true", "false"} <= names:  # the classes of `columns=clf.classes_`
        found = [i for i in found if view[i].plain != "true"]
    if len(found) > 1:
        found = [i for i in found if not _is_list_of_classes(view, i)] or found
    if len(found) > 1 and not is_table and scores is not None:
        found = _same_rest(view, found, scores) or found
    if not found:
        parts = LOOSE if is_table else LOOSE | {"y"}
        found = [
            i
            for i in free
            if parts & view[i].words
            and not view[i].is_prediction
            and not any(word.startswith("pred") for word in view[i].words)
            and view.is_kind(i, "number", "text", "bool")
            and _may_be_label(view, i)
        ]
        if scores is not None and len(found) > 1:
            found = _same_rest(view, found, scores)
    return _agreeing(facts, found) if found else None


def _of_split(facts: Facts, free: list[int], scores: Scores) -> list[int]:
    """Return the arrays without labels of another split than the scores: ``test_labels``."""
    view, first = facts.view, facts.view.name(scores.positions[0])
    own = split_of(first)
    others = [i for i in free if own is not None and split_of(view.name(i)) not in (None, own)]
    kept = [i for i in free if i not in others]
    named = [i for i in free if view[i].words & (LABEL_PARTS | {"y"})]
    if named and set(named) <= set(others):
        raise facts.error(
            f"`{short(view.name(named[0]))}` are labels of another split than `{short(first)}`. "
            "Save the labels of the same rows, under the same name of the split."
        )
    return kept


def label_by_values(
    facts: Facts, scores: Scores, named: int | None
) -> tuple[int | None, tuple[str, ...]]:
    """Return the label, given the column that its name says, or None, and a note.

    The values count too: a column of text whose values are all names of classes is taken where
    no name says a label, or where the column `named` holds other text. Where both fit, but do
    not agree, nothing says which is right.
    """
    view, left_out = facts.view, ""
    found = _columns_of_classes(facts, scores)
    if named is not None:
        top = _top_class(view, scores)
        found = [i for i in found if i != named and not np.array_equal(view.values(i), top)]
        if not found or view.is_kind(named, "matrix"):
            return named, ()
        classes = {plain(name) for name in scores.class_names or ()}
        if not view.is_kind(named, "text") or _plain_values(view, named) & classes:
            return _agreeing(facts, [named, *found]), ()
        left_out = f'; "{short(view.name(named))}" holds others'
    if len(found) != 1:
        return named, ()
    name = short(view.name(found[0]))
    why = f'labels are in "{name}" because all its values are names of classes{left_out}'
    return found[0], (why,)


def _plain_values(view: Table, position: int) -> set[str]:
    return {plain(str(value)) for value in set(view.values(position).tolist())}


def _top_class(view: Table, scores: Scores) -> NDArray[Any]:
    """Return the name of the class with the highest score of each row."""
    arrays = [view.values(i) for i in scores.positions]
    matrix = arrays[0] if scores.form != "columns" else np.stack(arrays, axis=1)
    if matrix.shape[1:] != (len(scores.class_names or ()),):
        return np.empty(0, dtype=object)  # the names are refused later
    names = np.array(scores.class_names, dtype=object)
    return np.asarray(names[np.argmax(matrix, axis=1)])


def _columns_of_classes(facts: Facts, scores: Scores) -> list[int]:
    """Return the columns of text whose values are all names of classes.

    A column of fractions counts too if it is named like labels: a class may be named ``.5``.
    """
    view, names = facts.view, set(scores.class_names or ())
    numbers = {float(name) for name in names if is_number(name)}
    n_rows, found = view[scores.positions[0]].n_rows, []
    for i, column in enumerate(view.columns):
        is_used = i in facts.taken or i in scores.positions or i == view.schema.class_names_at
        if is_used or column.problem or i not in view.data or column.n_rows != n_rows:
            continue
        values = set[Any]()
        if column.kind == "number" and column.is_label:
            values = set(view.values(i).tolist())
            found += [i] * (values <= numbers)
        elif column.kind == "text" and not column.is_prediction and "pred" not in column.plain:
            values = set(() if is_binary(view, i) else view.values(i).tolist())
            known = {v for v in values if v in names or v.lower() not in MISSING}
            found += [i] * bool(known and known <= names)
    return found


def is_binary(view: Table, position: int) -> bool:
    """Return whether a column of text holds bytes, which need not be text."""
    stored = getattr(view.data[position], "type", None)
    return stored is not None and (pa.types.is_binary(stored) or pa.types.is_large_binary(stored))


def label_of_outcome(facts: Facts, scores: Scores) -> int | None:
    """Return the column ``churn`` beside ``churn_probability`` or ``prob_churn``, or None.

    ``is_churn``, ``has_churn`` and ``churned`` are such columns too.
    """
    view = facts.view
    outcome = outcome_of(view.name(scores.positions[0]))
    names = {f"is_{outcome}", f"has_{outcome}", outcome, f"{outcome}d", f"{outcome}ed"}
    used = facts.taken | set(scores.positions)
    found = [i for i, c in enumerate(view.columns) if c.plain in names and i not in used]
    if outcome is None or len(found) != 1 or not view.is_whole(found[0]):
        return None
    return found[0] if _n_values(view, found[0]) == 2 else None


def _n_values(view: Table, position: int) -> int:
    return len(np.unique(view.values(position).astype(str)))


def _same_rest(view: Table, found: list[int], scores: Scores) -> list[int]:
    """Keep labels whose name differs from the scores' by one word: ``val_logits, val_labels``."""
    rest = view[scores.positions[0]].words
    return [i for i in found if len(view[i].words ^ rest) <= 2]


def _is_list_of_classes(view: Table, position: int) -> bool:
    """Return whether all cells are the same ``['cat', 'dog']``."""
    if not view.is_kind(position, "text"):
        return False
    values = view.values(position)
    return str(values[0]).startswith("[") and bool((values == values[0]).all())


def _may_be_label(view: Table, position: int) -> bool:
    if view.is_kind(position, "matrix"):
        return not view.schema.is_table or view[position].shape[-1] > 1
    return view.is_whole(position) or not view.schema.is_table


def _agreeing(facts: Facts, found: list[int]) -> int:
    """Return the first of several label columns if all agree; raise otherwise."""
    view, first = facts.view, found[0]
    for other in found[1:]:
        a, b = view.values(first), view.values(other)
        same = a.shape == b.shape and a.ndim == 1
        if same:
            pairs = set(zip(a.tolist(), b.tolist(), strict=True))
            same = len(pairs) == len({p for p, _ in pairs}) == len({q for _, q in pairs})
        if not same:
            _check_not_long(facts, found)
            option = "label_column" if view.schema.is_table else "labels_key"
            names = facts.names(found)
            fixes: Fixes = [{option: name} for name in names]
            raise facts.which("columns that could be the labels", names, fixes)
    return first


def _check_not_long(facts: Facts, found: list[int]) -> None:
    """Raise where a table has one row per example and class."""
    view = facts.view
    numbers = [i for i in range(len(view.columns)) if view.is_kind(i, "number")]
    if not any(view.sums([i]).in_unit and not view.is_whole(i) for i in numbers):
        return
    for i in found if view.schema.is_table else ():
        classes = _n_values(view, i)
        for j, column in enumerate(view.columns):
            if j in found or not column.is_id or classes < 2 or column.problem:
                continue
            counts = np.unique(view.values(j).astype(str), return_counts=True)[1]
            if (counts == classes).all() and len(counts) * classes == view.n_rows:
                raise facts.error(
                    f"has one row per example and class ({classes} rows for each "
                    f'"{short(column.name)}"); one row per example is needed. With pandas: '
                    f"`df.pivot(index={column.name!r}, columns={view.name(i)!r}, values=...)`, "
                    "and join the labels."
                )


def no_labels(facts: Facts, scores: Scores) -> PredictionFileError:
    """Return the error for a file without labels, with the columns that could be them."""
    view, schema = facts.view, facts.view.schema
    n_rows = view[scores.positions[0]].n_rows
    free = [
        i
        for i, column in enumerate(schema.columns)
        if i not in scores.positions
        and view.is_kind(i, "number", "text", "bool")
        and not column.is_prediction
        and not column.is_id
        and view.is_whole(i)
        and (schema.is_table or column.n_rows == n_rows)
        and _n_values(view, i) <= max(2, 2 * scores.n_classes)
    ]
    for diagnosis in WHY_NO_LABELS:
        found = diagnosis(facts, scores, free)
        if found is not None:
            return found
    option = "label_column" if schema.is_table else "labels_key"
    named = [i for i in free if _may_be_called_label(view, i, scores)]
    fixes: Fixes = [{option: name} for name in facts.names(named[:2])]
    or_name = ""
    if not fixes:
        fixes = [{"labels_path": "labels.npy"}]
        flag = option.replace("_", "-")
        or_name = (
            f" If one of them holds the labels, name it: --{flag} NAME; if another file does:"
        )
    return facts.error(
        f"has no {'column' if schema.is_table else 'array'} of labels (usual names: "
        f"{LABELS_SHOWN}); it holds {listing(schema.names)}.{or_name}",
        fixes=fixes,
    )


def _may_be_called_label(view: Table, position: int, scores: Scores) -> bool:
    """Return whether a column may be offered as the labels: its name or its values say so."""
    if not view.schema.is_table or not view.schema.has_names:
        return True
    classes = {plain(name) for name in scores.class_names or ()}
    has_classes = view.is_kind(position, "text") and _plain_values(view, position) & classes
    return bool(view[position].words & LABEL_PARTS or has_classes)


def _are_detections(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    if not {"image_id", "category_id", "bbox"} <= set(facts.view.schema.names):
        return None
    return facts.error(
        "holds detections, and the objects that they should find are in another file. Pass it as "
        "`truth='instances.json'` (command line: --truth instances.json)."
    )


def _are_one_hot(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    view = facts.view
    columns = [i for i in free if view.is_kind(i, "number") and view.sums([i]).in_unit]
    if not len(columns) == scores.n_classes > 1 or not view.sums(columns).on_simplex:
        return None
    names = facts.names(columns)
    return facts.error(
        f"has its labels in {len(names)} columns of 0 and 1, {listing(names)}; one column is "
        "needed. With pandas, where the order is that of the scores: "
        f"`df['label'] = df[{names[:20]!r}].to_numpy().argmax(axis=1)`."
    )


def _have_outcomes(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    """Return the error where scores have columns of outcomes: ``prob1, prob1_outcome``."""
    names = {column.plain: column.name for column in facts.view.columns}
    pairs = [
        (column.name, names[f"{column.plain}_{word}"])
        for column in (facts.view[i] for i in scores.positions)
        for word in ("outcome", "result", "label", "won")
        if f"{column.plain}_{word}" in names
    ]
    if not pairs:
        return None
    return facts.error(
        "has a column of outcomes for each probability "
        f"({listing([f'{a}, {b}' for a, b in pairs])}). Read one at a time.",
        fixes=[{"score_columns": [a], "label_column": b} for a, b in pairs[:2]],
    )


def _are_multi_label(facts: Facts, scores: Scores, free: Sequence[int]) -> Why:
    """Return the error where every class has labels of its own: ``spam`` beside ``prob_spam``."""
    names = {facts.view[i].plain: facts.view.name(i) for i in free}
    pairs = [(name, outcome_of(name) or "") for name in facts.names(scores.positions)]
    if len(pairs) < 2 or not all(outcome in names for _, outcome in pairs):
        return None
    return facts.error(
        "has a column of labels for every class, so that several classes may be true of one "
        "example (multi-label). Read one class at a time.",
        fixes=[
            {"score_columns": [name], "label_column": names[outcome]}
            for name, outcome in pairs[:3]
        ],
    )


WHY_NO_LABELS: tuple[Callable[[Facts, Scores, Sequence[int]], Why], ...] = (
    _are_detections,
    _are_one_hot,
    _have_outcomes,
    _are_multi_label,
)
"""Why a file has no labels, by its scores and the columns that could be labels; the first fits."""
