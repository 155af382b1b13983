"""Which column holds the labels, which the scores: decided once for all formats."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING, is_binary_type, is_number
from focalibrate.io.errors import Doubt, flags, listing, short
from focalibrate.io.options import Request, find_columns
from focalibrate.io.roles.chosen import named_scores
from focalibrate.io.roles.diagnoses import (
    is_one_hot,
    long_table,
    n_values,
    no_labels,
    of_one_hot,
    of_predicted_class,
    plain_values,
)
from focalibrate.io.roles.facts import Facts, Scores
from focalibrate.io.roles.named import named_matrix
from focalibrate.io.roles.scores import find_scores, with_left_out
from focalibrate.io.roles.vocabulary import (
    LABEL_PARTS,
    WEIGHTS,
    is_cluster,
    outcome_of,
    plain,
    says_outcome,
    split_of,
)
from focalibrate.io.table import Table


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Positions of the columns by role, and what the user should know; the others are ignored.

    The predicted class checks the scores; rows with one value of `cluster` belong together.
    """

    scores: Scores
    label: int | None
    prediction: int | None
    weight: int | None
    groups: tuple[int, ...]
    cluster: int | None
    notes: tuple[str, ...]


def resolve_roles(view: Table, request: Request) -> Roles:
    """Return the role of every column: given by the caller, or found by name and values."""
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
        matrix = named_matrix(facts)
        scores = None if matrix is None else with_left_out(facts, matrix)
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
    if label is None and request.wants_labels and scores.form in ("single", "columns"):
        label = label_of_outcome(found, scores)
        if label is not None:
            scores = replace(scores, positive=request.positive)
    if label is not None and request.positive is None and scores.outcome is None:
        problem = of_predicted_class(facts, scores, label)
        if problem is not None:
            raise problem
    if label is None and request.need_labels and request.labels_path is None:
        raise no_labels(facts, scores)
    used = {*found.taken, *scores.positions} | ({label} if label is not None else set())
    predicted = view.schema.where(lambda c: c.is_prediction, used)
    is_stated = scores.outcome is not None  # how sure the prediction is, not of which class
    return Roles(
        scores=scores,
        label=label,
        prediction=None if is_stated else next((i for i in predicted if view.is_whole(i)), None),
        weight=next(iter(weights), None),
        groups=tuple(groups),
        cluster=next(iter(clusters), None),
        notes=(*notes, *_swallowed(view), *_unused(view, request, used)),
    )


LEAST_CLUSTERS = 20
"""Fewer values than this are groups to compare, not a sample of clusters."""


def _swallowed(view: Table) -> Iterator[str]:
    """Yield a warning where a cell of a text table holds whole rows, as after an open quote."""
    mark, width = view.schema.separator or "", len(view.columns)
    for i in range(width) if view.has_cells and width > 1 else ():
        cells = view.data[i]
        lines = pc.filter(cells, pc.match_substring(cells, "\n")).to_pylist()
        rows = [
            cell
            for cell in lines
            if cell.count(mark) == (width - 1) * cell.count("\n")
            and any(is_number(piece.strip().replace(",", ".")) for piece in cell.split(mark))
        ]
        if rows:
            n_lost = sum(cell.count("\n") for cell in rows)
            yield Doubt(
                f'WARNING: cells of "{short(view.name(i))}" hold lines that look like rows of the '
                f"table ({n_lost:,} in the first rows), such as {short(repr(rows[0]))}: a quote "
                "that opens a cell and is not closed hides the rows up to the next one. Double "
                "the quotes in cells, or remove them"
            )


