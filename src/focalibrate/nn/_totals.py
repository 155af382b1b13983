"""Sums over examples: everything a monitor needs for its metrics, whatever it has seen."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from focalibrate.metrics import (
    METRICS,
    ClasswiseTable,
    ConfidentFraction,
    ReliabilityTable,
    log_odds_edges,
)

Floats = NDArray[np.float64]
CONFIDENT = 0.99
"""Least confidence that counts for S99."""


@dataclass(frozen=True)
class MonitorMetrics:
    """What a `CalibrationMonitor` has seen, in the metrics of `focalibrate.metrics`."""

    n: int
    """examples"""
    error: float
    nll: float
    """inf if a label was impossible"""
    brier: float
    ece: float
    adaptive_ece: float
    mce: float
    s99: ConfidentFraction
    """share of examples with a confidence of at least 0.99, and their accuracy"""
    classwise_ece: float | None = None
    """None unless the monitor was asked for it"""

    def as_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers by name, for a logger: ``{"ece": 0.02, ...}``, each with `prefix`."""
        found = {name: getattr(self, name, None) for name in METRICS}
        numbers = {name: value for name, value in found.items() if value is not None}
        return {
            prefix + name: value for name, value in (numbers | {"s99": self.s99.fraction}).items()
        }


@dataclass(frozen=True, eq=False)
class Totals:
    """Mergeable sums of size ``O(bins)``, or ``O(bins * K)`` with a classwise table."""

    sums: Floats
    """weighted sums of NLL, Brier, confident and both confident and correct; shape ``[4]``"""
    bins: ReliabilityTable
    """equally wide"""
    cells: ReliabilityTable
    """fine, for bins of equal mass"""
    classwise: ClasswiseTable | None
    predicted: Floats | None = None
    """count, confidence and correct by predicted class and bin, ``[3, K, B]``"""

    @classmethod
    def of(
        cls,
        log_probs: Floats,
        labels: NDArray[np.int64],
        *,
        n_bins: int,
        n_cells: int,
        classwise: bool,
        by_class: bool = False,
        weights: Floats | None = None,
    ) -> Self:
        """Return the sums of rows of log-probabilities ``[N, K]``, with `weights` ``[N]``."""
        at = np.arange(len(labels))
        predicted = log_probs.argmax(axis=-1)
        probs = np.exp(log_probs)
        confidence, correct = probs[at, predicted], predicted == labels
        table = None
        if classwise:
            table = ClasswiseTable.of(probs, labels, n_bins=n_bins, sample_weight=weights)
        probs[at, labels] -= 1.0
        sure = confidence >= CONFIDENT
        w = np.ones(len(labels)) if weights is None else weights
        terms = (-log_probs[at, labels], np.einsum("nk,nk->n", probs, probs), sure, sure & correct)
        edges = log_odds_edges(n_cells)
        predicted_sums = None
        if by_class:
            k = log_probs.shape[1]
            predicted_sums = _by_predicted(confidence, correct, predicted, w, k, n_bins)
        return cls(
            # An impossible label has an infinite loss, which a weight of 0 takes out.
            np.array([float(np.sum(np.where(w > 0, w * x, 0.0))) for x in terms]),
            ReliabilityTable.of_confidence(
                confidence, correct, n_bins=n_bins, sample_weight=weights
            ),
            ReliabilityTable.of_confidence(
                confidence, correct, edges=edges, sample_weight=weights
            ),
            table,
            predicted_sums,
        )

    def __add__(self, other: Self) -> Self:
        both = self.classwise is not None and other.classwise is not None
        return type(self)(
            self.sums + other.sums,
            self.bins + other.bins,
            self.cells + other.cells,
            self.classwise + other.classwise if both else None,  # type: ignore[operator]
            None
            if self.predicted is None or other.predicted is None
            else self.predicted + other.predicted,
        )

    def metrics(self) -> MonitorMetrics:
        """Return the metrics of the examples."""
        n = float(self.bins.count.sum())
        nll, brier, sure, right = self.sums.tolist()
        return MonitorMetrics(
            n=self.bins.n,
            error=1.0 - float(self.bins.correct_sum.sum()) / n,
            nll=nll / n,
            brier=brier / n,
            ece=self.bins.ece(),
            adaptive_ece=self.cells.equal_mass(self.bins.n_bins).ece(),
            mce=self.bins.mce(),
            s99=ConfidentFraction(sure / n, right / sure if sure else float("nan")),
            classwise_ece=None if self.classwise is None else self.classwise.ece(),
        )


def table_of(sums: Floats, edges: Floats) -> ReliabilityTable:
    """Return the table of sums ``[3, B]``: count, confidence, correct; ``[4, B]``: and spread."""
    spread = sums[3] if len(sums) == 4 else None
    return ReliabilityTable(sums[0], sums[1], sums[2], edges, spread)


def sums_of(table: ReliabilityTable) -> Floats:
    """Return what `table_of` takes."""
    sums = [table.count, table.confidence_sum, table.correct_sum]
    return np.stack(sums if table.spread is None else [*sums, table.spread])


def _by_predicted(
    confidence: Floats,
    correct: NDArray[np.bool_],
    predicted: NDArray[np.int64],
    weights: Floats,
    n_classes: int,
    n_bins: int,
) -> Floats:
    sums = np.zeros((3, n_classes, n_bins))
    for k in np.unique(predicted):
        rows = (predicted == k) & (weights > 0)
        if rows.any():
            table = ReliabilityTable.of_confidence(
                confidence[rows], correct[rows], n_bins=n_bins, sample_weight=weights[rows]
            )
            sums[:, k] = table.count, table.confidence_sum, table.correct_sum
    return sums
