"""The methods, scores, classes and mistakes of a page, as JSON."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import METHODS
from focalibrate.comparison import (
    MethodResult,
    Score,
)
from focalibrate.metrics import Assessment
from focalibrate.report._judged import JudgedRows
from focalibrate.report._numbers import short, shorts
from focalibrate.report.criterion import CriterionGrid

ON_THE_MAP = (
    "identity",
    "temperature",
    "posterior_recovery",
    "focal_temperature",
    "focal_loss_temperature",
)
"""Kinds of calibrator with a gamma and a temperature, to which the sliders can be set."""


N_MISTAKES = 25


def method_record(row: MethodResult, n_classes: int) -> dict[str, Any]:
    """Return one row of the table of methods."""
    calibrator: Any = row.calibrator
    caution = METHODS[row.method].caution
    is_map = calibrator.kind in ON_THE_MAP
    return {
        "method": row.method,
        "label": row.label,
        "complexity": row.complexity,
        "describe": calibrator.describe(),
        "gamma": getattr(calibrator, "gamma", 0.0) if is_map else None,
        "temperature": getattr(calibrator, "temperature", 1.0) if is_map else None,
        "scores": {m: score_record(i) for m, i in row.scores.items()},
        "changed": row.n_predictions_changed,
        "notes": [*row.notes, *([caution] if caution and n_classes > 2 else [])],
    }


def assessment_record(found: Assessment) -> dict[str, Any]:
    """Return an assessment as JSON."""
    record = found.to_dict()
    return record | {
        "gap": shorts(record["gap"][end] for end in ("estimate", "low", "high")),
        "rms": shorts(record["rms"][end] for end in ("estimate", "low", "high")),
        "noise_floor": {
            metric: {name: short(value) for name, value in floor.items()}
            for metric, floor in record["noise_floor"].items()
        },
        "positive": None,
    }


def score_record(value: Score) -> list[float | None]:
    """Return the estimate, with its interval where it has one."""
    if value.low is None or value.high is None:
        return [short(value.estimate)]
    return shorts((value.estimate, value.low, value.high))


def class_table(
    judged: JudgedRows, labels: NDArray[np.intp], k: int, weights: NDArray[np.float64] | None
) -> dict[str, Any]:
    """Return the columns of the table of classes; counts are of rows, means are weighted."""
    before, after = judged.predicted
    w = np.ones(len(labels)) if weights is None else weights

    def total(index: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(index, values, minlength=k).astype(np.float64)

    def mean(part: NDArray[Any], whole: NDArray[Any]) -> list[float | None]:
        out = np.full(k, np.nan)
        return shorts(np.divide(part, whole, out=out, where=whole > 0), 4)

    hits = total(labels, w * judged.correct[0])
    predicted = total(before, w)
    return {
        "count": np.bincount(labels, minlength=k).tolist(),
        "predicted": np.bincount(before, minlength=k).tolist(),
        "recall": mean(hits, total(labels, w)),
        "precision": mean(hits, predicted),
        "confidence_before": mean(total(before, w * judged.confidence[0]), predicted),
        "confidence_after": mean(total(after, w * judged.confidence[1]), total(after, w)),
        "ece_before": shorts(judged.classwise[0].per_class, 4),
        "ece_after": shorts(judged.classwise[1].per_class, 4),
    }


def mistakes(judged: JudgedRows, labels: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Return the wrong predictions with the highest confidence, highest first."""
    wrong = np.flatnonzero(~judged.correct[0])
    order = np.lexsort((wrong, -judged.confidence[0][wrong]))
    return [
        {
            "row": int(i),
            "label": int(labels[i]),
            "predicted": int(judged.predicted[0][i]),
            "predicted_after": int(judged.predicted[1][i]),
            "before": short(float(judged.confidence[0][i])),
            "after": short(float(judged.of_predicted[i])),
        }
        for i in wrong[order][:N_MISTAKES]
    ]


def criterion_record(grid: CriterionGrid) -> dict[str, Any]:
    """Return the map over gamma and temperature."""
    return {
        "criterion": grid.criterion,
        "gammas": shorts(grid.gammas),
        "temperatures": shorts(grid.temperatures),
        "values": [shorts(row, 5) for row in grid.values],
        "n_rows": grid.n_rows,
        "n_rows_given": grid.n_rows_given,
    }
