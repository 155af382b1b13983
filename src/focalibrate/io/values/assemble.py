"""From the roles of a file's columns to checked predictions."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import MISSING, is_number, is_numbering, numbers_in, texts_of, uneven
from focalibrate.io.errors import file_error, listing, numbered_by, short
from focalibrate.io.options import Request
from focalibrate.io.predictions import Layout, Predictions
from focalibrate.io.roles.decide import Roles
from focalibrate.io.roles.diagnoses import not_numbers
from focalibrate.io.roles.facts import Scores
from focalibrate.io.roles.vocabulary import says_confidence, says_correct, says_outcome
from focalibrate.io.table import Table, check_listed
from focalibrate.io.values.labels import (
    NEGATIVE,
    Labels,
    Matched,
    are_backwards,
    check_names,
    match_binary,
    match_labels,
    without_shared,
)
from focalibrate.io.values.scores import (
    KEPT_ATOL,
    checked_scores,
    disagreement,
    doubts_about,
)

if TYPE_CHECKING:
    from focalibrate.io.first_rows import Reading

SHARES = "a row whose outcome lies between 0 and 1 (a tie) counts as both outcomes, by its share"


def stored_scores(view: Table, chosen: Scores) -> NDArray[Any]:
    """Return scores ``[N]`` of the positive class, or ``[N, K]``."""
    arrays = [view.values(i) for i in chosen.positions]
    for i, array in zip(chosen.positions, arrays, strict=True):
        if array.dtype.kind not in "fiu":
            raise not_numbers(view, i)
    if chosen.percent:
        found = zip(chosen.positions, arrays, strict=True)
        arrays = [_of_percent(view, i, array) for i, array in found]
    if chosen.form == "columns":
        common = np.result_type(*arrays)
        dtype = common if common.kind == "f" else np.dtype(np.float64)
        arrays = [np.stack(arrays, axis=1, dtype=dtype)]
    return arrays[0]


def _of_percent(view: Table, position: int, values: NDArray[Any]) -> NDArray[np.float64]:
    """Return percentages as fractions; cells that have the sign are read as these already."""
    fractions = np.asarray(values, np.float64) / 100
    if values.ndim == 1 and view.is_written(position):
        has_sign = np.array(["%" in (cell or "") for cell in view.cells(position)], bool)
        fractions[has_sign] = values[has_sign]
    return fractions


def stored_labels(view: Table, at: int, names: tuple[str, ...] | None) -> Labels:
    """Return the labels in a column.

    Those that were read as numbers are text if a class is called ``00`` next to ``0``, or
    ``none``, which means no value in a column of numbers.
    """
    plain_numbers = {str(i) for i in range(len(names or ()))}
    is_text = view.has_cells and any(
        (is_number(name) and name not in plain_numbers) or name.strip().lower() in MISSING - {""}
        for name in (names or ())
    )
    values = texts_of(view.data[at]) if is_text else view.values(at)
    return Labels(values, view.name(at), view.path)


def stored_group(view: Table, position: int) -> NDArray[Any]:
    """Return a column to group by; of a text table its cells, whatever the other rows hold."""
    return texts_of(view.data[position]) if view.has_cells else view.values(position)


def stored_clusters(view: Table, position: int) -> NDArray[Any]:
    """Return the clusters of the rows; those without one would be one large cluster."""
    values = stored_group(view, position)
    is_text = values.dtype.kind in "OUS"
    missing = np.flatnonzero(values == "" if is_text else values != values)
    if len(missing):
        raise view.rows_error(
            f"column `{short(view.name(position))}` must name a cluster in every row, but not in ",
            missing,
            ". Give each such row a name of its own, or leave these rows out.",
        )
    return values


def stored_weights(view: Table, position: int) -> NDArray[np.float64]:
    """Return weights, finite and >= 0."""
    values, rule = view.values(position), f"weights in `{short(view.name(position))}` must be "
    if values.dtype.kind not in "fiub" or values.ndim != 1:
        raise view.error(f"{rule}numbers.")
    weights = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~(weights >= 0) | ~np.isfinite(weights))
    if len(bad):
        raise view.rows_error(f"{rule}finite and >= 0, but those in ", bad, " are not.")
    return weights


def class_names_of(view: Table, roles: Roles, request: Request) -> tuple[str, ...] | None:
    """Return the names of the classes, from the file or from the caller, or None."""
    names, requested = roles.scores.class_names, request.class_names
    if roles.scores.form == "single":
        return None
    if names is None or requested is None or set(requested) == set(names):
        return requested if names is None else names
    if names == tuple(str(i) for i in range(len(names))):
        return requested
    raise view.error(
        f"`class_names` must be the classes of the file, {listing(names)}, got "
        f"{listing(requested)}."
    )


def complete_rows(
    scores: NDArray[Any], labels: Labels | None, names: tuple[str, ...] | None
) -> NDArray[np.intp] | None:
    """Return the rows that have a label and all scores, or None if all have."""
    missing = np.isnan(scores.reshape(len(scores), -1)).any(axis=1)
    if labels is not None and labels.values.shape[:1] == missing.shape:
        missing = missing | labels.missing(names)
    return np.flatnonzero(~missing) if missing.any() else None


def check_not_missing(labels: Labels, names: tuple[str, ...] | None) -> None:
    """Raise where a row has no label."""
    missing = np.flatnonzero(labels.missing(names))
    if len(missing):
        raise labels.rows_error(
            "labels must not be missing, but they are in ",
            missing,
            ". Leave these rows out.",
            fixes=[{"drop_missing": True}],
        )


def split_shares(labels: Labels) -> tuple[Labels, NDArray[np.float64], NDArray[np.intp]]:
    """Return outcomes 0 and 1 only, a factor of their weights, and the rows they are from.

    A row whose outcome is a share, such as 0.5 for a tie, becomes two: one of outcome 1 with
    that share of its weight, one of outcome 0 with the rest. The log loss is the same.
    """
    shares = labels.shares()
    index = np.repeat(np.arange(len(shares)), 1 + shares)
    is_second = np.append(False, index[1:] == index[:-1])
    y = labels.values[index]
    factor = np.where(is_second, 1.0 - y, np.where(shares[index], y, 1.0))
    return replace(labels, values=np.where(is_second, 0.0, np.ceil(y))), factor, index


def assemble(
    table: Table,
    reading: "Reading",
    rows: slice,
    *,
    is_first: bool = False,
    half: bool = False,
    keep: bool = False,
) -> Predictions | None:
    """Return a batch of predictions, every row checked; None if no row is complete.

    The rows are at `rows` in the data set; the notes of the first are shown for all. With `half`
    logits in float16 stay so, with `keep` the other columns can be read.
    """
    with numbered_by(range(table.first_row, sys.maxsize)):
        check_listed(table)
        found = _assembled(table, reading, rows, is_first=is_first, half=half, keep=keep)
    return found if found is None or is_first else _like(found, table, reading)


def _like(found: Predictions, table: Table, reading: "Reading") -> Predictions:
    """Return predictions in the precision of all parts; raise if their classes differ."""
    like = reading.like
    if found.layout.form == "options" and found.n_classes < like.n_classes:
        more = [(0, 0), (0, like.n_classes - found.n_classes)]
        found = replace(found, scores=np.pad(found.scores, more, constant_values=-np.inf))
    if found.n_classes != like.n_classes:
        if table.first_row:
            raise uneven(table.path, table.first_row, found.n_classes, like.n_classes)
        raise table.error(
            f"has {found.n_classes} classes, but {reading.parts[0].name} has {like.n_classes}. "
            "Every part must have the same classes."
        )
    ways = [(p.class_names, p.positive, p.layout.labels_as) for p in (found, like)]
    if ways[0] != ways[1]:
        raise table.error(
            "its labels are matched to the classes in another way than those of the first "
            f"rows: {found.class_names} ({found.layout.labels_as}) and {like.class_names} "
            f"({like.layout.labels_as}). Write the names of the classes in one way."
        )
    if found.scores.dtype in (like.scores.dtype, np.float16):
        return found
    return replace(found, scores=found.scores.astype(like.scores.dtype))


def _assembled(
    view: Table, reading: "Reading", rows_of_all: slice, *, is_first: bool, half: bool, keep: bool
) -> Predictions | None:
    roles, request, chosen = reading.roles, reading.request, reading.roles.scores
    notes = [*view.schema.notes, *roles.notes]
    names = class_names_of(view, roles, request)
    scores, labels, factor = stored_scores(view, chosen), None, None
    if reading.labels is not None:
        labels = reading.labels.of_rows(view, rows_of_all)
    elif roles.label is not None:
        labels = stored_labels(view, roles.label, names)
    rows = complete_rows(scores, labels, names) if request.drop_missing else None
    n_dropped = 0 if rows is None else view.n_rows - len(rows)
    if labels is not None:
        labels = labels if rows is None else labels[rows]
        check_not_missing(labels, names)
    if labels is not None and chosen.form == "single" and labels.shares().any():
        if keep:  # an output keeps the column as it is
            labels = None
        else:
            labels, factor, index = split_shares(labels)
            rows = index if rows is None else rows[index]
            notes.append(SHARES)

    labels_name = None if labels is None else labels.name

    def kept(values: NDArray[Any]) -> NDArray[Any]:
        return values if rows is None else values[rows]

    scores = kept(scores)
    if not len(scores) and n_dropped:
        return None
    weights = None if roles.weight is None else kept(stored_weights(view, roles.weight))
    if factor is not None:
        weights = factor if weights is None else factor * weights
    is_columns = chosen.form == "columns"
    scores_name = chosen.kind if is_columns else view.name(chosen.positions[0])
    with numbered_by(rows):
        if view.schema.is_partial and not request.drop_missing:
            _check_all_listed(scores, view)
        if chosen.form == "single":
            scores = _two_columns(scores, chosen.kind, view, scores_name)
        scores, n_rounded = checked_scores(
            scores,
            kind=chosen.kind,
            name=scores_name,
            names=tuple(view.name(i) for i in chosen.positions) if is_columns else (),
            was_half=any(view[i].is_half for i in chosen.positions),
            view=view,
            probs_atol=request.probs_atol,
            keeps_half=half,
        )
        check_names(names, n_classes=scores.shape[1], path=view.path)
        scores, names = _in_order(scores, names, labels_name)
        matched, names, positive = _matched(labels, scores, names, view, reading)
    if names == ("1", "0") and chosen.form == "single":  # in the order 0, 1, and so unnamed
        scores, matched, names = scores[:, ::-1], _flipped(matched), None
    if matched is not None:
        notes += matched.notes
    if is_first:
        notes += doubts_about(scores, matched, chosen)
        if roles.prediction is not None:
            predicted = kept(view.values(roles.prediction))
            given = Labels(predicted, view.name(roles.prediction), view.path)
            notes += disagreement(scores, given, names, matched)
    in_file = names
    if names is not None and len(names) == 2 and names[0] == request.positive:
        scores, matched, names = scores[:, ::-1], _flipped(matched), names[::-1]
        positive = request.positive
    layout = _layout(view, roles, matched, rows, keep=keep)
    own_label = None if reading.labels is not None or roles.label is None else labels_name
    return Predictions(
        scores=np.ascontiguousarray(scores),
        kind=chosen.kind,
        labels=None if matched is None else matched.labels,
        class_names=names,
        source=view.path,
        checksum="",
        weights=weights,
        groups={view.name(i): kept(stored_group(view, i)) for i in roles.groups},
        cluster=None if roles.cluster is None else kept(stored_clusters(view, roles.cluster)),
        positive=positive,
        notes=tuple(dict.fromkeys(notes)),
        labels_name=labels_name,
        scores_names=tuple(view.name(i) for i in chosen.positions),
        labels_source=None if reading.labels is None else reading.labels.all.path,
        layout=replace(layout, class_names=in_file, label_column=own_label),
        n_rounded=n_rounded,
        n_dropped=n_dropped,
    )


def _flipped(matched: Matched | None) -> Matched | None:
    return None if matched is None else replace(matched, labels=1 - matched.labels)


def _check_all_listed(scores: NDArray[Any], view: Table) -> None:
    """Raise if rows list only some of the classes, such as those of the highest scores."""
    lacking = np.flatnonzero(np.isnan(scores.reshape(len(scores), -1)).any(axis=1))
    if len(lacking):
        raise view.rows_error(
            "must list the scores of all classes in every row, but does not in ",
            lacking,
            ". A Hugging Face pipeline writes all of them with `top_k=None`.",
        )


def _two_columns(stored: NDArray[Any], kind: str, view: Table, name: str) -> NDArray[Any]:
    """Return the scores of both classes from those of the positive one."""
    if stored.ndim != 1:
        raise view.error(f"`{short(name)}` must have shape [N], got {stored.shape}.")
    scores = stored if stored.dtype.kind == "f" else stored.astype(np.float64)
    if scores.dtype == np.float16:
        scores = scores.astype(np.float32)
    if kind == "logits":
        return np.stack([np.zeros_like(scores), scores], axis=1)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero((scores < 0) | (scores > 1))
    if len(bad) and np.abs(scores[bad] - 0.5).max() <= 0.5 + KEPT_ATOL:  # 1.0000001 of float32
        scores = np.clip(scores, 0, 1)
    elif len(bad):
        low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
        if low >= 0 and 1 < high <= 100 and high > 50:
            raise view.error(
                f"`{short(name)}` must lie in [0, 1], but goes up to {high:.4g}, as percentages "
                "do.",
                fixes=[{"input": "percent"}],
            )
        raise view.rows_error(
            f"`{short(name)}` must be probabilities in [0, 1], but ",
            bad,
            f" {'are' if len(bad) > 1 else 'is'} not: found {low:.6g} to {high:.6g}. If these are "
            "log-odds, say so.",
            fixes=[{"input": "logits"}],
        )
    return np.stack([1 - scores, scores], axis=1)


def _in_order(
    scores: NDArray[Any], names: tuple[str, ...] | None, labels_name: str | None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Put classes in the order that their names say, so that numbers as labels mean that order.

    ``LABEL_2, LABEL_0, LABEL_1`` are sorted by number, ``yes, no`` becomes ``no, yes``, and
    ``fraud, not_fraud`` the same way; so does ``spam, ham`` with labels called ``is_spam``.
    Classes called 0, 1, 2, ... count as unnamed.
    """
    if names is None:
        return scores, None
    is_first = len(names) == 2 and labels_name is not None
    is_first = is_first and says_outcome(str(labels_name), without_shared([], names)[0])
    numbers = [1, 0] if is_first or are_backwards(names) else numbers_in(names)
    shown = None if is_numbering(names) else names
    if numbers is None or numbers == sorted(numbers):
        return scores, shown
    order = np.argsort(numbers)
    shown = None if shown is None else tuple(shown[i] for i in order)
    return np.ascontiguousarray(scores[:, order]), shown


