"""Reliability diagrams: the curve without bins, and tables for every binning of the page."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.metrics import ReliabilityTable
from focalibrate.metrics.adaptive import distinct_table
from focalibrate.report._numbers import short, shorts
from focalibrate.report._selection import risk_coverage
from focalibrate.report.curve import curve_record, reliability_curve

BIN_COUNTS = (10, 15, 25)
SURE = 0.99
"""From this confidence on a row counts as all but certain."""


def diagrams(confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> dict[str, Any]:
    """Return curve and tables (count, mean confidence and accuracy per bin) of all rows."""
    cells = distinct_table(confidence, correct)
    tables = {
        "equal-width": [
            ReliabilityTable.of_confidence(confidence, correct, n_bins=b) for b in BIN_COUNTS
        ],
        "equal-mass": [cells.equal_mass(b) for b in BIN_COUNTS],
    }
    return {
        "curve": curve_record(reliability_curve(confidence, correct)),
        "tables": {
            kind: {str(b): _columns(t) for b, t in zip(BIN_COUNTS, found, strict=True)}
            for kind, found in tables.items()
        },
    }


def top_label_figures(
    confidence: NDArray[np.float64], correct: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return `diagrams` of the predicted class, how often it is all but certain, and risk."""
    is_sure = confidence >= SURE
    return diagrams(confidence, correct) | {
        "confidence": short(float(confidence.mean())),
        "sure": short(float(is_sure.mean())),
        "sure_accuracy": short(float(correct[is_sure].mean())) if is_sure.any() else None,
        "risk": risk_coverage(confidence, correct),
    }


def _columns(table: ReliabilityTable) -> dict[str, Any]:
    filled = table.count > 0
    return {
        "count": shorts(table.count[filled]),
        "confidence": shorts(table.confidence[filled]),
        "accuracy": shorts(table.accuracy[filled]),
        "ece": short(table.ece()),
    }
