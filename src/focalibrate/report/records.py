"""The methods, scores, classes, groups and mistakes of a page, as JSON."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import METHODS
from focalibrate.comparison import Choice, Comparison, GroupChoice, MethodResult, Score, parameters
from focalibrate.metrics import Assessment
from focalibrate.metrics.groups import GroupAssessment
from focalibrate.report._judged import Side
from focalibrate.report.criterion import CriterionGrid
from focalibrate.report.numbers import short, shorts

ON_THE_MAP = ("identity", "temperature", "posterior_recovery", "focal_temperature")
"""Kinds of calibrator with a gamma and a temperature, to which the sliders can be set."""


N_MISTAKES = 25


def method_record(row: MethodResult, comparison: Comparison, choice: Choice) -> dict[str, Any]:
    """Return one row of the table of methods."""
    calibrator: Any = row.calibrator
    caution = METHODS[row.method].caution
    is_map = calibrator.kind in ON_THE_MAP
    return {
        "method": row.method,
        "label": row.label,
        "complexity": row.complexity,
        "parameters": parameters(calibrator),
        "why_not": None if row is choice.row else row.why_not or None,
        "gamma": getattr(calibrator, "gamma", 0.0) if is_map else None,
        "temperature": getattr(calibrator, "temperature", 1.0) if is_map else None,
        "scores": {m: score_record(i) for m, i in row.scores.items()},
        "changed": row.n_predictions_changed,
        "notes": [*row.notes, *([caution] if caution and comparison.n_classes > 2 else [])],
    }


def assessment_record(found: Assessment) -> dict[str, Any]:
    """Return an assessment as JSON."""
    record = found.to_dict()
    return record | {
        "gap": shorts(record["gap"][end] for end in ("estimate", "low", "high")),
        "rms": shorts(record["rms"][end] for end in ("estimate", "low", "high")),
        "slope": _known(record["slope"]),
        "intercept": _known(record["intercept"]),
        "noise_floor": {
            metric: {name: short(value) for name, value in floor.items()}
            for metric, floor in record["noise_floor"].items()
        },
    }


def _known(value: dict[str, float] | None) -> list[float | None] | None:
    return None if value is None else shorts(value[end] for end in ("estimate", "low", "high"))


def score_record(value: Score) -> list[float | None]:
    """Return the estimate, with its interval where it has one."""
    if value.low is None or value.high is None:
        return [short(value.estimate)]
    return shorts((value.estimate, value.low, value.high))


def class_table(
    before: Side,
    after: Side,
    labels: NDArray[np.intp],
    k: int,
    weights: NDArray[np.float64] | None,
) -> dict[str, Any]:
    """Return the columns of the table of classes; counts are of rows, means are weighted."""
    w = np.ones(len(labels)) if weights is None else weights

    def total(index: NDArray[Any], values: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(index, values, minlength=k).astype(np.float64)

    def mean(part: NDArray[Any], whole: NDArray[Any]) -> list[float | None]:
        out = np.full(k, np.nan)
        return shorts(np.divide(part, whole, out=out, where=whole > 0), 4)

    hits = total(labels, w * before.correct)
    predicted = total(before.predicted, w)
    return {
        "count": np.bincount(labels, minlength=k).tolist(),
        "predicted": np.bincount(before.predicted, minlength=k).tolist(),
        "recall": mean(hits, total(labels, w)),
        "precision": mean(hits, predicted),
        "confidence_before": mean(total(before.predicted, w * before.confidence), predicted),
        "confidence_after": mean(
            total(after.predicted, w * after.confidence), total(after.predicted, w)
        ),
        "ece_before": shorts(before.classwise.ece(), 4),
        "ece_after": shorts(after.classwise.ece(), 4),
    }


def mistakes(
    before: Side, after: Side, labels: NDArray[np.intp], ids: Any = None
) -> list[dict[str, Any]]:
    """Return the wrong predictions with the highest confidence, highest first."""
    wrong = np.flatnonzero(~before.correct)
    order = np.lexsort((wrong, -before.confidence[wrong]))
    return [
        {
            "row": int(i),
            "id": None if ids is None else str(ids[i]),
            "label": int(labels[i]),
            "predicted": int(before.predicted[i]),
            "predicted_after": int(after.predicted[i]),
            "before": short(float(before.confidence[i])),
            "after": short(float(after.of_predicted[i])),
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


MAX_GROUPS = 60
"""Most groups shown: those with the smallest p-values."""


def group_records(groups: Sequence[GroupAssessment]) -> list[dict[str, Any]]:
    """Return the groups as JSON, at most `MAX_GROUPS`, in the order given."""

    def doubt(i: int) -> float:
        p = groups[i].p_adjusted
        return math.inf if math.isnan(p) else p

    worst = sorted(range(len(groups)), key=doubt)[:MAX_GROUPS]
    return [_group_record(groups[i]) for i in sorted(worst)]


def by_group_record(found: GroupChoice) -> dict[str, Any]:
    """Return which groups get a calibrator of their own, as JSON."""
    tried = [trial for trial in found.trials if not trial.reason]
    shown = sorted(tried, key=lambda trial: trial.p_adjusted)[:MAX_GROUPS]
    own = {}
    if found.calibrator is not None:
        members = zip(found.calibrator.groups, found.calibrator.own, strict=True)
        own = {(found.calibrator.column, group): c for group, c in members if c is not None}
    return {
        "summary": found.summary,
        "has_own": found.calibrator is not None,
        "trials": [
            {
                "name": f"{trial.column} = {trial.group}",
                "n": trial.n,
                "shared": short(trial.shared),
                "own": short(trial.own),
                "p_value": short(trial.p_adjusted),
                "calibrator": own[trial.column, trial.group].describe()
                if (trial.column, trial.group) in own
                else None,
            }
            for trial in shown
        ],
    }


def _group_record(group: GroupAssessment) -> dict[str, Any]:
    verdict: str = group.verdict
    if verdict == "miscalibrated" and group.gap.excludes_zero:
        verdict = "overconfident" if group.gap.estimate > 0 else "underconfident"
    return {
        "name": f"{group.column} = {group.group}" if group.column else group.group,
        "n": group.n,
        "gap": shorts((group.gap.estimate, group.gap.low, group.gap.high)),
        "rms": shorts((group.rms.estimate, group.rms.low, group.rms.high)),
        "p_value": short(group.p_adjusted),
        "verdict": verdict,
    }
