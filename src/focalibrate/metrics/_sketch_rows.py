"""What one pass over rows of scores gives a sketch."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.metrics._rows import COLUMN_LOOP_MAX, row_chunks
from focalibrate.metrics.binning import Floats, bin_sums, equal_width_index

Given = Literal["probs", "log_probs", "logits"]

CLASS_PLAIN = ("count", "probability", "label", "variance")
CLASS_WEIGHTED = (*CLASS_PLAIN, "rows", "row_probability", "spread_variance")


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
    """sums by class and bin, ``[F, K, B]`` in the order of `CLASS_PLAIN` or `CLASS_WEIGHTED`"""


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
    sums = np.zeros((len(CLASS_PLAIN if weights is None else CLASS_WEIGHTED), k, n_bins))
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
        if classwise:
            w = None if weights is None else weights[part]
            _add_classes(sums, probs, y, own, w, axis, n_bins)
    confidence, nll, brier = terms
    return RowTerms(confidence, correct, nll, brier, positive, sums if classwise else None)


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
    """Say for each row whether the label is predicted, the first of classes that share the top."""
    if axis == 1:
        return np.asarray(probs.argmax(axis=1) == labels)
    correct = own == top
    if np.count_nonzero(probs == top) > len(top):  # shared tops
        return np.asarray(correct & (probs.argmax(axis=0) == labels))
    return np.asarray(correct)


def _add_classes(
    sums: Floats,
    probs: Floats,
    labels: NDArray[np.intp],
    own: Floats,
    weights: Floats | None,
    axis: int,
    n_bins: int,
) -> None:
    """Add a chunk to the sums by class and bin.

    Most entries of a softmax lie in the first bin: the others are binned, and the first gets
    what the column totals leave.
    """
    k, n = sums.shape[1], len(own)
    hit = np.flatnonzero(probs > 1.0 / n_bins)
    column, row = np.divmod(hit, n) if axis == 0 else np.divmod(hit, k)[::-1]
    p = np.minimum(probs.reshape(-1)[hit], 1.0)
    cell = column * n_bins + equal_width_index(p, n_bins)
    variance = probs - probs * probs
    each = np.ones(len(p))

    def add(name: int, times: Floats | None, values: Floats | None, entries: Floats) -> None:
        """Add the sum of `times` ``[N]`` times `values` ``[K, N]`` by class and bin."""
        if values is None:
            total = np.full(k, n if times is None else times.sum())
        elif times is None:
            total = values.sum(axis=1 - axis)
        else:
            total = values @ times if axis == 0 else times @ values
        counted = entries if times is None else times[row] * entries
        above = bin_sums(cell, counted, k * n_bins).reshape(k, n_bins)
        above[:, 0] += total - above.sum(axis=1)
        sums[name] += above

    add(0, weights, None, each)
    add(1, weights, probs, p)
    own_cell = labels * n_bins + equal_width_index(np.minimum(own, 1.0), n_bins)
    sums[2] += np.bincount(own_cell, weights, k * n_bins).reshape(k, n_bins)
    add(3, weights, variance, p - p * p)
    if weights is not None:
        add(4, None, None, each)
        add(5, None, probs, p)
        add(6, weights * weights, variance, p - p * p)