def _matched(
    labels: Labels | None,
    scores: NDArray[Any],
    names: tuple[str, ...] | None,
    view: Table,
    reading: "Reading",
) -> tuple[Matched | None, tuple[str, ...] | None, str | None]:
    roles, request, known = reading.roles, reading.request, reading.like.layout.known
    chosen = roles.scores
    if chosen.form == "single":
        matched, shown = match_binary(labels, reading.pair, chosen.positive)
        return matched, shown, chosen.positive if shown is None else shown[1]
    if request.positive is not None and names is not None and request.positive not in names:
        raise file_error(
            view.path if labels is None else labels.path,
            f"`positive` must be a class, got {request.positive!r}; they are {listing(names)}.",
        )
    if labels is None:
        return None, names, None
    _check_ordered(labels.values, names, view, roles, request)
    requested = chosen.class_names is None and request.class_names is not None
    by_column = chosen.form == "columns" or view.schema.numeric_classes or requested
    matched = match_labels(
        labels,
        n_classes=scores.shape[1],
        class_names=names,
        names_are_labels=by_column,
        first=reading.first,
        known=dict(known),
    )
    if known:
        matched = replace(matched, class_names=reading.like.class_names)
    return matched, matched.class_names if names is not None else None, None


def _check_ordered(
    labels: NDArray[Any],
    names: tuple[str, ...] | None,
    view: Table,
    roles: Roles,
    request: Request,
) -> None:
    """Raise if labels are numbers of classes that each row lists in another order."""
    if view.schema.is_ordered or names is None or request.score_columns is not None:
        return
    is_told = numbers_in(names) is not None or any(name.lower() in NEGATIVE for name in names)
    if labels.dtype.kind not in "iuf" or is_told:
        return
    columns = sorted(view.name(i) for i in roles.scores.positions)
    raise view.error(
        f"its labels are numbers, but nothing says which number means which of {listing(names)}: "
        "each row lists the classes in another order. Save the labels as names, or give the "
        "classes in the order of the numbers (here: that of the alphabet).",
        fixes=[{"score_columns": columns, "input": roles.scores.kind}],
    )