def _unused(view: Table, request: Request, used: set[int]) -> Iterator[str]:
    """Yield notes of columns that are not used, called as weights, or repeating as ids do."""
    if not view.schema.is_table:
        return
    is_box = any(column.plain == "h" for column in view.columns)
    free = [i for i in range(len(view.columns)) if i not in used]
    weights = [i for i in free if view[i].plain in (WEIGHTS - {"w"} if is_box else WEIGHTS)]
    if weights:
        name = short(view.name(weights[0]))
        yield f'column "{name}" is not used; pass --weight-column to weight the examples'
    for i in free if request.cluster is None and request.need_labels else ():
        column = view[i]
        may_be = column.kind in ("text", "number") and column.problem is None
        is_class = column.is_prediction or column.is_label
        if not may_be or is_class or is_binary(view, i) or not view.is_whole(i):
            continue
        counts = np.unique(view.values(i).astype(str), return_counts=True)[1]
        is_repeated = LEAST_CLUSTERS <= len(counts) <= 0.9 * view.n_rows
        is_even = counts.min() == counts.max() and not column.is_thing
        if column.name.strip().lower() == "id":  # meant to be unique: any that repeats is said
            is_repeated, is_even = LEAST_CLUSTERS <= len(counts) < view.n_rows, True
        if is_repeated and (is_cluster(column.name) or is_even):
            name, fix = short(column.name), " ".join(flags({"cluster": column.name}))
            yield (
                f'"{name}" has {len(counts):,} values in {view.n_rows:,} rows: if rows of one '
                f"{name} belong together, pass {fix}"
            )
            yield from _stacked(view, i, used)
            return


_STACKED = {"model", "models", "classifier", "algorithm", "network", "checkpoint"}


def _stacked(view: Table, ids: int, used: set[int]) -> Iterator[str]:
    """Yield a warning where each id has one row for each model, or class, of another column."""
    names = view.values(ids).astype(str)
    n_each = view.n_rows / len(set(names.tolist()))
    for i, column in enumerate(view.columns):
        is_class = bool({"class", "category", "label"} & column.words)
        is_one = is_class or bool(_STACKED & column.words)
        if not is_one or i == ids or column.problem or not view.is_whole(i):
            continue
        if i in used and not column.is_prediction:
            continue
        values = view.values(i).astype(str)
        n_values = len(set(values.tolist()))
        n_pairs = len(set(zip(names.tolist(), values.tolist(), strict=True)))
        if n_values > 1 and n_values == n_each and n_pairs == view.n_rows:
            advice = "its classes, make one row per example: "
            code = f"df.pivot(index={view.name(ids)!r}, columns={column.name!r}, values=...)"
            if not is_class:
                advice = "models, keep the rows of one: "
                code = f"df[df[{column.name!r}] == {str(values[0])!r}]"
            yield Doubt(
                f'WARNING: each "{short(view.name(ids))}" has one row per "{short(column.name)}" '
                f"({listing(sorted(set(values.tolist())))}). If these are {advice}`{code}`"
            )


def _check_readable(view: Table, request: Request) -> None:
    """Raise if a column of a table, or an array that is needed by its name, is unreadable.

    A table's column is never left out silently: it could be a class.
    """
    for column in view.columns:
        is_needed = view.schema.is_table or column.plain in ("logits", "probs", "labels")
        if column.problem is not None and is_needed and column.name not in request.ignore:
            raise column.problem


LOOSE = {"label", "labels", "target", "targets", "truth"}
"""Words in the names of labels; of arrays, ``y`` is one too."""


def find_label(facts: Facts, scores: Scores | None) -> int | None:
    """Return the column of the true class by its name, or None."""
    view, is_table = facts.view, facts.view.schema.is_table
    if not view.schema.has_names:
        return None
    used = facts.taken | set(() if scores is None else scores.positions)
    used |= set(() if view.schema.listed is None else view.schema.listed[:1])
    free = [i for i in range(len(view.columns)) if i not in used]
    if not is_table and scores is not None:
        free = _of_split(facts, free, scores)
    free = [i for i in free if _may_be_label(view, i)]
    found = [i for i in free if view[i].is_label]
    if {"true", "false"} <= {view[i].plain for i in facts.numbers}:
        found = [i for i in found if view[i].plain != "true"]  # of `columns=clf.classes_`
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
            and not view.is_kind(i, "matrix")
        ]
        if scores is not None and len(found) > 1:
            found = _same_rest(view, found, scores)
    return _agreeing(facts, found) if found else None


