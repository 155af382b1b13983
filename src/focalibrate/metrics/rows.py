"""Rows of probabilities and their labels, as NumPy arrays: the input of every metric."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, array_of, to_numpy
from focalibrate._check import (
    binary_probs,
    check_count,
    check_label_weight,
    check_labels,
    check_log_probs,
    check_logits,
    check_probs,
    check_rows,
    check_sample_weight,
    check_unit_array,
    labels_for,
)
from focalibrate.metrics.binning import Ints

if TYPE_CHECKING:
    from focalibrate.metrics.cells import ClassCells

Event = int | Literal["top label"]
"""What a probability is of: the prediction is right, or the label is a class."""
Given = Literal["probs", "log_probs", "logits"]

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


def read_scores(scores: Array, *, name: str) -> Floats:
    """Return ``[N, 2]`` probabilities ``(1 - p, p)`` in float64 for checked scores `p`."""
    scores = array_of(scores)
    binary_probs(scores, name=name)  # its checks, on the caller's own array
    p = to_numpy(scores).astype(np.float64)
    return np.stack([1.0 - p, p], axis=-1)


def read(probs: Array, labels: Array, *, binary: bool = False) -> tuple[NDArray[Any], Ints]:
    """Return checked probabilities ``[N, K]`` and class indices ``[N]``."""
    labels, probs = labels_for(probs, labels), array_of(probs)
    rows = read_probs(probs, binary=binary)
    shape = tuple(probs.shape) if binary else tuple(probs.shape[:-1])
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


def row_chunks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield slices that cut `n_rows` into pieces small enough for the cache."""
    step = max(1, CHUNK_ENTRIES // n_columns)
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
        predicted = rows.argmax(axis=-1)
        return true_class(rows, predicted), predicted == labels
    confidence, correct = np.empty(n), np.empty(n, dtype=np.bool_)
    for part in row_chunks(n, k):
        confidence[part], correct[part] = _top_label_by_column(rows[part], labels[part])
    return confidence, correct


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


def _top_label_by_column(
    rows: NDArray[Any], labels: Ints
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


@dataclass(frozen=True, eq=False)
class RowTerms:
    """Per row: what a sketch sums."""

    confidence: Floats
    correct: NDArray[np.bool_]
    nll: Floats
    brier: Floats
    positive: Floats | None
    """P(class 1), where there are two classes"""


def row_terms(
    scores: NDArray[Any],
    labels: Ints,
    *,
    given: Given,
    weights: Floats | None = None,
    classes: "ClassCells | None" = None,
) -> RowTerms:
    """Return the terms of checked scores ``[N, K]`` and labels ``[N]``; `classes` takes them in.

    Numerics:
        Exponentials are taken in the dtype of the scores, everything after in float64. Logits
        in float32 give odds that are right to 1e-6 of themselves. The Brier score of a row is
        formed without cancellation, also where the label's probability is almost 1.
    """
    n, k = scores.shape
    terms = np.empty((3, n))
    correct = np.empty(n, dtype=np.bool_)
    positive = np.empty(n) if k == 2 else None
    # NumPy is slow at many short rows: few classes are taken column by column
    axis = 0 if k <= COLUMN_LOOP_MAX else 1
    for part in row_chunks(n, k):
        chunk, y = scores[part], labels[part]
        at = (y, np.arange(len(y))) if axis == 0 else (np.arange(len(y)), y)
        table = np.ascontiguousarray(chunk.T) if axis == 0 else chunk
        probs, terms[1, part] = _probs_and_nll(table, at, given, axis)
        top = probs.max(axis=axis)
        own = probs[at]
        terms[0, part] = np.minimum(top, 1.0)
        correct[part] = _is_top(probs, top, own, y, axis)
        if positive is not None:
            positive[part] = np.clip(probs[1], 0.0, 1.0)
        if classes is not None:
            classes.add(probs, y, own, None if weights is None else weights[part], axis)
        terms[2, part] = _brier(probs, at, own, axis)
    return RowTerms(terms[0], correct, terms[1], terms[2], positive)


def _brier(probs: Floats, at: tuple[Any, Any], own: Floats, axis: int) -> Floats:
    """Return the Brier score of each row: `squares - 2 p + 1` would cancel where p is almost 1."""
    if not probs.flags.writeable or probs.base is not None:
        probs = probs.copy()
    probs[at] = own - 1.0
    found = np.einsum("kn,kn->n" if axis == 0 else "nk,nk->n", probs, probs)
    probs[at] = own
    return np.asarray(found)


def _probs_and_nll(
    table: NDArray[Any], at: tuple[Any, Any], given: Given, axis: int
) -> tuple[Floats, Floats]:
    if given == "probs":
        probs = table.astype(np.float64, copy=False)
        with np.errstate(divide="ignore"):
            return probs, -np.log(probs[at])
    if given == "log_probs":
        return np.exp(table).astype(np.float64, copy=False), -table[at].astype(np.float64)
    shifted = table - table.max(axis=axis, keepdims=True)
    probs = np.exp(shifted).astype(np.float64, copy=False)
    total = probs.sum(axis=axis, keepdims=True)
    probs /= total
    return probs, np.log(total.reshape(-1)) - shifted[at].astype(np.float64)


def _is_top(probs: Floats, top: Floats, own: Floats, labels: Ints, axis: int) -> NDArray[np.bool_]:
    """Return for each row whether the label is predicted: the first class with the top score."""
    if axis == 1:
        return np.asarray(probs.argmax(axis=1) == labels)
    correct = own == top
    if np.count_nonzero(probs == top) > len(top):  # shared tops
        return np.asarray(correct & (probs.argmax(axis=0) == labels))
    return np.asarray(correct)


def read_given(
    probs: Array | None, log_probs: Array | None, logits: Array | None, labels: Array | None
) -> tuple[Given, NDArray[Any], Ints]:
    """Return what was given, its rows ``[N, K]`` and the labels ``[N]``."""
    pairs: tuple[tuple[Given, Array | None], ...] = (
        ("probs", probs),
        ("log_probs", log_probs),
        ("logits", logits),
    )
    named = {name: value for name, value in pairs if value is not None}
    if len(named) != 1 or labels is None:
        raise ValueError(
            "`Sketch.of` takes `labels` and exactly one of `probs`, `log_probs` and `logits`, got "
            f"{', '.join(named) or 'none of them'}{'' if labels is not None else ', no `labels`'}."
        )
    ((given, scores),) = named.items()
    if given == "probs":
        return given, *read(scores, labels, binary=np.ndim(scores) == 1)
    labels, scores = labels_for(scores, labels), array_of(scores)
    check_rows(scores, name=given)
    (check_logits if given == "logits" else check_log_probs)(scores, name=given)
    check_labels(labels, shape=tuple(scores.shape[:-1]), n_classes=scores.shape[-1])
    rows = to_numpy(scores).reshape(-1, scores.shape[-1])
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float32)
    return given, rows, to_numpy(labels).reshape(-1).astype(np.intp, copy=False)


def read_groups(groups: Array | Mapping[str, Array] | None, n: int) -> dict[str, NDArray[Any]]:
    """Return the columns of groups ``[n]`` by name."""
    if groups is None:
        return {}
    named = groups if isinstance(groups, Mapping) else {"group": groups}
    found = {}
    for name, column in named.items():
        values = np.asarray(to_numpy(column)).reshape(-1)
        if len(values) != n:
            raise ValueError(f"`groups`: column {name!r} must have {n} rows, got {len(values)}.")
        found[name] = values
    return found
