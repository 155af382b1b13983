"""From the roles of a file's columns to checked predictions."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from focalibrate.io.cells import is_numbering, numbers_in
from focalibrate.io.data_set import Piece
from focalibrate.io.errors import RowError, file_error, listing, short
from focalibrate.io.options import Request
from focalibrate.io.predictions import Layout, Predictions
from focalibrate.io.roles.decide import Roles
from focalibrate.io.roles.listed import check_listed
from focalibrate.io.roles.vocabulary import CONFIDENCE, says_correct
from focalibrate.io.source import Part
from focalibrate.io.table import Schema, Table, uneven
from focalibrate.io.values.doubts import disagreement, doubts_about
from focalibrate.io.values.labels import (
    NEGATIVE,
    Labels,
    Matched,
    check_names,
    match_binary,
    match_labels,
)
from focalibrate.io.values.other_labels import OtherLabels
from focalibrate.io.values.scores import checked_scores
from focalibrate.io.values.stored import (
    check_not_missing,
    class_names_of,
    complete_rows,
    split_shares,
    stored_group,
    stored_labels,
    stored_scores,
    stored_weights,
)

SHARES = "a row whose outcome lies between 0 and 1 (a tie) counts as both outcomes, by its share"


NO_ROWS = Predictions(
    scores=np.empty((0, 2)),
    kind="probs",
    labels=None,
    class_names=None,
    source=Path(),
    checksum="",
)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the first rows decided for all rows; can be sent to another process.

    Attributes:
        request: what the caller says, and the format of the file.
        schema: the columns of the first part.
        roles: which column is what.
        labels: labels from a file of their own, or None.
        pair: the negative and the positive label of all rows, where one column holds the scores.
        first: the number of the first class, 0 or 1, where the labels are numbers.
        like: predictions without rows, whose classes and precision all rows have.
        parts: what is known of the parts.
        pieces: the same rows in the same order, with large parquet files cut between row groups.
        looks_like_probs: the first rows could be probabilities.
    """

    request: Request
    schema: Schema
    roles: Roles
    labels: OtherLabels | None
    pair: tuple[str, str] | None = None
    first: int | None = None
    like: Predictions = NO_ROWS
    parts: tuple[Part, ...] = ()
    pieces: tuple[Piece, ...] = ()
    looks_like_probs: bool = False

    @property
    def needed(self) -> list[int]:
        """Positions of the columns that are read: scores, label, weight, groups and key."""
        roles = self.roles
        named = [i for i in (roles.label, roles.weight, roles.cluster) if i is not None]
        if self.labels is not None and self.labels.key is not None:
            named.extend(self.labels.key.at)
        if self.schema.listed is not None:
            named.append(self.schema.listed[0])
        return list(dict.fromkeys([*roles.scores.positions, *named, *roles.groups]))


def assemble(
    table: Table,
    reading: Reading,
    rows: slice | NDArray[np.intp],
    *,
    is_first: bool = False,
    half: bool = False,
    keep: bool = False,
) -> Predictions | None:
    """Return a batch of predictions, every row checked; None if no row is complete.

    Args:
        table: the rows.
        reading: what the first rows decided.
        rows: their positions in the data set.
        is_first: they are the first rows, whose notes are shown for all.
        half: leave logits in float16 as they are.
        keep: keep the other columns.
    """
    try:
        check_listed(table)
        found = _assembled(table, reading, rows, is_first=is_first, half=half, keep=keep)
    except RowError as error:
        raise error.from_row(table.first_row) from error
    return found if found is None or is_first else _like(found, table, reading)


def _like(found: Predictions, table: Table, reading: Reading) -> Predictions:
    """Return predictions in the precision of all parts; raise if their classes differ."""
    like = reading.like
    if found.layout.form == "options" and found.n_classes < like.n_classes:
        more = [(0, 0), (0, like.n_classes - found.n_classes)]
        found = replace(found, scores=np.pad(found.scores, more, constant_values=-np.inf))
    if found.n_classes != like.n_classes:
        if table.first_row:
            raise uneven(table.path, table.first_row, found.n_classes, like.n_classes)
        raise file_error(
            table.path,
            f"has {found.n_classes} classes, but {reading.parts[0].name} has {like.n_classes}. "
            "Every part must have the same classes.",
        )
    ways = [(p.class_names, p.positive, p.layout.labels_as) for p in (found, like)]
    if ways[0] != ways[1]:
        raise file_error(
            table.path,
            "its labels are matched to the classes in another way than those of the first "
            f"rows: {found.class_names} ({found.layout.labels_as}) and {like.class_names} "
            f"({like.layout.labels_as}). Write the names of the classes in one way.",
        )
    if found.scores.dtype in (like.scores.dtype, np.float16):
        return found
    return replace(found, scores=found.scores.astype(like.scores.dtype))


