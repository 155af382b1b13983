"""Results as they are written to JSON files and printed by `--json`."""

import math
from typing import Any

from focalibrate.comparison import Choice, Comparison, MethodResult, Score
from focalibrate.io import Predictions, Scan
from focalibrate.metrics.groups import WorstSlice


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as nested dictionaries."""
    return {
        "judged_on": comparison.judged_on,
        "n_fitted": comparison.n_fitted,
        "n_judged": comparison.n_judged,
        "n_classes": comparison.n_classes,
        "n_bins": comparison.settings.n_bins,
        "n_folds": comparison.n_folds,
        "n_resamples": comparison.n_resamples,
        "methods": [_method(row) for row in comparison.rows],
        "left_out": [{"method": m, "reason": r} for m, r in comparison.left_out],
        "skipped": [{"method": m, "reason": r} for m, r in comparison.skipped],
    }


def _method(row: MethodResult) -> dict[str, Any]:
    to_temperature = row.to_temperature
    return {
        "method": row.method,
        "label": row.label,
        "calibrator": row.calibrator.describe(),
        "predictions_changed": row.n_predictions_changed,
        "scores": {m: score_record(v) for m, v in row.scores.items()},
        "difference_to_uncalibrated": {m: score_record(v) for m, v in row.to_raw.items()},
        "difference_to_temperature": None
        if to_temperature is None
        else {m: score_record(v) for m, v in to_temperature.items()},
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
        cells[name] = value.estimate
        if value.low is not None:
            cells |= {f"{name}_low": value.low, f"{name}_high": value.high}
    return cells


def finite(value: float) -> float | None:
    """Return a number, or None if it is not finite, for JSON."""
    return value if math.isfinite(value) else None


def score_record(value: Score) -> dict[str, float | None]:
    """Return a score, with its interval where it has one.

    JSON has no infinity: an infinite number becomes null.
    """
    numbers = {"estimate": value.estimate}
    if value.low is not None and value.high is not None:
        numbers |= {"low": value.low, "high": value.high}
    return {k: finite(v) for k, v in numbers.items()}


def worst_record(worst: WorstSlice | None) -> dict[str, Any] | None:
    """Return the worst slice, without the rows in it."""
    if worst is None:
        return None
    return {
        "description": worst.description,
        "rows": worst.n,
        "gap": worst.gap.estimate,
        "p_value": worst.p_value,
        "slices": worst.n_slices,
        "summary": worst.summary,
    }


def file_record(found: Predictions | Scan) -> dict[str, Any]:
    """Return what identifies a file that was read, or a data set that was read in batches."""
    held = {"kind": found.kind, "rows": found.n_rows, "classes": found.n_classes}
    if isinstance(found, Scan):
        read = {"file": found.source, "sha256": found.checksum()}
        return {**read, **held, "parts": len(found.parts)}
    return {
        "file": found.source.name,
        "sha256": found.checksum,
        "labels_file": found.labels_source and found.labels_source.name,
        "labels_sha256": found.labels_checksum,
        **held,
    }
