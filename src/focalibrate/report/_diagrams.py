"""Reliability diagrams as tables, for every binning that the page offers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.metrics import ReliabilityTable
from focalibrate.metrics.adaptive import distinct_table
from focalibrate.report._numbers import short, shorts

BIN_COUNTS = (10, 15, 25)
S99 = 0.99
N_BARS = 50
"""Bars of the histogram of confidence."""


def diagrams(confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the tables of all rows: count, mean confidence and accuracy of each bin."""
    cells = distinct_table(confidence, correct)
    tables = {
        "equal-width": [
            ReliabilityTable.of_confidence(confidence, correct, n_bins=b) for b in BIN_COUNTS
        ],
        "equal-mass": [cells.equal_mass(b) for b in BIN_COUNTS],
    }
    is_sure = confidence >= S99
    return {
        "tables": {
            kind: {str(b): _columns(t) for b, t in zip(BIN_COUNTS, found, strict=True)}
            for kind, found in tables.items()
        },
        "histogram": np.histogram(confidence, bins=N_BARS, range=(0.0, 1.0))[0].tolist(),
        "confidence": short(float(confidence.mean())),
        "s99": short(float(is_sure.mean())),
        "s99_accuracy": short(float(correct[is_sure].mean())) if is_sure.any() else None,
    }


def _columns(table: ReliabilityTable) -> dict[str, Any]:
    filled = table.count > 0
    return {
        "count": shorts(table.count[filled]),
        "confidence": shorts(table.confidence[filled]),
        "accuracy": shorts(table.accuracy[filled]),
        "ece": short(table.ece()),
    }
