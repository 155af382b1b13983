"""Warnings about predictions that can be read but look wrong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.errors import Doubt, PredictionFileError, short
from focalibrate.io.roles.decide import Roles
from focalibrate.io.table import Table
from focalibrate.io.values.labels import Labels, Matched, first_number, match_labels


def doubts_about(
    scores: NDArray[Any],
    matched: Matched | None,
    prediction: NDArray[Any] | None,
    names: tuple[str, ...] | None,
    view: Table,
    roles: Roles,
) -> list[str]:
    """Return a warning for each sign that the classes or the rows are in the wrong order.

    Args:
        scores: ``[N, K]``.
        matched: the labels, or None.
        prediction: the predicted class of each row as stored, or None.
        names: of the classes.
        view: the file.
        roles: of its columns.
    """
    notes: list[str | None] = []
    kind, form = roles.scores.kind, roles.scores.form
    if matched is not None:
        notes = [_worse_than_chance(scores, matched.labels)]
        notes.append(_always_right(scores, matched.labels, kind))
        if matched.is_unclear and len(scores) >= 5 * scores.shape[1]:
            notes.append(
                "WARNING: the labels are counted from 0, so that no row is of the first class; if "
                "they are counted from 1, subtract 1 before you save them"
            )
    if form != "options":
        notes.append(_falling(scores))
    # the confidence of an answer is meant to be that of the predicted class
    is_of_one = form == "single" and roles.scores.outcome is None
    if matched is not None and is_of_one and kind == "probs":
        notes.append(_never_below_half(scores, matched.labels))
    found: list[str] = [Doubt(note) for note in notes if note is not None]
    if prediction is not None and roles.prediction is not None:
        form_of_labels = None if matched is None else matched.form
        found += _disagreement(scores, prediction, names, view, roles.prediction, form_of_labels)
    return found


def _worse_than_chance(scores: NDArray[Any], labels: NDArray[np.int64]) -> str | None:
    """Return a warning where the most probable class is right less often than by chance."""
    n, k = scores.shape
    part = slice(0, 1 << 20)
    right = float((np.argmax(scores[part], axis=1) == labels[part]).mean())
    if n < 50 or right >= 0.5 / k:
        return None
    return (
        f"WARNING: the class with the highest score is right in {right:.1%} of the rows, less "
        "often than by chance: check the order of the classes and of the rows"
    )


def _falling(scores: NDArray[Any]) -> str | None:
    """Return a warning where the first class is the likeliest in every row, then the second."""
    part = scores[: 1 << 16]
    if len(part) < 20 or part.shape[1] < 3 or (part[:, 1:] > part[:, :-1]).any():
        return None
    if (part == part[0]).all():
        return None
    return (
        "WARNING: in every row the scores fall from the first class to the last: if they are the "
        "highest, the second and so on, save one column per class instead"
    )


SURPRISE = 1e-6
"""Probability below which that every prediction is right is no coincidence."""


def _always_right(scores: NDArray[Any], labels: NDArray[np.int64], kind: str) -> str | None:
    """Return a warning where every label is the predicted class, and the scores deny that.

    By its own probabilities the model is right in all rows with the product of the highest.
    """
    part = scores[: 1 << 16]
    if not np.array_equal(np.argmax(part, axis=1), labels[: len(part)]):
        return None
    top = np.asarray(part.max(axis=1), np.float64)
    if kind == "logits":
        rest = np.asarray(part, np.float64) - top[:, None]
        log_top = -np.log(np.exp(rest).sum(axis=1))
    else:
        log_top = np.log(np.minimum(top, 1))
    if float(log_top.sum()) > np.log(SURPRISE):
        return None
    return (
        "WARNING: the label of every row is the class with the highest score; if it is the "
        "predicted class, pass the column of the true class: --label-column NAME"
    )


def _never_below_half(scores: NDArray[Any], labels: NDArray[np.int64]) -> str | None:
    """Return a warning where the positive class always seems likelier, but often is not true."""
    if len(scores) < 50 or (scores[:, 1] < 0.5).any() or (labels == 0).mean() < 0.2:
        return None
    return (
        "WARNING: the probability of the positive class is at least 0.5 in every row; if each "
        "value belongs to the predicted class, save the probability of one class instead"
    )


def _disagreement(
    scores: NDArray[Any],
    prediction: NDArray[Any],
    names: tuple[str, ...] | None,
    view: Table,
    position: int,
    form: str | None,
) -> list[str]:
    """Return how often a column of predictions differs from the class with the highest score.

    `form` is that of the labels: predictions that do not tell are numbered as they are.
    """
    name = short(view.name(position))
    if len(prediction) != len(scores):
        return []
    given = Labels(prediction, view.name(position), view.path)
    kept = ~given.missing(names)
    first = first_number(prediction[kept], n_classes=scores.shape[1])
    if first is None and form is not None:
        first = int(form == "index from 1")
    try:
        matched = match_labels(
            given[kept],
            n_rows=int(kept.sum()),
            n_classes=scores.shape[1],
            class_names=names,
            names_are_labels=True,
            first=first,
        )
    except PredictionFileError:
        return [f'column "{name}" could not be compared with the scores']
    top = np.take_along_axis(scores[kept], np.argmax(scores[kept], axis=1)[:, None], axis=1)[:, 0]
    own = np.take_along_axis(scores[kept], matched.labels[:, None], axis=1)[:, 0]
    rate = float((own < top).mean()) if kept.any() else 0.0
    if rate > 0:
        return [
            Doubt(
                f'WARNING: "{name}" differs from the class with the highest score in {rate:.1%} '
                "of the rows: check the order of the classes, or the threshold"
            )
        ]
    return []
