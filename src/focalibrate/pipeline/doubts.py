"""Signs that predictions and labels do not belong together, or are not what they are taken for."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._stable import log_softmax
from focalibrate.io.join import row_hashes
from focalibrate.pipeline.examples import Examples

LOOKED_AT = 2_000_000
"""Scores that are looked at; of more, evenly spaced rows."""
LEAST_ROWS = 30
"""Fewer rows than this show nothing."""
SHOWN = 3
"""Most classes that a message names."""
MANY = 2000
"""Of more classes than this, their order is not looked at."""
ROWS = (
    "Likely cause: the labels belong to other rows, or are in another order than the scores. Join "
    "them by an id before you save them (command line: --id-column)."
)


OPTIMISTIC = "Every method would look better than it is. Evaluate on other rows."


class DataWarning(UserWarning):
    """Predictions or labels look wrong."""


class WrongDataWarning(DataWarning):
    """They look so wrong that results are meaningless: a command stops, see ``--anyway``."""


def doubts_about(
    fitted: Examples, test: Examples | None = None, *, to_fit: bool = False
) -> tuple[DataWarning, ...]:
    """Return what looks wrong with predictions and their labels.

    Args:
        fitted: the examples.
        test: the examples that are evaluated on, if they are others.
        to_fit: whether a calibrator is fitted, which labels of one class would ruin.
    """
    found = [*_of_one(fitted, to_fit=to_fit)]
    if test is not None:
        found += [*_of_one(test), *_shared_rows(fitted, test)]
    return tuple({str(doubt): doubt for doubt in found}.values())


def warn_of(doubts: Sequence[DataWarning], *, stacklevel: int = 3) -> None:
    """Warn of doubts, in the name of whoever called a public function."""
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=stacklevel)


def _of_one(examples: Examples, *, to_fit: bool = False) -> list[DataWarning]:
    step = max(1, examples.scores.size // LOOKED_AT)
    scores, labels = np.asarray(examples.scores[::step], np.float64), examples.labels[::step]
    found = [*_labels_missing(examples, to_fit=to_fit), *_probabilities(examples, scores)]
    if len(labels) >= LEAST_ROWS:
        probs = scores if examples.kind == "probs" else np.exp(log_softmax(scores))
        found += _chance(examples, probs, labels)
    return found


def _place(examples: Examples) -> str:
    return f"{examples.source.name}: " if examples.source.name else ""


def _names(examples: Examples, classes: Sequence[int]) -> str:
    names = examples.class_names or tuple(f"class {i}" for i in range(examples.n_classes))
    more = f" and {len(classes) - SHOWN:,} more" if len(classes) > SHOWN else ""
    return ", ".join(names[i] for i in classes[:SHOWN]) + more


def _labels_missing(examples: Examples, *, to_fit: bool) -> list[DataWarning]:
    """Return doubts about labels of one class only, and about classes that never occur.

    Options are ranked by their scores: that no row's lowest one is right says nothing.
    """
    if examples.order is not None:
        return []
    counts = np.bincount(examples.labels, minlength=examples.n_classes)
    never = np.flatnonzero(counts == 0).tolist()
    if not never or examples.n_rows < LEAST_ROWS:
        return []
    stops = False
    if len(never) == examples.n_classes - 1:
        only, stops = _names(examples, [int(np.argmax(counts))]), to_fit
        text = f"every label is {only}, so nothing can be learned about the other classes"
    elif examples.n_rows < 5 * examples.n_classes:
        return []  # rare classes need not occur in so few rows
    else:
        verb, which = ("has", "this label") if len(never) == 1 else ("have", "these labels")
        text = (
            f"{_names(examples, never)} {verb} scores, but no row has {which}. "
            "Check that labels and scores name the same classes"
        )
    kind = WrongDataWarning if stops else DataWarning
    return [kind(f"{_place(examples)}{text}.")]


def _probabilities(examples: Examples, scores: Floats) -> list[DataWarning]:
    """Return a doubt about arrays of logits that are probabilities; a file's reader says it."""
    if examples.kind == "probs" or examples.source.name or not looks_like_probabilities(scores):
        return []
    return [
        DataWarning(
            f"{_place(examples)}the `logits` look like probabilities: all lie in [0, 1] and every "
            "row sums to 1. Pass them as `probs` (command line: --input probs)."
        )
    ]


