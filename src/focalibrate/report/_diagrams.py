"""Reliability diagrams: the curve without bins, and tables for every binning of the page."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics import Decomposition, ReliabilityCurve, ReliabilityTable, corp_of_table
from focalibrate.metrics.adaptive import distinct_table
from focalibrate.report._numbers import short, shorts
from focalibrate.report._selection import risk_coverage

BIN_COUNTS = (10, 15, 25)
SURE = 0.99
"""Rows with at least this confidence count as almost certain."""


def diagrams(
    confidence: Floats, correct: NDArray[np.bool_], weights: Floats | None
) -> dict[str, Any]:
    """Return the curve, the decomposed scores and tables (count, confidence, accuracy per bin)."""
    cells = distinct_table(confidence, correct, weights)
    tables = {
        "equal-width": [
            ReliabilityTable.of_confidence(confidence, correct, n_bins=b, sample_weight=weights)
            for b in BIN_COUNTS
        ],
        "equal-mass": [cells.equal_mass(b) for b in BIN_COUNTS],
    }
    found = corp_of_table(cells)
    return {
        "curve": _curve(found.curve),
        "apart": {"log loss": _apart(found.log_loss), "Brier score": _apart(found.brier)},
        "tables": {
            kind: {str(b): _columns(t) for b, t in zip(BIN_COUNTS, found, strict=True)}
            for kind, found in tables.items()
        },
    }


def top_label_figures(
    confidence: Floats, correct: NDArray[np.bool_], weights: Floats | None = None
) -> dict[str, Any]:
    """Return `diagrams` of the predicted class, how often it is almost certain, and risk."""
    is_sure = confidence >= SURE
    return diagrams(confidence, correct, weights) | {
        "confidence": short(weighted_mean(confidence, weights)),
        "sure": short(weighted_mean(is_sure, weights)),
        "sure_accuracy": short(
            weighted_mean(correct[is_sure], None if weights is None else weights[is_sure])
        ),
        "risk": risk_coverage(confidence, correct, weights),
    }


def weighted_mean(values: NDArray[Any], weights: Floats | None) -> float:
    """Return the mean, or nan if there are no values."""
    if len(values) == 0 or (weights is not None and not weights.any()):
        return float("nan")
    return float(np.average(values, weights=weights))


def _curve(curve: ReliabilityCurve) -> dict[str, Any]:
    """Return the blocks of the curve and its band, with as many digits as a screen shows."""
    columns = {
        "low": curve.probability[::2],
        "high": curve.probability[1::2],
        "rate": curve.frequency[::2],
        "count": 2.0 * curve.weight[::2],
        "band_at": curve.band_probability,
        "band_low": curve.band_low,
        "band_high": curve.band_high,
    }
    return {name: [round(float(v), 5) for v in values] for name, values in columns.items()}


def _apart(found: Decomposition) -> dict[str, float | None]:
    return {name: short(value, 5) for name, value in found.to_dict().items()}


def _columns(table: ReliabilityTable) -> dict[str, Any]:
    filled = table.count > 0
    return {
        "count": shorts(table.count[filled]),
        "confidence": shorts(table.confidence[filled]),
        "accuracy": shorts(table.accuracy[filled]),
        "ece": short(table.ece()),
    }
