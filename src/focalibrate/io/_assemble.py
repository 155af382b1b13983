"""From the roles of a file's columns to checked predictions."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._binary_labels import NEGATIVE, match_binary
from focalibrate.io._dialect import is_numbering, numbers_in
from focalibrate.io._doubts import doubts_about
from focalibrate.io._error import file_error, listing, rows_text, short
from focalibrate.io._frame import Progress
from focalibrate.io._kept_columns import layout_of
from focalibrate.io._label_names import check_names
from focalibrate.io._label_rows import Matched
from focalibrate.io._labels import match_labels
from focalibrate.io._request import Request
from focalibrate.io._roles import Roles
from focalibrate.io._scores import checked_scores
from focalibrate.io._stored import (
    Stored,
    check_not_missing,
    class_names_of,
    complete_rows,
    read_stored,
)
from focalibrate.io._view import View
from focalibrate.io.predictions import Predictions

LEAST_ROWS = 20
"""In fewer rows it is no surprise that all have the same label."""


@dataclass(frozen=True)
class Settled:
    """What the first rows of a data set settled for all its batches.

    Attributes:
        pair: the negative and the positive label, where one column holds the scores.
        first: the number of the first class, 0 or 1, where the labels are numbers.
        is_first: this is the first batch, whose notes on the values are shown for all batches.
        keeps_half: logits in float16 stay so.
    """

    pair: tuple[str, str] | None = None
    first: int | None = None
    is_first: bool = False
    keeps_half: bool = False


def assemble(
    view: View,
    roles: Roles,
    request: Request,
    *,
    labels: tuple[NDArray[Any], str] | None,
    labels_path: Path | None,
    probs_atol: float,
    drop_missing: bool,
    progress: Progress,
    settled: Settled | None = None,
) -> Predictions | None:
    """Return the predictions of a file whose columns' roles are known, every row checked.

    Of a batch, no note is made that needs all rows of the file; where `drop_missing` leaves no
    row of a batch, None is returned.

    Args:
        view: the file.
        roles: of its columns.
        request: what the caller says about the file.
        labels: labels from another file and what they are called there.
        labels_path: that file.
        probs_atol: how far a row of probabilities may be from summing to 1.
        drop_missing: leave out rows without a label or with a missing score.
        progress: called with the work done and the total.
        settled: what is known of all rows, where these are a batch of them.
    """
    is_batch = settled is not None
    speaks = settled is None or settled.is_first
    chosen, labels_from = roles.scores, labels_path or view.path
    notes = [*view.frame.notes, *roles.notes]
    names = class_names_of(view, roles, request)
    stored = read_stored(view, roles, labels, names, is_batch=is_batch, with_prediction=speaks)
    kept = complete_rows(stored, names) if drop_missing else None
    if kept is not None:
        stored = stored.rows(kept)
        notes.append(f"{int((~kept).sum())} rows with missing values are left out")
        if not kept.any() and is_batch:
            return None
        if not kept.any():
            raise file_error(view.path, "has missing values in every row.")
    if stored.labels is not None:
        check_not_missing(stored.labels, names, labels_from)
    if view.frame.is_partial and stored.scores.dtype.kind == "f" and not drop_missing:
        _check_all_listed(stored.scores, view)
    scores, n_rounded = _scores(
        view,
        roles,
        stored.scores,
        probs_atol=probs_atol,
        progress=progress,
        keeps_half=settled is not None and settled.keeps_half,
    )
    if n_rounded and speaks:
        rows = "rows" if is_batch else f"{n_rounded} rows"
        notes.append(f"{rows} rounded so that they do not sum to 1: each is divided by its sum")
    check_names(names, n_classes=scores.shape[1], path=view.path)
    scores, names = _in_order(scores, names)
    matched, names, positive = _matched(
        stored, scores, names, view, roles, request, labels_from, settled or Settled()
    )
    if chosen.form == "single" and names is not None:
        scores, names, matched = _sorted_pair(scores, names, matched)
    if matched is not None:
        notes += matched.notes
    if speaks:
        notes += doubts_about(scores, matched, stored.prediction, names, view, roles)
    if chosen.kind == "probs" and not is_batch:
        notes += _zeros(scores)
    if matched is not None and not is_batch:
        notes += _one_label(matched.labels, names)
    column = stored.labels_name if labels is None else None
    return Predictions(
        scores=scores,
        kind=chosen.kind,
        labels=None if matched is None else matched.labels,
        class_names=names,
        source=view.path,
        checksum="",
        weights=stored.weights,
        groups=stored.groups,
        positive=positive,
        notes=tuple(dict.fromkeys(notes)),
        labels_name=None if matched is None else stored.labels_name,
        scores_names=tuple(view.name(i) for i in chosen.positions),
        layout=replace(layout_of(view, roles, matched, column, kept), class_names=names),
    )


def _scores(
    view: View,
    roles: Roles,
    stored: NDArray[Any],
    *,
    probs_atol: float,
    progress: Progress,
    keeps_half: bool,
) -> tuple[NDArray[Any], int]:
    """Return the scores ``[N, K]`` of all classes, every row checked, and how many are rounded."""
    chosen = roles.scores
    is_columns = chosen.form == "columns"
    name = chosen.kind if is_columns else view.name(chosen.positions[0])
    if chosen.form == "single":
        stored = _two_columns(stored, chosen.kind, view, name)
    return checked_scores(
        stored,
        kind=chosen.kind,
        name=name,
        names=tuple(view.name(i) for i in chosen.positions) if is_columns else (),
        was_half=any(view[i].is_half for i in chosen.positions),
        path=view.path,
        probs_atol=probs_atol,
        progress=progress,
        keeps_half=keeps_half,
    )


def _check_all_listed(scores: NDArray[Any], view: View) -> None:
    """Raise if rows list only some of the classes, such as those of the highest scores."""
    lacking = np.flatnonzero(np.isnan(scores.reshape(len(scores), -1)).any(axis=1))
    if len(lacking):
        raise file_error(
            view.path,
            "must list the scores of all classes in every row, but does not in "
            f"{rows_text(lacking[:5].tolist(), len(lacking))}. A Hugging Face pipeline writes "
            "all of them with `top_k=None`.",
        )


def _zeros(scores: NDArray[Any]) -> list[str]:
    """Return a note that counts the rows with a probability of exactly 0."""
    zeros = int((scores == 0).any(axis=1).sum()) if scores.size < 1 << 31 else 0
    rows = "1 row has" if zeros == 1 else f"{zeros} rows have"
    return [f"{rows} a probability of exactly 0"] if zeros else []


def _one_label(labels: NDArray[np.int64], names: tuple[str, ...] | None) -> list[str]:
    """Return a warning where many rows have the same label, all of them."""
    if len(labels) < LEAST_ROWS or (labels != labels[0]).any():
        return []
    label = str(labels[0]) if names is None else short(names[labels[0]])
    return [
        f"WARNING: the label of every row is {label}: check the labels. Rows of one class alone "
        "cannot show whether its probability is right"
    ]


def _two_columns(stored: NDArray[Any], kind: str, view: View, name: str) -> NDArray[Any]:
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
        rows = rows_text(bad[:5].tolist(), len(bad))
        if low >= 0 and 1 < high <= 100 and high > 50:
            raise file_error(
                view.path,
                f"`{short(name)}` must lie in [0, 1], but goes up to {high:.4g}, as percentages "
                "do.",
                fixes=[{"input": "percent"}],
            )
        raise file_error(
            view.path,
            f"`{short(name)}` must be probabilities in [0, 1], but {rows} are not: "
            f"found {low:.4g} to {high:.4g}. If these are log-odds, say so.",
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
    stored: Stored,
    scores: NDArray[Any],
    names: tuple[str, ...] | None,
    view: View,
    roles: Roles,
    request: Request,
    path: Path,
    settled: Settled,
) -> tuple[Matched | None, tuple[str, ...] | None, str | None]:
    """Return the labels as positions, the names of the classes, and the positive one."""
    labels, name = stored.labels, short(stored.labels_name)
    chosen = roles.scores
    if chosen.form == "single":
        matched, shown = match_binary(
            labels,
            positive=chosen.positive,
            requested=request.positive is not None,
            n_rows=len(scores),
            path=path,
            name=name,
            pair=settled.pair,
        )
        return matched, shown, chosen.positive if shown is None else shown[1]
    if request.positive is not None and names is not None and request.positive not in names:
        raise file_error(
            path,
            f"`positive` must be a class, got {request.positive!r}; they are {listing(names)}.",
        )
    if labels is None:
        return None, names, None
    _check_ordered(labels, names, view, roles, request)
    requested = chosen.class_names is None and request.class_names is not None
    by_column = chosen.form == "columns" or view.frame.numeric_classes or requested
    matched = match_labels(
        labels,
        n_rows=len(scores),
        n_classes=scores.shape[1],
        class_names=names,
        names_are_labels=by_column,
        path=path,
        name=name,
        first=settled.first,
    )
    return matched, matched.class_names if names is not None else None, None


def _check_ordered(
    labels: NDArray[Any], names: tuple[str, ...] | None, view: View, roles: Roles, request: Request
) -> None:
    """Raise if labels are numbers of classes that each row lists in another order."""
    if view.frame.is_ordered or names is None or request.score_columns is not None:
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


def _sorted_pair(
    scores: NDArray[Any], names: tuple[str, ...], matched: Matched | None
) -> tuple[NDArray[Any], tuple[str, ...] | None, Matched | None]:
    """Put the classes ("1", "0") of one column in the order 0, 1."""
    if names != ("1", "0"):
        return scores, names, matched
    if matched is not None:
        matched = replace(matched, labels=1 - matched.labels, class_names=None)
    return np.ascontiguousarray(scores[:, ::-1]), None, matched
