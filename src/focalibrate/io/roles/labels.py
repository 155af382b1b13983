"""Which column holds the labels: found by its name, or by its values."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING
from focalibrate.io.errors import PredictionFileError, file_error, listing, short
from focalibrate.io.roles.kind import Scores, which
from focalibrate.io.roles.vocabulary import (
    LABEL_PARTS,
    LABELS_SHOWN,
    is_id,
    is_label,
    is_prediction,
    outcome_of,
    plain,
    split_of,
)
from focalibrate.io.table import Table


def find_label(view: Table, taken: frozenset[int], scores: Scores | None) -> int | None:
    """Return the column of the true class by its name, or None."""
    schema = view.schema
    if not schema.has_names:
        return None
    score_positions = set() if scores is None else set(scores.positions)
    free = [i for i in range(len(schema.columns)) if i not in taken and i not in score_positions]
    if not schema.is_table and scores is not None:
        free = _of_split(view, free, scores)
    names = {plain(schema.columns[i].name) for i in free if view.is_kind(i, "number")}
    exact = [i for i in free if is_label(view.name(i))]
    if {"true", "false"} <= names:  # the classes of `columns=clf.classes_`
        exact = [i for i in exact if plain(view.name(i)) != "true"]
    found = [i for i in exact if _may_be_label(view, i)]
    if len(found) > 1:
        found = [i for i in found if not _is_list_of_classes(view, i)] or found
    if len(found) > 1 and not schema.is_table and scores is not None:
        found = _same_rest(view, found, scores) or found
    if not found:
        parts = {"label", "labels", "target", "targets", "truth"}
        if not schema.is_table:
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


def _of_split(view: Table, free: list[int], scores: Scores) -> list[int]:
    """Return the arrays without labels of another split than the scores: ``test_labels``."""
    own = split_of(view.name(scores.positions[0]))
    others = [i for i in free if own is not None and split_of(view.name(i)) not in (None, own)]
    kept = [i for i in free if i not in others]

    def is_named(i: int) -> bool:
        return bool(set(plain(view.name(i)).split("_")) & (LABEL_PARTS | {"y"}))

    if not any(map(is_named, kept)):
        for i in filter(is_named, others):
            raise file_error(
                view.path,
                f"`{short(view.name(i))}` are labels of another split than "
                f"`{short(view.name(scores.positions[0]))}`. Save the labels of the same rows, "
                "under the same name of the split.",
            )
    return kept


def label_by_values(
    view: Table, scores: Scores, taken: frozenset[int], named: int | None
) -> tuple[int | None, tuple[str, ...]]:
    """Return the label, given the column that its name says, or None, and a note.

    The values count too: a column of text whose values are all names of classes is taken where
    no name says a label, or where the column `named` holds other text. Where both fit, but do
    not agree, nothing says which is right.
    """
    found = _columns_of_classes(view, scores, taken)
    if named is not None:
        top = _top_class(view, scores)
        found = [i for i in found if i != named and not np.array_equal(view.values(i), top)]
        if not found:
            return named, ()
        values = view.values(named)
        if view.is_kind(named, "text") and not {plain(v) for v in set(values.tolist())} & {
            plain(name) for name in scores.class_names or ()
        }:
            left_out = f'; "{short(view.name(named))}" holds others'
        elif view.is_kind(named, "matrix"):
            return named, ()
        else:
            return _agreeing(view, [named, *found]), ()
    else:
        left_out = ""
    if len(found) != 1:
        return named, ()
    name = short(view.name(found[0]))
    why = f'labels are in "{name}" because all its values are names of classes{left_out}'
    return found[0], (why,)


def _top_class(view: Table, scores: Scores) -> NDArray[Any]:
    """Return the name of the class with the highest score of each row."""
    arrays = [view.values(i) for i in scores.positions]
    matrix = arrays[0] if scores.form != "columns" else np.stack(arrays, axis=1)
    if matrix.shape[1:] != (len(scores.class_names or ()),):
        return np.empty(0, dtype=object)  # the names are refused later
    names = np.array(scores.class_names, dtype=object)
    return np.asarray(names[np.argmax(matrix, axis=1)])


def _columns_of_classes(view: Table, scores: Scores, taken: frozenset[int]) -> list[int]:
    """Return the columns of text whose values are all names of classes.

    A column of fractions counts too if it is named like labels: a class may be named ``.5``.
    """
    if scores.class_names is None:
        return []
    names = set(scores.class_names)
    numbers = {value for value in map(_number, names) if value is not None}
    found = []
    for i, column in enumerate(view.columns):
        n_rows = view[scores.positions[0]].n_rows
        is_aside = i in taken or i in scores.positions or i == view.schema.class_names_at
        if is_aside or column.problem or i not in view.data or column.n_rows != n_rows:
            continue
        if column.kind == "number" and is_label(column.name):
            if set(view.values(i).tolist()) <= numbers:
                found.append(i)
            continue
        if column.kind != "text":
            continue
        if is_prediction(column.name) or "pred" in column.name.lower():
            continue
        values = set(() if is_binary(view, i) else view.values(i).tolist())
        known = {v for v in values if v in names or v.lower() not in MISSING}
        if known and known <= names:
            found.append(i)
    return found


def is_binary(view: Table, position: int) -> bool:
    """Return whether a column of text holds bytes, which need not be text."""
    stored = getattr(view.data[position], "type", None)
    return stored is not None and (pa.types.is_binary(stored) or pa.types.is_large_binary(stored))


def label_of_outcome(view: Table, scores: Scores, taken: frozenset[int]) -> int | None:
    """Return the column ``churn`` beside ``churn_probability`` or ``prob_churn``, or None.

    ``is_churn``, ``has_churn`` and ``churned`` are such columns too.
    """
    outcome = outcome_of(view.name(scores.positions[0]))
    if outcome is None:
        return None
    names = {f"is_{outcome}", f"has_{outcome}", outcome, f"{outcome}d", f"{outcome}ed"}
    found = [
        i
        for i, column in enumerate(view.columns)
        if plain(column.name) in names and i not in taken and i not in scores.positions
    ]
    if len(found) != 1 or not view.is_whole(found[0]):
        return None
    return found[0] if len(np.unique(view.values(found[0]).astype(str))) == 2 else None


def _check_not_long(view: Table, found: list[int]) -> None:
    """Raise where a table has one row per example and class."""
    n_rows = view.n_rows if view.schema.is_table else 0
    numbers = [i for i in range(len(view.columns)) if view.is_kind(i, "number")]
    if not any(view.sums([i]).in_unit and not view.is_whole(i) for i in numbers):
        return
    for i in found:
        classes = len(np.unique(view.values(i).astype(str)))
        for j, column in enumerate(view.columns):
            if j in found or not is_id(column.name) or classes < 2 or column.problem:
                continue
            counts = np.unique(view.values(j).astype(str), return_counts=True)[1]
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


def _same_rest(view: Table, found: list[int], scores: Scores) -> list[int]:
    """Keep labels whose name differs from the scores' by one word: ``val_logits, val_labels``."""
    rest = set(plain(view.name(scores.positions[0])).split("_"))
    same = [i for i in found if len(set(plain(view.name(i)).split("_")) ^ rest) <= 2]
    return same if len(found) > 1 else found


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


