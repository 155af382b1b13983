"""Rows of probabilities and their labels, as NumPy arrays: the input of every metric."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, array_of, to_numpy
from focalibrate._check import (
    binary_probs,
    check_count,
    check_label_weight,
    check_labels,
    check_probs,
    check_rows,
    check_sample_weight,
    check_unit_array,
    labels_for,
)

Event = int | Literal["top label"]
"""What a probability is of: the prediction is right, or the label is a class."""

CHUNK_ENTRIES = 1 << 16
"""Entries worked on at once: half a megabyte in float64, which stays in the cache."""
COLUMN_LOOP_MAX = 32
"""Up to this many classes, a maximum over columns beats NumPy's reduction of short rows."""


def read_probs(probs: Array, *, binary: bool = False, name: str = "probs") -> NDArray[Any]:
    """Return checked probabilities as ``[N, K]``, float32 or float64; ``[N]`` needs `binary`.

    A float32 matrix stays float32 (nothing is copied) and every entry is used at its exact
    value. Binary scores become float64 first, so that ``1 - p`` is exact for a float32 `p`
    of at least 2**-30.
    """
    probs = array_of(probs)
    if binary:
        return read_scores(probs, name=name)
    check_rows(probs, name=name)
    check_probs(probs, name=name)
    return _no_half(to_numpy(probs).reshape(-1, probs.shape[-1]))


def read_scores(scores: Array, *, name: str) -> NDArray[np.float64]:
    """Return ``[N, 2]`` probabilities ``(1 - p, p)`` in float64 for checked scores `p`."""
    scores = array_of(scores)
    binary_probs(scores, name=name)  # its checks, on the caller's own array
    p = to_numpy(scores).astype(np.float64)
    return np.stack([1.0 - p, p], axis=-1)


def read(
    probs: Array, labels: Array, *, binary: bool = False
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return checked probabilities ``[N, K]`` and class indices ``[N]``."""
    labels, probs = labels_for(probs, labels), array_of(probs)
    rows = read_probs(probs, binary=binary)
    shape = tuple(probs.shape) if binary else tuple(probs.shape[:-1])
    check_labels(labels, shape=shape, n_classes=rows.shape[-1])
    return rows, to_numpy(labels).reshape(-1).astype(np.intp, copy=False)


def read_label_matrix(
    probs: Array, labels: Array, sample_weight: Array | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64] | None]:
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


def read_weights(sample_weight: Array | None, n_rows: int) -> NDArray[np.float64] | None:
    """Return checked weights ``[N]``, None if there are none."""
    if sample_weight is None:
        return None
    return check_sample_weight(array_of(sample_weight), n_rows=n_rows)


def row_chunks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices that cut `n_rows` into pieces small enough for the cache."""
    step = max(1, CHUNK_ENTRIES // n_columns)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def true_class(rows: NDArray[Any], labels: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the probability of each row's label, float64 ``[N]``."""
    return rows[np.arange(len(rows)), labels].astype(np.float64)


def top_label(
    rows: NDArray[Any], labels: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return each row's largest probability (float64) and whether that class is the label.

    If several classes share the largest probability, the first is predicted.
    """
    n, k = rows.shape
    if k > COLUMN_LOOP_MAX:
        predicted = rows.argmax(axis=-1)
        return true_class(rows, predicted), predicted == labels
    confidence, correct = np.empty(n), np.empty(n, dtype=np.bool_)
    for part in row_chunks(n, k):
        confidence[part], correct[part] = _top_label_by_column(rows[part], labels[part])
    return confidence, correct


def event_rows(
    rows: NDArray[Any], labels: NDArray[np.intp], event: Event
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the probability of an event (float64) and whether it happened, ``[N]`` each."""
    if event == "top label":
        return top_label(rows, labels)
    check_count(event, name="event", minimum=0)
    if event >= rows.shape[1]:
        raise ValueError(
            f'`event` must be "top label" or a class below {rows.shape[1]}, got {event!r}.'
        )
    return rows[:, event].astype(np.float64), labels == event


def _top_label_by_column(
    rows: NDArray[Any], labels: NDArray[np.intp]
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    columns = list(rows.T)
    top = columns[0].copy()
    for column in columns[1:]:
        np.maximum(top, column, out=top)
    if sum(np.count_nonzero(column == top) for column in columns) > len(top):  # shared tops
        return top, rows.argmax(axis=-1) == labels
    return top, rows[np.arange(len(rows)), labels] == top


def _no_half(x: NDArray[Any]) -> NDArray[Any]:
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