def _layout(
    view: Table,
    roles: Roles,
    matched: Matched | None,
    rows: NDArray[np.intp] | None,
    *,
    keep: bool,
) -> Layout:
    """Return which columns an output keeps, and the columns themselves."""
    schema = view.schema
    chosen = set(roles.scores.positions)
    n_rows = schema.columns[roles.scores.positions[0]].n_rows
    unlike = schema.where(lambda c: c.problem is not None or c.n_rows != n_rows)
    gone = {*chosen, *unlike, schema.class_names_at}
    names, others = view.kept(gone, roles.label)

    def rest() -> Any:
        table = pa.table([view.arrow(i) for i in others], names=names)
        return table.take(pa.array(rows)) if others and rows is not None else table

    is_stated = roles.scores.form == "single" and says_confidence(view.name(min(chosen)))
    firsts = [i if i >= 0 else schema.objects[~i][1][0] for i in others]
    return Layout(
        names=tuple(names),
        place=len([i for i in firsts if i < min(chosen)]),
        labels_as="index" if matched is None else matched.form,
        known=() if matched is None else matched.known,
        form=roles.scores.form,
        is_right=is_stated and roles.label is not None and says_correct(view.name(roles.label)),
        has_names=schema.has_names,
        separator=schema.separator,
        decimal_comma=schema.decimal_comma,
        pandas=schema.pandas,
        rest=rest if keep else None,
    )
