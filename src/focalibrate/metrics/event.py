"""The rows of one event: how probable it was called, and whether it happened."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, array_of, to_numpy
from focalibrate._check import check_count, column_names
from focalibrate.metrics.binning import Ints
from focalibrate.metrics.residuals import Residuals, row_cells
from focalibrate.metrics.rows import read, read_weights, top_label

EventKind = Literal["top label", "positive class", "correct"]
MAX_TESTED_CLASSES = 20
"""The other classes are tested together."""


@dataclass(frozen=True, eq=False)
class EventRows:
    """Rows with the probability and the outcome of one event."""

    kind: EventKind
    name: str | None
    """of the class whose probability it is, where it is known"""
    probability: Floats
    """``[N]``"""
    outcome: Floats
    """``[N]``, 0 or 1, or between"""
    weights: Floats | None
    copies: bool
    """whether weights count copies of a row"""
    probs: NDArray[Any] | None = None
    """of all classes ``[N, K]``, where they are known"""
    labels: Ints | None = None
    class_names: tuple[str, ...] | None = None
    code: Ints | None = None
    """number of the cluster of each row"""

    @property
    def n_classes(self) -> int:
        """Number of classes; 2 for a confidence and whether it was right."""
        return 2 if self.probs is None else self.probs.shape[1]

    @property
    def counts(self) -> NDArray[np.bool_]:
        """Which rows have a weight above 0."""
        if self.weights is None:
            return np.ones(len(self.outcome), dtype=np.bool_)
        return self.weights > 0

    def cells(self) -> Residuals:
        """One cell per row, in order of probability."""
        return row_cells(self.probability, self.outcome, self.weights, copies=self.copies)

    def take(self, at: Ints) -> "EventRows":
        """Return the rows `at`."""
        return EventRows(
            self.kind,
            self.name,
            self.probability[at],
            self.outcome[at],
            None if self.weights is None else self.weights[at],
            self.copies,
            None if self.probs is None else self.probs[at],
            None if self.labels is None else self.labels[at],
            self.class_names,
            None if self.code is None else renumbered(self.code[at]),
        )

    @property
    def code_in_order(self) -> Ints | None:
        """The clusters of the rows in order of probability, as those of `cells`."""
        if self.code is None:
            return None
        return self.code[np.argsort(self.probability, kind="stable")]

    def by_class(self) -> "list[tuple[int | None, EventRows]]":
        """Return the rows of each class's probability, for more than two classes.

        The 20 most frequent by their predictions, and the rest as one class, None. Not by their
        labels: classes chosen because they occurred often would look underestimated.
        """
        if self.probs is None or self.labels is None or self.n_classes == 2:
            return []
        k = self.n_classes
        w = np.ones(len(self.labels)) if self.weights is None else self.weights
        largest = np.argsort(-(w @ self.probs), kind="stable")[:MAX_TESTED_CLASSES]
        found: list[tuple[int | None, EventRows]] = [
            (int(c), self._of_class(self.probs[:, c].astype(np.float64), self.labels == c))
            for c in np.sort(largest)
        ]
        if k > MAX_TESTED_CLASSES:
            is_rest = np.ones(k, dtype=np.bool_)
            is_rest[largest] = False
            total = np.clip(self.probs.astype(np.float64) @ is_rest, 0.0, 1.0)
            found.append((None, self._of_class(total, is_rest[self.labels])))
        return found

    def _of_class(self, value: Floats, happened: NDArray[np.bool_]) -> "EventRows":
        outcome = happened.astype(np.float64)
        return EventRows(
            "positive class", None, value, outcome, self.weights, self.copies, code=self.code
        )


def read_event(
    probs: Array | None,
    labels: Array | None,
    *,
    confidence: Array | None = None,
    correct: Array | None = None,
    event: int | Literal["top label"] | None = None,
    class_names: Sequence[str] | None = None,
    sample_weight: Array | None = None,
    copies: bool = False,
    cluster: Array | None = None,
    keep_all: bool = False,
) -> EventRows:
    """Return the rows of the event that the arguments of `assess` speak of.

    Rows of weight 0 are left out, unless `keep_all` is set.
    """
    if (probs is None) != (labels is None) or (confidence is None) != (correct is None):
        raise ValueError("pass `probs` with `labels`, or `confidence` with `correct`.")
    if (probs is None) == (confidence is None):
        raise ValueError("pass either `probs` and `labels` or `confidence` and `correct`.")
    if probs is None or labels is None:
        value, outcome = read_outcomes(confidence, correct)
        found = EventRows("correct", None, value, outcome, None, copies)
    else:
        found = _class_event(probs, labels, event, class_names)
    if cluster is not None:
        found = replace(found, code=cluster_codes(cluster, len(found.outcome)))
    weights = read_weights(sample_weight, len(found.outcome))
    if weights is None:
        return found
    found = replace(found, weights=weights, copies=copies)
    return found if keep_all or found.counts.all() else found.take(np.flatnonzero(found.counts))


def _class_event(
    probs: Array,
    labels: Array,
    event: int | Literal["top label"] | None,
    class_names: Sequence[str] | None,
) -> EventRows:
    names = column_names(probs) if class_names is None else tuple(map(str, class_names))
    rows, y = read(probs, labels, binary=np.ndim(probs) == 1)
    k = rows.shape[1]
    if names is not None and len(names) != k:
        raise ValueError(f"`class_names` must be {k} names, got {len(names)}.")
    if event is None:
        event = 1 if k == 2 else "top label"
    if event == "top label":
        value, right = top_label(rows, y)
        kind: EventKind = "top label"
        return EventRows(kind, None, value, right.astype(np.float64), None, False, rows, y, names)
    check_count(event, name="event", minimum=0)
    if event >= k:
        raise ValueError(f'`event` must be "top label" or a class below {k}, got {event!r}.')
    value, happened = rows[:, event].astype(np.float64), (y == event).astype(np.float64)
    name = None if names is None else names[event]
    known = rows if k == 2 else None
    return EventRows("positive class", name, value, happened, None, False, known, y, names)


def read_outcomes(confidence: Any, correct: Any) -> tuple[Floats, Floats]:
    """Return a confidence and whether it was right, float64 ``[N]`` each, both in [0, 1]."""
    arrays = []
    for values, name, hint in (
        (confidence, "confidence", "Pass probabilities, not logits or percent."),
        (correct, "correct", "Pass 0 and 1, booleans, or outcomes between (a tie is 0.5)."),
    ):
        try:
            x = np.asarray(to_numpy(array_of(values)), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{name}` must be one number per row: {error}. {hint}") from error
        if x.ndim != 1 or not len(x):
            raise ValueError(f"`{name}` must be one number per row, got shape {x.shape}. {hint}")
        bad = ~((x >= 0.0) & (x <= 1.0))
        if bad.any():
            row = int(bad.argmax())
            raise ValueError(f"`{name}` must lie in [0, 1], but row {row} has {x[row]:g}. {hint}")
        arrays.append(x)
    if len(arrays[0]) != len(arrays[1]):
        raise ValueError(
            f"`confidence` and `correct` must have the same length, got {len(arrays[0])} and "
            f"{len(arrays[1])}."
        )
    return arrays[0], arrays[1]


def cluster_codes(cluster: Any, n: int) -> Ints:
    """Return the number of the cluster of each row ``[N]``."""
    names = np.asarray(to_numpy(array_of(cluster))).reshape(-1)
    if len(names) != n:
        raise ValueError(f"`cluster` must name the cluster of each of {n} rows, got {len(names)}.")
    if names.dtype == object:
        names = names.astype(str)
    return renumbered(names)


def renumbered(names: NDArray[Any]) -> Ints:
    """Return the place of each name among the distinct ones."""
    return np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.intp)
