"""Warnings about predictions that can be read but look wrong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.errors import Doubt, PredictionFileError, short
from focalibrate.io.roles.decide import Roles
from focalibrate.io.table import Table
from focalibrate.io.values.labels import first_number, match_labels
from focalibrate.io.values.rows import Matched, missing_rows


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
    found = [] if matched is None else _worse_than_chance(scores, matched.labels)
    if matched is not None:
        found += _always_right(scores, matched.labels, roles.scores.kind)
        if matched.is_unclear and len(scores) >= 5 * scores.shape[1]:
            found.append(
                Doubt(
                    "WARNING: the labels are counted from 0, so that no row is of the first "
                    "class; if they are counted from 1, subtract 1 before you save them"
                )
            )
    if roles.scores.form != "options":
        found += _falling(scores)
    # the confidence of an answer is meant to be that of the predicted class
    is_of_one = roles.scores.form == "single" and roles.scores.outcome is None
    if matched is not None and is_of_one and roles.scores.kind == "probs":
        found += _never_below_half(scores, matched.labels)
    if prediction is not None and roles.prediction is not None:
        form = None if matched is None else matched.form
        found += _disagreement(scores, prediction, names, view, roles.prediction, form)
    return found


def _worse_than_chance(scores: NDArray[Any], labels: NDArray[np.int64]) -> list[str]:
    """Return a warning where the most probable class is right less often than by chance."""
    n, k = scores.shape
    if n < 50:
        return []
    part = slice(0, 1 << 20)
    right = float((np.argmax(scores[part], axis=1) == labels[part]).mean())
    if right < 0.5 / k:
        return [
            Doubt(
                f"WARNING: the class with the highest score is right in {right:.1%} of the rows, "
                "less often than by chance: check the order of the classes and of the rows"
            )
        ]
    return []


def _falling(scores: NDArray[Any]) -> list[str]:
    """Return a warning where the first class is the likeliest in every row, then the second."""
    part = scores[: 1 << 16]
    if len(part) < 20 or part.shape[1] < 3 or (part[:, 1:] > part[:, :-1]).any():
        return []
    if (part == part[0]).all():
        return []
    return [
        Doubt(
            "WARNING: in every row the scores fall from the first class to the last: if they are "
            "the highest, the second and so on, save one column per class instead"
        )
    ]


SURPRISE = 1e-6
"""Probability below which that every prediction is right is no coincidence."""


def _always_right(scores: NDArray[Any], labels: NDArray[np.int64], kind: str) -> list[str]:
    """Return a warning where every label is the predicted class, and the scores deny that.

    By its own probabilities the model is right in all rows with the product of the highest.
    """
    part = scores[: 1 << 16]
    if not np.array_equal(np.argmax(part, axis=1), labels[: len(part)]):
        return []
    top = np.asarray(part.max(axis=1), np.float64)
    if kind == "logits":
        rest = np.asarray(part, np.float64) - top[:, None]
        log_top = -np.log(np.exp(rest).sum(axis=1))
    else:
        log_top = np.log(np.minimum(top, 1))
    if float(log_top.sum()) > np.log(SURPRISE):
        return []
    return [
        Doubt(
            "WARNING: the label of every row is the class with the highest score; if it is the "
            "predicted class, pass the column of the true class: --label-column NAME"
        )
    ]


def _never_below_half(scores: NDArray[Any], labels: NDArray[np.int64]) -> list[str]:
    """Return a warning where the positive class always seems likelier, but often is not true."""
    if len(scores) < 50 or (scores[:, 1] < 0.5).any() or (labels == 0).mean() < 0.2:
        return []
    return [
        Doubt(
            "WARNING: the probability of the positive class is at least 0.5 in every row; if each "
            "value belongs to the predicted class, save the probability of one class instead"
        )
    ]


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
    kept = ~missing_rows(prediction, names)
    first = first_number(prediction[kept], n_classes=scores.shape[1])
    if first is None and form is not None:
        first = int(form == "index from 1")
    try:
        matched = match_labels(
            prediction[kept],
            n_rows=int(kept.sum()),
            n_classes=scores.shape[1],
            class_names=names,
            names_are_labels=True,
            path=view.path,
            name=name,
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
