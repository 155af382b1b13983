"""What a page shows as JSON: numbers, diagrams, methods, scores, classes, groups, mistakes."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import METHODS
from focalibrate.comparison import Choice, Comparison, GroupChoice, MethodResult, Score, parameters
from focalibrate.metrics import Assessment, Cells
from focalibrate.metrics.corp import Decomposition, ReliabilityCurve, corp_of_cells
from focalibrate.metrics.groups import GroupAssessment
from focalibrate.report.criterion import CriterionGrid
from focalibrate.report.rows import Entries


def short(value: float, digits: int = 6) -> float | None:
    """Return `value` to `digits` significant digits; None where it is not finite."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 2**53 else rounded


def shorts(values: Iterable[float], digits: int = 6) -> list[float | None]:
    """Return `short` of each value; of equal ones it is computed once."""
    given = np.array(values if isinstance(values, np.ndarray) else list(values), np.float64)
    is_finite = np.isfinite(given)
    distinct, place = np.unique(given[is_finite], return_inverse=True)
    found = np.full(len(given), None, dtype=object)
    found[is_finite] = np.array([short(v, digits) for v in distinct.tolist()], object)[place]
    return found.tolist()


BIN_COUNTS = (10, 15, 25)


def diagrams(cells: Cells) -> dict[str, Any]:
    """Return the curve, the decomposed scores and tables (count, confidence, accuracy per bin)."""
    filled = cells.weight > 0
    p, share, mass = (x[filled] for x in (cells.confidence, cells.accuracy, cells.weight))
    tables = {
        "equal-width": [Cells.of(p, share, bins=b, sample_weight=mass) for b in BIN_COUNTS],
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


def risk_coverage(cells: Cells) -> dict[str, Any]:
    """Return the error among the most confident rows, for shares of the rows from 1 % to all.

    Rows of equal confidence share their outcomes, so that the order of the rows does not matter.

    Returns:
        JSON: `coverage`, the observed `risk` and the `stated` one, 1 - mean confidence, of the
        rows kept; `area`, the mean risk over all coverages.
    """
    mass = cells.weight[::-1]
    kept, errors, doubt = (
        np.concatenate([[0.0], np.cumsum(x)])
        for x in (mass, mass - cells.outcome[::-1], mass - cells.probability[::-1])
    )
    n = min(N_POINTS, cells.n_rows)
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
        **{name: _known(record[name]) for name in ("gap", "rms", "slope", "intercept")},
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


BLOCK_ENTRIES = 1 << 21
"""Probabilities held at once."""
BLOCK_ROWS = 64
"""Rows held at least: a table by class costs as much as about 15 of them."""

BeforeAfter = Callable[[Any], tuple[NDArray[Any], NDArray[Any]]]
"""Return the probabilities of the rows at an index, before calibration and after it, held out."""


@dataclass(frozen=True, eq=False)
class Side:
    """What the page needs of all rows, before calibration or after it."""

    confidence: Floats
    predicted: NDArray[np.intp]
    correct: NDArray[np.bool_]
    of_predicted: Floats
    """probability of the class predicted before calibration"""
    positive: Floats
    """probability of the last class"""
    classwise: Cells


def judge_rows(
    probs: BeforeAfter, labels: NDArray[np.intp], weights: Floats | None, entries: Entries
) -> tuple[Side, Side]:
    """Go through all rows once, in blocks, and add those that are shown to `entries`."""
    step = max(BLOCK_ROWS, BLOCK_ENTRIES // entries.n_classes)
    blocks: list[tuple[Side, Side]] = []
    for start in range(0, len(labels), step):
        part = slice(start, start + step)
        before, after = probs(part)
        entries.add(start, before, after, labels[part])
        told = before.argmax(axis=1), labels[part], None if weights is None else weights[part]
        blocks.append((_side(before, *told), _side(after, *told)))
    first, second = map(_joined, zip(*blocks, strict=True))
    return first, second


def _side(
    probs: NDArray[Any], before: NDArray[np.intp], labels: NDArray[np.intp], weights: Floats | None
) -> Side:
    predicted = probs.argmax(axis=1)
    return Side(
        confidence=np.minimum(probs.max(axis=1).astype(np.float64), 1.0),
        predicted=predicted,
        correct=predicted == labels,
        of_predicted=probs[np.arange(len(labels)), before].astype(np.float64),
        positive=np.minimum(probs[:, -1].astype(np.float64), 1.0),
        classwise=Cells.of_classes(probs, labels, sample_weight=weights),
    )


def _joined(blocks: tuple[Side, ...]) -> Side:
    names = [field.name for field in fields(Side)][:-1]
    columns: dict[str, Any] = {n: np.concatenate([getattr(b, n) for b in blocks]) for n in names}
    tables = [block.classwise for block in blocks]
    return Side(**columns, classwise=sum(tables[1:], tables[0]))


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
