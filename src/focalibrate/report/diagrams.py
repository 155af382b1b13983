"""Reliability diagrams: the curve without bins, and tables for every binning of the page."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics import Cells
from focalibrate.metrics.corp import Decomposition, ReliabilityCurve, corp_of_cells
from focalibrate.report.numbers import short, shorts

BIN_COUNTS = (10, 15, 25)


def diagrams(
    confidence: Floats, correct: NDArray[np.bool_], weights: Floats | None
) -> dict[str, Any]:
    """Return the curve, the decomposed scores and tables (count, confidence, accuracy per bin)."""
    cells = Cells.of_distinct(confidence, correct, weights)
    tables = {
        "equal-width": [
            Cells.of(confidence, correct, bins=b, sample_weight=weights) for b in BIN_COUNTS
        ],
        "equal-mass": [cells.equal_mass(b) for b in BIN_COUNTS],
    }
    found = corp_of_cells(cells)
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
    """Return `diagrams` of the predicted class, and the error among the most confident rows."""
    return diagrams(confidence, correct, weights) | {
        "risk": risk_coverage(confidence, correct, weights)
    }


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


def _columns(table: Cells) -> dict[str, Any]:
    filled = table.weight > 0
    return {
        "count": shorts(table.weight[filled]),
        "confidence": shorts(table.confidence[filled]),
        "accuracy": shorts(table.accuracy[filled]),
        "ece": short(table.ece()),
    }


N_POINTS = 100


def risk_coverage(
    confidence: NDArray[np.float64],
    correct: NDArray[np.bool_],
    weight: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Return the error among the most confident rows, for shares of the rows from 1 % to all.

    Rows of equal confidence share their outcomes, so that the order of the rows does not matter.

    Args:
        confidence: ``[N]``.
        correct: ``[N]``.
        weight: weights ``[N]``, or None for equal ones.

    Returns:
        JSON: `coverage`, the observed `risk` and the `stated` one, 1 - mean confidence, of the
        rows kept; `area`, the mean risk over all coverages.
    """
    w = np.ones_like(confidence) if weight is None else weight
    order = np.argsort(-confidence, kind="stable")
    c, wrong, w = confidence[order], 1.0 - correct[order], w[order]
    starts = np.flatnonzero(np.concatenate([[True], c[1:] != c[:-1]]))
    mass = np.add.reduceat(w, starts)
    shared = np.add.reduceat(w * wrong, starts)
    kept = np.concatenate([[0.0], np.cumsum(mass)])
    errors = np.concatenate([[0.0], np.cumsum(shared)])
    doubt = np.concatenate([[0.0], np.cumsum(mass * (1.0 - c[starts]))])
    n = min(N_POINTS, len(c))
    coverage = np.arange(1, n + 1) / n
    target = coverage * kept[-1]
    risk = np.interp(target, kept, errors) / target
    stated = np.interp(target, kept, doubt) / target
    return {
        "coverage": shorts(coverage, 4),
        "risk": shorts(risk, 5),
        "stated": shorts(stated, 5),
        "area": short(float(risk.mean())),
    }