def _assembled(
    view: Table,
    reading: Reading,
    rows_of_all: slice | NDArray[np.intp],
    *,
    is_first: bool,
    half: bool,
    keep: bool,
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
    if view.schema.is_partial and not request.drop_missing:
        _check_all_listed(scores, view)
    is_columns = chosen.form == "columns"
    scores_name = chosen.kind if is_columns else view.name(chosen.positions[0])
    if chosen.form == "single":
        scores = _two_columns(scores, chosen.kind, view, scores_name)
    scores, n_rounded = checked_scores(
        scores,
        kind=chosen.kind,
        name=scores_name,
        names=tuple(view.name(i) for i in chosen.positions) if is_columns else (),
        was_half=any(view[i].is_half for i in chosen.positions),
        path=view.path,
        probs_atol=request.probs_atol,
        keeps_half=half,
    )
    check_names(names, n_classes=scores.shape[1], path=view.path)
    scores, names = _in_order(scores, names)
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
        cluster=None if roles.cluster is None else kept(stored_group(view, roles.cluster)),
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
    """Return the labels of two classes in the other order."""
    return None if matched is None else replace(matched, labels=1 - matched.labels)


def _check_all_listed(scores: NDArray[Any], view: Table) -> None:
    """Raise if rows list only some of the classes, such as those of the highest scores."""
    lacking = np.flatnonzero(np.isnan(scores.reshape(len(scores), -1)).any(axis=1))
    if len(lacking):
        raise RowError(
            view.path,
            "must list the scores of all classes in every row, but does not in ",
            lacking,
            ". A Hugging Face pipeline writes all of them with `top_k=None`.",
        )


def _two_columns(stored: NDArray[Any], kind: str, view: Table, name: str) -> NDArray[Any]:
    """Return the scores of both classes from those of the positive one."""
    if stored.ndim != 1:
        raise file_error(view.path, f"`{short(name)}` must have shape [N], got {stored.shape}.")
    scores = stored if stored.dtype.kind == "f" else stored.astype(np.float64)
    if scores.dtype == np.float16:
        scores = scores.astype(np.float32)
    if kind == "logits":
        return np.stack([np.zeros_like(scores), scores], axis=1)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero((scores < 0) | (scores > 1))
    if len(bad):
        low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
        if low >= 0 and 1 < high <= 100 and high > 50:
            raise file_error(
                view.path,
                f"`{short(name)}` must lie in [0, 1], but goes up to {high:.4g}, as percentages "
                "do.",
                fixes=[{"input": "percent"}],
            )
        raise RowError(
            view.path,
            f"`{short(name)}` must be probabilities in [0, 1], but ",
            bad,
            f" are not: found {low:.4g} to {high:.4g}. If these are log-odds, say so.",
            fixes=[{"input": "logits"}],
        )
    return np.stack([1 - scores, scores], axis=1)


def _in_order(
    scores: NDArray[Any], names: tuple[str, ...] | None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Put classes in the order that their names say, so that numbers as labels mean that order.

    ``LABEL_2, LABEL_0, LABEL_1`` are sorted by number, ``yes, no`` becomes ``no, yes``. Classes
    called 0, 1, 2, ... count as unnamed.
    """
    if names is None:
        return scores, None
    lower = [name.strip().lower() for name in names]
    is_reversed = len(names) == 2 and NEGATIVE.get(lower[0]) == lower[1]
    numbers = [1, 0] if is_reversed else numbers_in(names)
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
    reading: Reading,
) -> tuple[Matched | None, tuple[str, ...] | None, str | None]:
    """Return the labels as positions, the names of the classes, and the positive one."""
    roles, request, known = reading.roles, reading.request, reading.like.layout.known
    chosen = roles.scores
    if chosen.form == "single":
        matched, shown = match_binary(labels, reading.pair, chosen.positive, n_rows=len(scores))
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
        n_rows=len(scores),
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
    raise file_error(
        view.path,
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
    gone = chosen | {
        i
        for i, column in enumerate(schema.columns)
        if i == schema.class_names_at or column.problem is not None or column.n_rows != n_rows
    }
    names, others = view.kept(gone, roles.label)

    def rest() -> Any:
        table = pa.table([view.arrow(i) for i in others], names=names)
        return table.take(pa.array(rows)) if others and rows is not None else table

    is_stated = roles.scores.form == "single" and view[min(chosen)].plain in CONFIDENCE
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
