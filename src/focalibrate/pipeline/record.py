"""Results in the form that JSON files and `--json` have."""

import math
from typing import Any

from focalibrate.comparison import Choice, Comparison, MethodResult
from focalibrate.io import Predictions
from focalibrate.metrics import BootstrapInterval


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as nested dictionaries."""
    return {
        "judged_on": comparison.judged_on,
        "n_fitted": comparison.n_fitted,
        "n_judged": comparison.n_judged,
        "n_classes": comparison.n_classes,
        "n_bins": comparison.n_bins,
        "n_folds": comparison.n_folds,
        "n_resamples": comparison.n_resamples,
        "methods": [_method(row) for row in comparison.rows],
        "skipped": [{"method": m, "reason": r} for m, r in comparison.skipped],
    }


def _method(row: MethodResult) -> dict[str, Any]:
    to_temperature = row.to_temperature
    return {
        "method": row.method,
        "label": row.label,
        "calibrator": row.calibrator.describe(),
        "predictions_changed": row.n_predictions_changed,
        "confidence_gap": row.card.confidence_gap,
        "scores": {m: interval_record(v) for m, v in row.scores.items()},
        "difference_to_uncalibrated": {m: interval_record(v) for m, v in row.to_raw.items()},
        "difference_to_temperature": None
        if to_temperature is None
        else {m: interval_record(v) for m, v in to_temperature.items()},
        "notes": list(row.notes),
    }


def method_row(row: MethodResult, choice: Choice) -> dict[str, Any]:
    """Return one method as a flat dictionary, a row of a data frame."""
    cells: dict[str, Any] = {
        "method": row.method,
        "label": row.label,
        "is_chosen": row.method == choice.row.method,
        "calibrator": row.calibrator.describe(),
        "predictions_changed": row.n_predictions_changed,
    }
    for name, value in row.scores.items():
        cells |= {name: value.estimate, f"{name}_low": value.low, f"{name}_high": value.high}
    return cells


def interval_record(value: BootstrapInterval) -> dict[str, float | None]:
    """Return an interval; JSON knows no infinity, so that an infinite number is null."""
    numbers = {"estimate": value.estimate, "low": value.low, "high": value.high}
    return {k: v if math.isfinite(v) else None for k, v in numbers.items()}


def file_record(predictions: Predictions) -> dict[str, Any]:
    """Return what identifies a file that was read."""
    return {
        "file": predictions.source.name,
        "sha256": predictions.checksum,
        "labels_file": predictions.labels_source and predictions.labels_source.name,
        "labels_sha256": predictions.labels_checksum,
        "kind": predictions.kind,
        "rows": predictions.n_rows,
        "classes": predictions.n_classes,
    }
