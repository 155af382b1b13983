"""Everything that a page shows, gathered before a line of it is written."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate.calibrate import METHODS, Identity, read_scores
from focalibrate.comparison import (
    Choice,
    Comparison,
    GroupChoice,
    MethodResult,
    Score,
    verdict,
)
from focalibrate.metrics import Assessment, ClasswiseTable, GroupAssessment, WorstSlice
from focalibrate.report._diagrams import BIN_COUNTS, diagrams, top_label_figures, weighted_mean
from focalibrate.report._entries import PILOT, Entries, plan_entries
from focalibrate.report._groups import by_group_record, group_records
from focalibrate.report._numbers import short, shorts
from focalibrate.report._rows import MAX_TEXT, most_rows, pack_rows, text_length
from focalibrate.report.criterion import CriterionGrid
from focalibrate.report.provenance import Provenance
from focalibrate.report.snippets import (
    Scores,
    Snippet,
    deployment_snippets,
    grouped_snippets,
)

SCHEMA_VERSION = 2
"""Of the JSON inside the page."""
ON_THE_MAP = (
    "identity",
    "temperature",
    "posterior_recovery",
    "focal_temperature",
    "focal_loss_temperature",
)
"""Kinds of calibrator that are a gamma and a temperature, which the sliders can be set to."""
N_MISTAKES = 25
BLOCK_ENTRIES = 1 << 21
"""Probabilities held at once."""


@dataclass(frozen=True, eq=False)
class PageData:
    """The document that a page shows; made by `page_data`."""

    document: dict[str, Any]
    """JSON: finite numbers, text, lists"""

    def to_json(self) -> str:
        """Return the document as compact JSON."""
        return json.dumps(
            self.document, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        )


def page_data(
    comparison: Comparison,
    choice: Choice,
    logits: Array,
    labels: Array,
    *,
    provenance: Provenance,
    class_names: Sequence[str] | None = None,
    criterion: CriterionGrid | None = None,
    assessment: Assessment | None = None,
    assessment_after: Assessment | None = None,
    groups: Sequence[GroupAssessment] = (),
    worst: WorstSlice | None = None,
    by_group: GroupChoice | None = None,
    scores: Scores = "logits",
    title: str | None = None,
    seed: int = 0,
) -> PageData:
    """Gather what a page shows.

    Args:
        comparison: what `compare` returned.
        choice: what `choose` returned.
        logits: real array ``[N, K]``, the rows evaluated: the test set, or the validation set
            where the methods were cross-validated.
        labels: class indices ``[N]``.
        provenance: how the page was made. The same arguments give the same page.
        class_names: one for each class; any text. Default: the class indices.
        criterion: map over gamma and temperature, see `criterion_grid`. With it the page lets
            its reader try gammas and temperatures and explains posterior recovery, which means
            something for models trained with focal loss. Default: neither is shown.
        assessment: `focalibrate.metrics.assess` of the uncalibrated rows. Default: none shown.
        assessment_after: the same of the calibrated rows, held out.
        groups: what `focalibrate.metrics.assess_groups` returned, for a forest plot.
        worst: what `focalibrate.metrics.worst_slice` returned.
        by_group: what `focalibrate.comparison.choose_by_group` returned.
        scores: what the model returns, for the code that deploys the calibrator.
        title: title of the page. Default: the name of the first file in `provenance`.
        seed: random seed of the sample of rows that is shown where the page cannot hold all.

    Returns:
        `PageData`, for `write_report`.

    Numerics:
        Probabilities are computed once, in blocks; `logits` is not copied.

    Example:
        >>> from focalibrate.comparison import choose, compare
        >>> rng = np.random.default_rng(0)
        >>> truth = 2 * rng.normal(size=(500, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = compare(3 * truth, labels, methods=["temperature"], n_resamples=20)
        >>> made = Provenance(command="none", version="0.1.0", seed=0)
        >>> data = page_data(found, choose(found), 3 * truth, labels, provenance=made)
        >>> data.document["chosen"], len(data.document["mistakes"])
        ('temperature', 25)
    """
    scored = read_scores(logits, labels)
    rows, targets = scored.logits, scored.labels
    n_classes = rows.shape[1]
    _check(comparison, rows, class_names)
    pair = _Pair(rows, targets, comparison, choice.row.method)
    rng = np.random.default_rng(seed)
    entries = _planned(pair, rng)
    weights = comparison.weights
    judged = _judge(pair, entries)
    document = {
        "schema": SCHEMA_VERSION,
        "title": title if title is not None else _title(provenance),
        "verdict": verdict(comparison, choice, assessment, by_group),
        "reason": choice.reason,
        "chosen": choice.row.method,
        "judged_on": comparison.judged_on,
        "n_judged": comparison.n_judged,
        "n_fitted": comparison.n_fitted,
        "n_classes": n_classes,
        "n_folds": comparison.n_folds,
        "is_weighted": comparison.weights is not None,
        "n_bins": comparison.n_bins,
        "n_resamples": comparison.n_resamples,
        "bin_counts": list(BIN_COUNTS),
        "class_names": None if class_names is None else [str(name) for name in class_names],
        "accuracy": short(weighted_mean(judged.correct[0], weights)),
        "assessment": None
        if assessment is None
        else {
            "before": assessment_record(assessment),
            "after": None
            if assessment_after is None or choice.row.method == "identity"
            else assessment_record(assessment_after),
        },
        "held_out": {m: score_record(i) for m, i in choice.held_out.items()},
        "groups": group_records(groups),
        "worst_slice": None if worst is None else worst.summary,
        "by_group": None if by_group is None else by_group_record(by_group),
        "deploy": [asdict(snippet) for snippet in _snippets(choice, by_group, scores)],
        "methods": [_method(row, comparison.n_classes) for row in comparison.rows],
        "skipped": [list(pair) for pair in comparison.skipped],
        "before": top_label_figures(judged.confidence[0], judged.correct[0], weights),
        "after": top_label_figures(judged.confidence[1], judged.correct[1], weights),
        "positive": None
        if n_classes != 2
        else {
            which: diagrams(judged.positive[i], targets == 1, weights)
            for i, which in enumerate(("before", "after"))
        },
        "classes": _class_table(judged, targets, n_classes, weights),
        "entries": entries.record(),
        "mistakes": _mistakes(judged, targets),
        "rows": None if criterion is None else _rows(rows, targets, weights, seed),
        "criterion": None if criterion is None else _criterion(criterion),
        "provenance": asdict(provenance) | {"files": [asdict(f) for f in provenance.files]},
    }
    return PageData(document)


def _snippets(choice: Choice, by_group: GroupChoice | None, scores: Scores) -> Sequence[Snippet]:
    if by_group is not None and by_group.calibrator is not None:
        return grouped_snippets(by_group.calibrator, scores=scores)
    if choice.row.method == "identity":
        return ()
    return deployment_snippets(choice.row.calibrator, method=choice.row.method, scores=scores)


def _title(provenance: Provenance) -> str:
    if not provenance.files:
        return "Calibration report"
    return f"{Path(provenance.files[0].name).name}: calibration report"


def _check(comparison: Comparison, rows: NDArray[Any], class_names: Sequence[str] | None) -> None:
    n, k = rows.shape
    if (n, k) != (comparison.n_judged, comparison.n_classes):
        raise ValueError(
            f"`logits` must be the rows evaluated, {comparison.n_judged} of "
            f"{comparison.n_classes} classes, got {n} of {k}. Pass the test set, or the "
            "validation set where the methods were cross-validated."
        )
    if class_names is not None and len(class_names) != k:
        raise ValueError(
            f"`class_names` must name each of the {k} classes, got {len(class_names)}. "
            "Leave them out to number the classes."
        )


def _planned(pair: "_Pair", rng: np.random.Generator) -> Entries:
    """Return the collector of the rows shown, a random sample where not all can be."""
    n, k = pair.logits.shape
    pilot = np.sort(rng.permutation(n)[:PILOT])
    n_shown, floor = plan_entries(pair.before(pilot), pair.after(pilot), n=n)
    return Entries(_sample(n, n_shown, pair.comparison.weights, rng), k, floor)


def _sample(
    n: int, size: int, weights: NDArray[np.float64] | None, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return `size` of `n` rows, rising; drawn in proportion to the weights where there are any.

    The page then counts every row shown as one, and need not know of weights.
    """
    if weights is not None:
        return np.sort(rng.choice(n, size, p=weights / weights.sum()))
    return np.arange(n) if size >= n else np.sort(rng.choice(n, size, replace=False))


def _rows(
    rows: NDArray[Any], labels: NDArray[np.intp], weights: NDArray[np.float64] | None, seed: int
) -> dict[str, Any]:
    """Return the rows that the page computes any gamma and temperature from, as JSON."""
    rng = np.random.default_rng(seed)
    shown = _sample(len(rows), most_rows(*rows.shape), weights, rng)
    packed = pack_rows(rows[shown], labels[shown])
    if text_length(packed) > MAX_TEXT:
        n = int(len(shown) * 0.98 * MAX_TEXT / text_length(packed))
        shown = _sample(len(rows), n, weights, rng)
        packed = pack_rows(rows[shown], labels[shown])
    return packed | {"seed": seed}


@dataclass(frozen=True, eq=False)
class _Pair:
    """Probabilities before and after, of any rows."""

    logits: NDArray[Any]
    labels: NDArray[np.intp]
    comparison: Comparison
    chosen: str

    def before(self, index: Any) -> NDArray[Any]:
        probs: NDArray[Any] = Identity().probs(self.logits[index])
        return probs

    def after(self, index: Any) -> NDArray[Any]:
        return self.comparison.held_out_probs(self.chosen, self.logits, index)

    def blocks(self) -> Iterator[slice]:
        n, k = self.logits.shape
        step = max(1, BLOCK_ENTRIES // k)
        return (slice(start, min(start + step, n)) for start in range(0, n, step))


@dataclass(frozen=True, eq=False)
class _Judged:
    """Before and after, of all rows."""

    confidence: tuple[NDArray[np.float64], NDArray[np.float64]]
    predicted: tuple[NDArray[np.intp], NDArray[np.intp]]
    correct: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    of_predicted: NDArray[np.float64]
    """probability, after, of the class predicted before"""
    positive: tuple[NDArray[np.float64], NDArray[np.float64]]
    """probability of the last class"""
    classwise: tuple[ClasswiseTable, ClasswiseTable]


def _judge(pair: _Pair, entries: Entries) -> _Judged:
    """Look at all rows once, block by block, and give `entries` those that are shown."""
    found: list[tuple[Any, ...]] = []
    for part in pair.blocks():
        labels = pair.labels[part]
        weights = None if pair.comparison.weights is None else pair.comparison.weights[part]
        probs = pair.before(part), pair.after(part)
        entries.add(part.start, *probs, labels)
        predicted = tuple(p.argmax(axis=1) for p in probs)
        confidence = tuple(np.minimum(p.max(axis=1).astype(np.float64), 1.0) for p in probs)
        at = np.arange(len(labels))
        found.append(
            (
                *confidence,
                *predicted,
                probs[1][at, predicted[0]].astype(np.float64),
                *(np.minimum(p[:, -1].astype(np.float64), 1.0) for p in probs),
                *(ClasswiseTable.of(p, labels, sample_weight=weights) for p in probs),
            )
        )
    *columns, raw, after = zip(*found, strict=True)
    c0, c1, p0, p1, of_predicted, last0, last1 = (np.concatenate(column) for column in columns)
    return _Judged(
        (c0, c1),
        (p0, p1),
        (p0 == pair.labels, p1 == pair.labels),
        of_predicted,
        (last0, last1),
        (sum(raw[1:], raw[0]), sum(after[1:], after[0])),
    )


def _method(row: MethodResult, n_classes: int) -> dict[str, Any]:
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


def _class_table(
    judged: _Judged, labels: NDArray[np.intp], k: int, weights: NDArray[np.float64] | None
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


def _mistakes(judged: _Judged, labels: NDArray[np.intp]) -> list[dict[str, Any]]:
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


def _criterion(grid: CriterionGrid) -> dict[str, Any]:
    return {
        "criterion": grid.criterion,
        "gammas": shorts(grid.gammas),
        "temperatures": shorts(grid.temperatures),
        "values": [shorts(row, 5) for row in grid.values],
        "n_rows": grid.n_rows,
        "n_rows_given": grid.n_rows_given,
    }
