"""What each held-out example contributes to the scores of one method."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics import ClasswiseTable, MetricName, ReliabilityTable
from focalibrate.metrics.adaptive import distinct_table
from focalibrate.metrics.smooth import smooth_ece_of_rows

BLOCK_ENTRIES = 1 << 18
"""Probabilities held at once, 1 or 2 MB: a comparison of many classes needs little memory."""
MEANS: tuple[MetricName, ...] = ("nll", "brier", "error")
"""Scores that are means over examples: they have intervals and paired differences."""


@dataclass(frozen=True, eq=False)
class RowScores:
    """Per-example scores of one method, and the calibration errors of all of them."""

    nll: Floats
    """minus log-probability of the true class ``[N]``"""
    brier: Floats
    """squared distance to the true class, summed over classes ``[N]``"""
    predictions: NDArray[np.intp]
    """most probable class ``[N]``"""
    confidence: Floats
    """its probability ``[N]``"""
    correct: NDArray[np.bool_]
    """whether it is the true class ``[N]``"""
    calibration: dict[MetricName, float]
    """ECE and its relatives"""

    def means(self) -> Floats:
        """Return what `MEANS` average, ``[N, 3]``."""
        return np.stack([self.nll, self.brier, ~self.correct], axis=1).astype(np.float64)

    def table(self, n_bins: int) -> ReliabilityTable:
        """Return the reliability table."""
        return ReliabilityTable.of_confidence(self.confidence, self.correct, n_bins=n_bins)

    @property
    def n_zeros(self) -> int:
        """How many examples have probability 0 at their true class."""
        return int(np.isinf(self.nll).sum())


def score_rows(
    parts: Iterable[tuple[Any, NDArray[Any] | Callable[[], NDArray[Any]]]],
    labels: NDArray[np.intp],
    *,
    n_bins: int,
    weights: Floats | None = None,
    probs_out: NDArray[Any] | None = None,
    n_threads: int = 1,
) -> RowScores:
    """Return the scores of all rows from log-probabilities that come in parts.

    Args:
        parts: pairs of which rows (indices or a slice) and their log-probabilities ``[n, K]``,
            or a function that computes these.
        labels: class indices of all rows ``[N]``.
        n_bins: bins of the binned errors.
        weights: one number per row; whole numbers count repeated rows.
        probs_out: array ``[N, K]`` to write the probabilities to, where they are needed again.
        n_threads: parts computed at once; the result does not depend on it.
    """
    n = len(labels)
    nll, brier, confidence = np.empty(n), np.empty(n), np.empty(n)
    predictions = np.empty(n, dtype=np.intp)

    def score_part(part: tuple[Any, NDArray[Any] | Callable[[], NDArray[Any]]]) -> ClasswiseTable:
        index, given = part
        log_probs = given() if callable(given) else given
        true = labels[index]
        at = np.arange(len(true))
        probs = np.exp(log_probs)
        if probs_out is not None:
            probs_out[index] = probs
        p_true = probs[at, true].astype(np.float64)
        squares = np.einsum("nk,nk->n", probs, probs, dtype=np.float64)
        top = probs.argmax(axis=1)
        nll[index] = -log_probs[at, true]
        brier[index] = squares - 2.0 * p_true + 1.0
        predictions[index] = top
        confidence[index] = np.minimum(probs[at, top], 1.0)
        some = None if weights is None else weights[index]
        return ClasswiseTable.of(probs, true, n_bins=n_bins, sample_weight=some)

    if n_threads == 1:
        classwise = reduce(add, map(score_part, parts))
    else:
        with ThreadPoolExecutor(n_threads) as threads:
            classwise = reduce(add, threads.map(score_part, parts))
    correct = predictions == labels
    bins = ReliabilityTable.of_confidence(
        confidence, correct, n_bins=n_bins, sample_weight=weights
    )
    return RowScores(
        nll=nll,
        brier=np.maximum(brier, 0.0),
        predictions=predictions,
        confidence=confidence,
        correct=correct,
        calibration={
            "ece": bins.ece(),
            "adaptive_ece": distinct_table(confidence, correct, weights).equal_mass(n_bins).ece(),
            "classwise_ece": classwise.ece(),
            "smooth_ece": smooth_ece_of_rows(confidence, correct, weights),
            "mce": bins.mce(),
        },
    )