def _agreeing(view: Table, found: list[int]) -> int:
    """Return the first of several label columns if all agree; raise otherwise."""
    first = found[0]
    for other in found[1:]:
        a, b = view.values(first), view.values(other)
        same = a.shape == b.shape and a.ndim == 1
        if same:
            pairs = set(zip(a.tolist(), b.tolist(), strict=True))
            same = len(pairs) == len({p for p, _ in pairs}) == len({q for _, q in pairs})
        if not same:
            _check_not_long(view, found)
            option = "label_column" if view.schema.is_table else "labels_key"
            names = [view.name(i) for i in found]
            fixes: list[dict[str, object]] = [{option: name} for name in names]
            raise which(view, "columns that could be the labels", names, fixes)
    return first


def no_labels(view: Table, scores: Scores) -> PredictionFileError:
    """Return the error for a file without labels, with the columns that could be them."""
    schema = view.schema
    free = [
        i
        for i in range(len(schema.columns))
        if i not in scores.positions
        and view.is_kind(i, "number", "text", "bool")
        and not is_prediction(view.name(i))
        and not is_id(view.name(i))
        and view.is_whole(i)
        and (schema.is_table or view[i].n_rows == view[scores.positions[0]].n_rows)
        and len(np.unique(view.values(i).astype(str))) <= max(2, 2 * scores.n_classes)
    ]
    _check_not_one_hot(view, free, scores)
    _check_not_outcomes(view, scores)
    _check_not_multi_label(view, free, scores)
    option = "label_column" if schema.is_table else "labels_key"
    named = [i for i in free if _may_be_called_label(view, i, scores)]
    fixes: list[dict[str, object]] = [{option: view.name(i)} for i in named[:2]]
    what = "column" if schema.is_table else "array"
    or_name = ""
    if not fixes:
        fixes = [{"labels_path": "labels.npy"}]
        flag = option.replace("_", "-")
        or_name = (
            f" If one of them holds the labels, name it: --{flag} NAME; if another file does:"
        )
    return file_error(
        view.path,
        f"has no {what} of labels (usual names: {LABELS_SHOWN}); it holds "
        f"{listing(schema.names)}.{or_name}",
        fixes=fixes,
    )


def _may_be_called_label(view: Table, position: int, scores: Scores) -> bool:
    """Return whether a column may be offered as the labels: its name or its values say so."""
    words = set(plain(view.name(position)).split("_"))
    if words & LABEL_PARTS or not view.schema.is_table or not view.schema.has_names:
        return True
    classes = {plain(name) for name in scores.class_names or ()}
    values = {plain(str(v)) for v in view.values(position).tolist()}
    return view.is_kind(position, "text") and bool(values & classes)


def _check_not_outcomes(view: Table, scores: Scores) -> None:
    """Raise where scores have columns of outcomes beside them: ``prob1, prob1_outcome``."""
    names = {plain(name): name for name in view.schema.names}
    pairs = [
        (view.name(i), names[f"{plain(view.name(i))}_{word}"])
        for i in scores.positions
        for word in ("outcome", "result", "label", "won")
        if f"{plain(view.name(i))}_{word}" in names
    ]
    if pairs:
        raise file_error(
            view.path,
            "has a column of outcomes for each probability "
            f"({listing([f'{a}, {b}' for a, b in pairs])}). Read one at a time.",
            fixes=[{"score_columns": [a], "label_column": b} for a, b in pairs[:2]],
        )


def _check_not_multi_label(view: Table, free: list[int], scores: Scores) -> None:
    """Raise where every class has a column of labels of its own: ``spam`` beside ``prob_spam``."""
    names = {plain(view.name(i)): view.name(i) for i in free}
    pairs = [(view.name(i), outcome_of(view.name(i)) or "") for i in scores.positions]
    if len(pairs) > 1 and all(outcome in names for _, outcome in pairs):
        raise file_error(
            view.path,
            "has a column of labels for every class, so that several classes may be true of one "
            "example (multi-label). Read one class at a time.",
            fixes=[
                {"score_columns": [name], "label_column": names[outcome]}
                for name, outcome in pairs[:3]
            ],
        )


def _check_not_one_hot(view: Table, free: list[int], scores: Scores) -> None:
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