def looks_like_probabilities(scores: Floats) -> bool:
    """Return whether all rows lie in [0, 1] and sum to 1.

    Example:
        >>> looks_like_probabilities(np.array([[0.25, 0.75], [0.5, 0.5]]))
        True
    """
    if scores.shape[-1] < 2 or not scores.size:
        return False
    is_within = float(scores.min()) >= 0.0 and float(scores.max()) <= 1.0
    return is_within and bool(np.all(np.abs(scores.sum(axis=-1) - 1.0) < 1e-3))


def _chance(examples: Examples, probs: Floats, labels: NDArray[np.int64]) -> list[DataWarning]:
    r"""Return a doubt where scores say nothing about labels, though they claim to.

    With label frequencies :math:`f`, the gain :math:`p_y - \sum_k f_k p_k` has mean 0 where
    scores and labels are independent, and mean :math:`\sum_k p_k^2 - f_k p_k` where the
    probabilities are right. The doubt is that it is not clearly above the first (2 standard
    errors) and far below the second (4). So a weak model that claims little is none, and neither
    is a rare class that is never predicted.
    """
    rows = np.arange(len(labels))
    frequency = np.bincount(labels, minlength=probs.shape[1]) / len(labels)
    if np.count_nonzero(frequency) < 2:
        return []
    expected = probs @ frequency
    gain = probs[rows, labels] - expected
    claimed = (probs**2).sum(axis=1) - expected
    root = np.sqrt(len(labels))
    is_above = gain.mean() > 2.0 * gain.std() / root
    is_far = (claimed - gain).mean() > 4.0 * (claimed - gain).std() / root
    if is_above or not is_far:
        return []
    top = probs.argmax(axis=1)
    right = float((top == labels).mean())
    chance = float(np.bincount(top, minlength=probs.shape[1]) @ frequency) / len(labels)
    text = (
        f"{_place(examples)}the scores predict the labels no better than chance: {right:.1%} of "
        f"the rows are right, {chance:.1%} are expected by chance, and the probabilities claim "
        f"{probs.max(axis=1).mean():.1%}."
    )
    return [WrongDataWarning(f"{text} {_likely_cause(examples, top, labels, right)}")]


def _likely_cause(
    examples: Examples, top: NDArray[np.intp], labels: NDArray[np.int64], right: float
) -> str:
    """Return what would explain that labels do not fit: classes, or rows, in another order."""
    k = examples.n_classes
    if k > MANY:
        return ROWS
    counts = np.bincount(top * k + labels, minlength=k * k).reshape(k, k)
    as_label = counts.argmax(axis=1)
    predicted = np.flatnonzero(counts.sum(axis=1))
    found = float(counts.max(axis=1).sum()) / len(labels)
    is_one_to_one = len(set(as_label[predicted].tolist())) == len(predicted) > 1
    if is_one_to_one and found > max(2 * right, 0.5):
        moved = [i for i in predicted.tolist() if as_label[i] != i][:SHOWN]
        pairs = ", ".join(
            f"{_names(examples, [i])} where the label is {_names(examples, [int(as_label[i])])}"
            for i in moved
        )
        return (
            "Likely cause: the classes of the scores are in another order than the labels assume. "
            f"The scores predict {pairs}; in this order {found:.1%} would be right. "
            "Name the classes in the order of the scores: `class_names` (command line: "
            "--class-names; --positive for one column)."
        )
    return ROWS


def _shared_rows(fitted: Examples, test: Examples) -> list[DataWarning]:
    """Return a doubt about test rows that are fitted on too, by a hash of scores and label.

    Scores of few distinct values agree by chance: what counts is how much more often rows of the
    test set are found among those fitted on than these repeat each other.
    """
    if fitted.checksum and fitted.checksum == test.checksum:
        text = "the test file is identical to the file that methods are fitted on"
        return [WrongDataWarning(f"{_place(test)}{text}. {OPTIMISTIC}")]
    mine, others = (row_hashes(one.scores, one.labels) for one in (fitted, test))
    shared = float(np.isin(others, mine).mean())
    repeated = 1.0 - len(np.unique(mine)) / len(mine)
    if shared <= 0.01 + 5.0 * repeated:
        return []
    text = (
        f"{shared:.0%} of the test rows are also fitted on (same scores, same label). {OPTIMISTIC}"
    )
    kind = WrongDataWarning if shared > 0.5 else DataWarning
    return [kind(f"{_place(test)}{text}")]
