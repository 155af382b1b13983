"""Warnings about predictions that can be read but look wrong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.errors import Doubt, PredictionFileError, short
from focalibrate.io.roles.facts import Scores
from focalibrate.io.values.labels import Labels, Matched, first_number, match_labels


def doubts_about(scores: NDArray[Any], matched: Matched | None, chosen: Scores) -> list[Doubt]:
    """Return a warning for each sign that the classes or the rows are in the wrong order.

    Args:
        scores: ``[N, K]``.
        matched: the labels, or None.
        chosen: which columns the scores are from.
    """
    notes = [] if chosen.form == "options" else [_falling(scores)]
    if matched is not None:
        notes.append(_worse_than_chance(scores, matched.labels))
        notes.append(_always_right(scores, matched.labels, chosen.kind))
        if matched.is_unclear and len(scores) >= 5 * scores.shape[1]:
            notes.append(
                "the labels are counted from 0, so that no row is of the first class; if "
                "they are counted from 1, subtract 1 before you save them"
            )
        # the confidence of an answer is meant to be that of the predicted class
        if chosen.form == "single" and chosen.outcome is None and chosen.kind == "probs":
            notes.append(_never_below_half(scores, matched.labels))
    return [Doubt(f"WARNING: {note}") for note in notes if note is not None]


def _worse_than_chance(scores: NDArray[Any], labels: NDArray[np.int64]) -> str | None:
    """Return a warning where the most probable class is right less often than by chance."""
    n, k = scores.shape
    part = slice(0, 1 << 20)
    right = float((np.argmax(scores[part], axis=1) == labels[part]).mean())
    if n < 50 or right >= 0.5 / k:
        return None
    return (
        f"the class with the highest score is right in {right:.1%} of the rows, less "
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
        "in every row the scores fall from the first class to the last: if they are the "
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
        "the label of every row is the class with the highest score; if it is the "
        "predicted class, pass the column of the true class: --label-column NAME"
    )


def _never_below_half(scores: NDArray[Any], labels: NDArray[np.int64]) -> str | None:
    """Return a warning where the positive class always seems likelier, but often is not true."""
    if len(scores) < 50 or (scores[:, 1] < 0.5).any() or (labels == 0).mean() < 0.2:
        return None
    return (
        "the probability of the positive class is at least 0.5 in every row; if each "
        "value belongs to the predicted class, save the probability of one class instead"
    )


def disagreement(
    scores: NDArray[Any],
    predicted: Labels,
    names: tuple[str, ...] | None,
    matched: Matched | None,
) -> list[str]:
    """Return how often a column of predictions differs from the class with the highest score.

    Numbers that do not tell from where they count do so as the labels do.
    """
    name, k = short(predicted.name), scores.shape[1]
    if len(predicted.values) != len(scores):
        return []
    kept = ~predicted.missing(names)
    given, scores = predicted[kept], scores[kept]
    first = first_number(given.values, n_classes=k)
    if first is None and matched is not None:
        first = int(matched.form == "index from 1")
    try:
        found = match_labels(
            given,
            n_rows=len(scores),
            n_classes=k,
            class_names=names,
            names_are_labels=True,
            first=first,
        )
    except PredictionFileError:
        return [f'column "{name}" could not be compared with the scores']
    own = np.take_along_axis(scores, found.labels[:, None], axis=1)[:, 0]
    rate = float((own < scores.max(axis=1)).mean()) if len(scores) else 0.0
    if rate == 0:
        return []
    return [
        Doubt(
            f'WARNING: "{name}" differs from the class with the highest score in {rate:.1%} '
            "of the rows: check the order of the classes, or the threshold"
        )
    ]