def _of_split(facts: Facts, free: list[int], scores: Scores) -> list[int]:
    """Return the arrays without labels of another split than the scores: ``test_labels``."""
    view, first = facts.view, facts.view.name(scores.positions[0])
    own = split_of(first)
    others = [i for i in free if own is not None and split_of(view.name(i)) not in (None, own)]
    named = [i for i in free if view[i].words & (LABEL_PARTS | {"y"})]
    if named and set(named) <= set(others):
        raise facts.error(
            f"`{short(view.name(named[0]))}` are labels of another split than `{short(first)}`. "
            "Save the labels of the same rows, under the same name of the split."
        )
    return [i for i in free if i not in others]


def _same_rest(view: Table, found: list[int], scores: Scores) -> list[int]:
    """Keep labels whose name differs from the scores' by one word: ``val_logits, val_labels``."""
    rest = view[scores.positions[0]].words
    return [i for i in found if len(view[i].words ^ rest) <= 2]


def _may_be_label(view: Table, position: int) -> bool:
    """Return whether a column could hold classes, or one-hot rows, by its values."""
    if not view.schema.is_table:
        return view.is_kind(position, "number", "text", "bool", "matrix")
    is_one_hot = view.is_kind(position, "matrix") and view[position].shape[-1] > 1
    return is_one_hot or view.is_whole(position)


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
            if view.schema.is_table and is_one_hot(view, found):
                raise of_one_hot(view, found, view)
            option = "label_column" if view.schema.is_table else "labels_key"
            raise long_table(facts, found) or facts.which(
                "columns that could be the labels",
                [[i] for i in found],
                [{option: name} for name in facts.names(found)],
            )
    return first


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
        if not view.is_kind(named, "text"):  # of labels that agree, names say which class
            return _agreeing(facts, [found[0], named, *found[1:]]), ()
        if plain_values(view, named) & classes:
            return _agreeing(facts, [named, *found]), ()
        left_out = f"; {facts.text([named])} holds others"
    if len(found) != 1:
        return named, ()
    why = f"because all its values are names of classes{left_out}"
    return found[0], (f"labels are in {facts.text(found)} {why}",)


def _top_class(view: Table, scores: Scores) -> NDArray[Any]:
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
    used = facts.taken | {*scores.positions, view.schema.class_names_at}
    n_rows, found = view[scores.positions[0]].n_rows, []
    for i, column in enumerate(view.columns):
        if i in used or column.problem or i not in view.data or column.n_rows != n_rows:
            continue
        if column.kind == "number" and column.is_label:
            found += [i] * (set(view.values(i).tolist()) <= numbers)
        elif column.kind == "text" and not column.is_prediction and "pred" not in column.plain:
            values = set(() if is_binary(view, i) else view.values(i).tolist())
            known = {v for v in values if v in names or v.lower() not in MISSING}
            found += [i] * bool(known and known <= names)
    return found


def is_binary(view: Table, position: int) -> bool:
    """Return whether a column of text holds bytes, which need not be text."""
    return is_binary_type(getattr(view.data[position], "type", pa.null()))


def label_of_outcome(facts: Facts, scores: Scores) -> int | None:
    """Return the column ``churn`` beside ``churn_probability`` or ``prob_churn``, or None.

    ``is_churn``, ``has_churn`` and ``churned`` are such columns too, also beside two classes.
    """
    view, outcomes = facts.view, tuple(outcome_of(n) or n for n in scores.class_names or ())
    if scores.form == "single":
        outcome = outcome_of(view.name(scores.positions[0]))
        outcomes = () if outcome is None else (outcome,)
    used = facts.taken | set(scores.positions)
    found = view.schema.where(lambda c: any(says_outcome(c.name, o) for o in outcomes), used)
    if len(outcomes) > 2 or len(found) != 1 or not view.is_whole(found[0]):
        return None
    return found[0] if n_values(view, found[0]) == 2 else None
