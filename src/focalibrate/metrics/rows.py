"""Rows of probabilities and their labels, as NumPy arrays: the input of every metric."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, array_of, to_numpy
from focalibrate._check import (
    check_binary_probs,
    check_count,
    check_label_weight,
    check_labels,
    check_log_probs,
    check_logits,
    check_probs,
    check_rows,
    check_same_names,
    check_same_order,
    check_sample_weight,
    check_unit_array,
    column_names,
    labels_for,
)
from focalibrate.metrics.binning import Ints
from focalibrate.metrics.residuals import Residuals

Event = int | Literal["top label"]
"""What a probability is of: the prediction is right, or the label is a class."""
Given = Literal["probs", "log_probs", "logits"]

EventKind = Literal["top label", "positive class", "correct"]
MAX_TESTED_CLASSES = 20
"""The other classes are tested together."""

CHUNK_ENTRIES = 1 << 16
"""Entries worked on at once: half a megabyte in float64, which stays in the cache."""
COLUMN_LOOP_MAX = 32
"""Up to this many classes, reductions over columns beat NumPy's reductions of short rows."""


CHECKS = {"probs": check_probs, "log_probs": check_log_probs, "logits": check_logits}


def read_rows(
    scores: Array, *, given: Given = "probs", binary: bool = False, name: str | None = None
) -> NDArray[Any]:
    """Return checked scores as ``[N, K]``, float32 or float64; ``[N]`` needs `binary`.

    A float32 matrix stays float32 (nothing is copied) and every entry is used at its exact
    value. Binary scores become float64 first, so that ``1 - p`` is exact for a float32 `p`
    of at least 2**-30.
    """
    scores, name = array_of(scores), name or given
    if binary:
        check_binary_probs(scores, name=name)  # on the caller's own array
        p = to_numpy(scores).astype(np.float64)
        return np.stack([1.0 - p, p], axis=-1)
    check_rows(scores, name=name)
    CHECKS[given](scores, name=name)
    rows = to_numpy(scores).reshape(-1, scores.shape[-1])
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float32)


def read(
    scores: Array, labels: Array, *, given: Given = "probs", binary: bool = False
) -> tuple[NDArray[Any], Ints]:
    """Return checked scores ``[N, K]`` and class indices ``[N]``."""
    labels, scores = labels_for(scores, labels), array_of(scores)
    rows = read_rows(scores, given=given, binary=binary)
    shape = tuple(scores.shape) if binary else tuple(scores.shape[:-1])
    check_labels(labels, shape=shape, n_classes=rows.shape[-1])
    return rows, to_numpy(labels).reshape(-1).astype(np.intp, copy=False)


def read_label_matrix(
    probs: Array, labels: Array, sample_weight: Array | None
) -> tuple[Floats, NDArray[np.bool_], Floats | None]:
    """Return checked probabilities, labels and weights of a multi-label head, ``[N, C]`` each."""
    probs, labels = array_of(probs), array_of(labels)
    check_unit_array(probs, name="probs")
    p, y = to_numpy(probs).astype(np.float64), to_numpy(labels)
    if p.ndim != 2 or p.shape != y.shape:
        raise ValueError(
            f"`probs` and `labels` must both have shape [N, C], got {list(p.shape)} and "
            f"{list(y.shape)}. For one class per example use `ece`."
        )
    if not np.isin(y, (0, 1)).all():
        raise ValueError("`labels` must be 0 or 1. Give an unknown label the weight 0.")
    weights = None
    if sample_weight is not None:
        weights = check_label_weight(array_of(sample_weight), shape=p.shape)
    return p, y.astype(np.bool_), weights


def read_weights(sample_weight: Array | None, n_rows: int) -> Floats | None:
    """Return checked weights ``[N]``, None if there are none."""
    if sample_weight is None:
        return None
    return check_sample_weight(array_of(sample_weight), n_rows=n_rows)


