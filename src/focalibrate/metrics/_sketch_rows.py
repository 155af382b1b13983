"""One pass over rows of scores: the terms that a sketch sums."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics._class_sums import ClassSums
from focalibrate.metrics._rows import COLUMN_LOOP_MAX, row_chunks

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
    classes: Floats | None
    """sums by class and cell, ``[F, K, C]`` in the order of `CLASS_PLAIN` or `CLASS_WEIGHTED`"""


def row_terms(
    scores: NDArray[Any],
    labels: NDArray[np.intp],
    *,
    given: Given,
    weights: Floats | None,
    n_bins: int,
    classwise: bool,
) -> RowTerms:
    """Return the terms of checked scores ``[N, K]`` and labels ``[N]``.

    Numerics:
        Exponentials are taken in the dtype of the scores, everything after in float64. Logits
        in float32 give odds that are right to 1e-6 of themselves.
    """
    n, k = scores.shape
    terms = np.empty((3, n))
    correct = np.empty(n, dtype=np.bool_)
    positive = np.empty(n) if k == 2 else None
    # NumPy is slow at many short rows: few classes are taken column by column
    axis = 0 if k <= COLUMN_LOOP_MAX else 1
    sums = ClassSums(k, n_bins, is_weighted=weights is not None) if classwise else None
    for part in row_chunks(n, k):
        chunk, y = scores[part], labels[part]
        at = (y, np.arange(len(y))) if axis == 0 else (np.arange(len(y)), y)
        table = np.ascontiguousarray(chunk.T) if axis == 0 else chunk
        probs, terms[1, part] = _probs_and_nll(table, at, given, axis)
        top = probs.max(axis=axis)
        own = probs[at]
        terms[0, part] = np.minimum(top, 1.0)
        correct[part] = _is_top(probs, top, own, y, axis)
        squares = np.einsum("kn,kn->n" if axis == 0 else "nk,nk->n", probs, probs)
        terms[2, part] = np.maximum(squares - 2.0 * own + 1.0, 0.0)
        if positive is not None:
            positive[part] = np.clip(probs[1], 0.0, 1.0)
        if sums is not None:
            sums.add(probs, y, own, None if weights is None else weights[part], axis)
    confidence, nll, brier = terms
    return RowTerms(
        confidence, correct, nll, brier, positive, None if sums is None else sums.result()
    )


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
