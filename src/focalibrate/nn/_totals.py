"""Sums over examples: everything a monitor needs for its metrics, whatever it has seen."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from focalibrate.metrics import (
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
        numbers = {
            "error": self.error,
            "nll": self.nll,
            "brier": self.brier,
            "ece": self.ece,
            "adaptive_ece": self.adaptive_ece,
            "mce": self.mce,
            "s99": self.s99.fraction,
        }
        if self.classwise_ece is not None:
            numbers["classwise_ece"] = self.classwise_ece
        return {prefix + name: value for name, value in numbers.items()}


@dataclass(frozen=True, eq=False)
class Totals:
    """Mergeable sums of size ``O(bins)``, or ``O(bins * K)`` with a classwise table."""

    sums: Floats
    """NLL, Brier, confident examples, correct ones among them; shape ``[4]``"""
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
    ) -> Self:
        """Return the sums of rows of log-probabilities ``[N, K]``."""
        at = np.arange(len(labels))
        predicted = log_probs.argmax(axis=-1)
        probs = np.exp(log_probs)
        confidence, correct = probs[at, predicted], predicted == labels
        table = ClasswiseTable.of(probs, labels, n_bins=n_bins) if classwise else None
        probs[at, labels] -= 1.0
        sure = confidence >= CONFIDENT
        bins = ReliabilityTable.of_confidence(confidence, correct, n_bins=n_bins)
        return cls(
            np.array(
                [
                    -log_probs[at, labels].sum(),
                    np.einsum("nk,nk->", probs, probs),
                    sure.sum(),
                    (sure & correct).sum(),
                ],
                dtype=np.float64,
            ),
            bins,
            ReliabilityTable.of_confidence(confidence, correct, edges=log_odds_edges(n_cells)),
            table,
            _by_predicted(confidence, correct, predicted, log_probs.shape[1], n_bins)
            if by_class
            else None,
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
        n = self.bins.n
        nll, brier, sure, right = self.sums.tolist()
        return MonitorMetrics(
            n=n,
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
    """Return the table of ``[3, B]`` sums: count, confidence, correct."""
    return ReliabilityTable(sums[0], sums[1], sums[2], edges)


def sums_of(table: ReliabilityTable) -> Floats:
    """Return what `table_of` takes."""
    return np.stack([table.count, table.confidence_sum, table.correct_sum])


def _by_predicted(
    confidence: Floats,
    correct: NDArray[np.bool_],
    predicted: NDArray[np.int64],
    n_classes: int,
    n_bins: int,
) -> Floats:
    sums = np.zeros((3, n_classes, n_bins))
    for k in np.unique(predicted):
        rows = predicted == k
        table = ReliabilityTable.of_confidence(confidence[rows], correct[rows], n_bins=n_bins)
        sums[:, k] = sums_of(table)
    return sums