def row_chunks(n_rows: int, n_columns: int, entries: int = CHUNK_ENTRIES) -> Iterator[slice]:
    """Yield slices that cut `n_rows` into pieces of about so many entries."""
    step = max(1, entries // n_columns)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def true_class(rows: NDArray[Any], labels: Ints) -> Floats:
    """Return the probability of each row's label, float64 ``[N]``."""
    return rows[np.arange(len(rows)), labels].astype(np.float64)


def top_label(rows: NDArray[Any], labels: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Return each row's largest probability (float64) and whether that class is the label.

    If several classes share the largest probability, the first is predicted.
    """
    n, k = rows.shape
    if k > COLUMN_LOOP_MAX:
        predicted = rows.argmax(axis=1)
        return rows[np.arange(n), predicted].astype(np.float64), predicted == labels
    confidence, correct = np.empty(n), np.empty(n, dtype=np.bool_)
    for part in row_chunks(n, k):
        table = np.ascontiguousarray(rows[part].T)
        confidence[part], correct[part] = top_of_columns(table, labels[part])
    return confidence, correct


def top_of_columns(table: NDArray[Any], labels: Ints) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the same of scores ``[K, N]``; NumPy is slow at many short rows."""
    top = table.max(axis=0)
    correct = table[labels, np.arange(len(labels))] == top
    if np.count_nonzero(table == top) > len(top):  # shared tops
        correct &= table.argmax(axis=0) == labels
    return top, np.asarray(correct)


class RowOptions(TypedDict, total=False):
    """Which rows a metric of one event is of; see `focalibrate.metrics.ece`."""

    event: Event
    sample_weight: Array | None
    binary: bool


def read_rows_of_event(
    probs: Array,
    labels: Array,
    *,
    event: Event = "top label",
    sample_weight: Array | None = None,
    binary: bool = False,
) -> tuple[Floats, NDArray[np.bool_], Floats | None]:
    """Return the probability of an event, whether it happened, and the weights ``[N]``."""
    c, y = event_rows(*read(probs, labels, binary=binary), event)
    return c, y, read_weights(sample_weight, len(c))


def event_rows(rows: NDArray[Any], labels: Ints, event: Event) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the probability of an event (float64) and whether it happened, ``[N]`` each."""
    if event == "top label":
        return top_label(rows, labels)
    check_count(event, name="event", minimum=0)
    if event >= rows.shape[1]:
        raise ValueError(
            f'`event` must be "top label" or a class below {rows.shape[1]}, got {event!r}.'
        )
    return rows[:, event].astype(np.float64), labels == event


def read_groups(
    groups: Array | Mapping[str, Array] | None, n: int, *, argument: str = "groups"
) -> dict[str, NDArray[Any]]:
    """Return the columns of groups ``[n]`` by name."""
    if groups is None:
        return {}
    named = groups if isinstance(groups, Mapping) else {"group": groups}
    found = {}
    for name, column in named.items():
        values = np.asarray(to_numpy(column)).reshape(-1)
        if len(values) != n:
            raise ValueError(
                f"`{argument}`: column {name!r} must have {n} rows, got {len(values)}."
            )
        found[name] = values
    return found


@dataclass(frozen=True, eq=False)
class EventRows:
    """Rows with the probability and the outcome of one event."""

    kind: EventKind
    probability: Floats
    """``[N]``"""
    outcome: Floats
    """``[N]``, 0 or 1, or between"""
    weights: Floats | None
    copies: bool
    """whether weights count copies of a row"""
    code: Ints | None
    """number of the cluster of each row"""
    name: str | None = None
    """of the class whose probability it is, where it is known"""
    probs: NDArray[Any] | None = None
    """of all classes ``[N, K]``, where they are known"""
    labels: Ints | None = None
    class_names: tuple[str, ...] | None = None

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
        return self._cells(self.probability, self.outcome)

    def _cells(self, value: Floats, outcome: NDArray[Any]) -> Residuals:
        return Residuals.of_rows(value, outcome, self.weights, copies=self.copies, code=self.code)

    def take(self, at: Ints) -> "EventRows":
        """Return the rows `at`."""
        names = ("probability", "outcome", "weights", "probs", "labels", "code")
        arrays = {name: getattr(self, name) for name in names}
        taken = {name: x[at] for name, x in arrays.items() if x is not None}
        if self.code is not None:
            taken["code"] = renumbered(taken["code"])
        return replace(self, **taken)

    def by_class(self) -> list[tuple[int | None, Residuals]]:
        """Return the cells of each class's probability, for more than two classes.

        The 20 most frequent by their predictions, and the rest as one class, None. Not by their
        labels: classes chosen because they occurred often would look underestimated.
        """
        if self.probs is None or self.labels is None or self.n_classes == 2:
            return []
        w = np.ones(len(self.labels)) if self.weights is None else self.weights
        largest = most_frequent(w @ self.probs)
        found: list[tuple[int | None, Residuals]] = [
            (c, self._cells(self.probs[:, c].astype(np.float64), self.labels == c))
            for c in largest
        ]
        if self.n_classes > len(largest):
            is_rest = ~np.isin(np.arange(self.n_classes), largest)
            total = np.clip(self.probs.astype(np.float64) @ is_rest, 0.0, 1.0)
            found.append((None, self._cells(total, is_rest[self.labels])))
        return found


def most_frequent(expected: Floats) -> list[int]:
    """Return the classes that are tested one by one, from how often each is expected."""
    found: list[int] = np.sort(np.argsort(-expected, kind="stable")[:MAX_TESTED_CLASSES]).tolist()
    return found


class WeightOptions(TypedDict, total=False):
    """What the rows weigh; see `assess`."""

    sample_weight: Array | None
    copies: bool


class EventArguments(WeightOptions, total=False):
    """Which rows a function is about, beside `probs` and `labels`; see `assess`."""

    confidence: Array | None
    correct: Array | None
    event: Event | None
    cluster: Array | None


def read_event(
    probs: Array | None,
    labels: Array | None,
    *,
    confidence: Array | None = None,
    correct: Array | None = None,
    event: Event | None = None,
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
    first, called = (confidence, "confidence") if probs is None else (probs, "scores")
    beside = {"cluster": cluster, "sample_weight": sample_weight}
    check_same_order(first, beside, name=called)
    kind: EventKind = "correct"
    outcome: NDArray[Any]
    of_class: dict[str, Any] = {}
    if probs is None or labels is None:
        value, outcome = read_outcomes(confidence, correct)
    else:
        names = column_names(probs) if class_names is None else tuple(map(str, class_names))
        check_same_names(probs, class_names)
        rows, y = read(probs, labels, binary=np.ndim(probs) == 1)
        k = rows.shape[1]
        if names is not None and len(names) != k:
            raise ValueError(f"`class_names` must be {k} names, got {len(names)}.")
        event = (1 if k == 2 else "top label") if event is None else event
        value, outcome = event_rows(rows, y, event)
        of_class = {"labels": y, "class_names": names}
        if event == "top label" or k == 2:
            of_class["probs"] = rows
        kind = "top label" if event == "top label" else "positive class"
        if event != "top label" and names is not None:
            of_class["name"] = names[event]
    n = len(outcome)
    code = None if cluster is None else cluster_codes(cluster, n)
    weights = read_weights(sample_weight, n)
    outcome = outcome.astype(np.float64)
    found = EventRows(kind, value, outcome, weights, copies, code, **of_class)
    return found if keep_all or found.counts.all() else found.take(np.flatnonzero(found.counts))


def read_outcomes(confidence: Any, correct: Any) -> tuple[Floats, Floats]:
    """Return a confidence and whether it was right, float64 ``[N]`` each, both in [0, 1]."""
    check_same_order(confidence, {"correct": correct}, name="confidence")
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
    check_clusters(names)
    return renumbered(names)


def check_clusters(names: NDArray[Any]) -> None:
    """Raise where the cluster of a row is missing: which rows belong with it is not known."""
    if names.dtype == object:  # of pandas: None, nan, NaT, NA
        absent = ("None", "nan", "NaT", "<NA>")
        missing = np.flatnonzero(
            [v == "" if isinstance(v, str) else str(v) in absent for v in names]
        )
    else:
        missing = np.flatnonzero((names == "") if names.dtype.kind == "U" else names != names)
    if len(missing):
        raise ValueError(
            f"`cluster` must name the cluster of every row, but not in {len(missing)}, first in "
            f"row {missing[0]}. Give each such row a name of its own, or leave these rows out."
        )


def renumbered(names: NDArray[Any]) -> Ints:
    """Return the place of each name among the distinct ones; names of several types as text."""
    names = names.astype(str) if names.dtype == object else names
    return np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.intp)
