"""The rows of a sketch: arguments read, and one pass over scores for the terms it sums."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, array_of, to_numpy
from focalibrate._check import check_labels, check_log_probs, check_logits, check_rows, labels_for
from focalibrate.metrics._rows import COLUMN_LOOP_MAX, read, row_chunks
from focalibrate.metrics.cells import ClassCells

Given = Literal["probs", "log_probs", "logits"]


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
    labels: NDArray[np.intp],
    *,
    given: Given,
    weights: Floats | None = None,
    classes: ClassCells | None = None,
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


def _is_top(
    probs: Floats, top: Floats, own: Floats, labels: NDArray[np.intp], axis: int
) -> NDArray[np.bool_]:
    """Return for each row whether the label is predicted: the first class with the top score."""
    if axis == 1:
        return np.asarray(probs.argmax(axis=1) == labels)
    correct = own == top
    if np.count_nonzero(probs == top) > len(top):  # shared tops
        return np.asarray(correct & (probs.argmax(axis=0) == labels))
    return np.asarray(correct)


def read_given(
    probs: Array | None, log_probs: Array | None, logits: Array | None, labels: Array | None
) -> tuple[Given, NDArray[Any], NDArray[np.intp]]:
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
