"""Everything that a page shows, gathered before a line of it is written."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate.calibrate._input import read_logits
from focalibrate.calibrate.parametric import Identity
from focalibrate.comparison import Choice, Comparison, MethodResult, Score, verdict
from focalibrate.metrics import ClasswiseTable
from focalibrate.report._classes import class_entries
from focalibrate.report._diagrams import BIN_COUNTS, diagrams
from focalibrate.report._numbers import short, shorts
from focalibrate.report._rows import MAX_TEXT, pack_rows, sample_rows, text_length
from focalibrate.report.criterion import CriterionGrid
from focalibrate.report.provenance import Provenance

SCHEMA_VERSION = 1
"""Of the JSON inside the page."""
N_MISTAKES = 25
BLOCK_ENTRIES = 1 << 23
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
    title: str = "Calibration report",
    seed: int = 0,
) -> PageData:
    """Gather what a page shows.

    Args:
        comparison: what `compare` returned.
        choice: what `choose` returned.
        logits: real array ``[N, K]``, the rows judged: the test set, or the validation set
            where the methods were cross-fitted.
        labels: class indices ``[N]``.
        provenance: how the page was made; nothing else tells it, so that the same arguments
            give the same page.
        class_names: one for each class; any text. Default: the class indices.
        criterion: map over gamma and temperature, see `criterion_grid`. Default: none shown.
        title: of the page.
        seed: of the sample of rows, which is taken where the page cannot hold all.

    Returns:
        `PageData`, for `write_report`.

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
    rows, targets = read_logits(logits, labels)
    n_classes = rows.shape[1]
    _check(comparison, rows, class_names)
    pair = _Pair(rows, targets, comparison, choice.row.method)
    judged = _judge(pair)
    shown, packed = _shown(rows, targets, seed)
    mixed = np.random.default_rng(seed).permutation(shown)  # where only the first can be shown
    document = {
        "schema": SCHEMA_VERSION,
        "title": title,
        "verdict": verdict(comparison, choice),
        "reason": choice.reason,
        "chosen": choice.row.method,
        "judged_on": comparison.judged_on,
        "n_judged": comparison.n_judged,
        "n_fitted": comparison.n_fitted,
        "n_classes": n_classes,
        "n_folds": comparison.n_folds,
        "n_bins": comparison.n_bins,
        "n_resamples": comparison.n_resamples,
        "bin_counts": list(BIN_COUNTS),
        "class_names": None if class_names is None else [str(name) for name in class_names],
        "accuracy": short(float(judged.correct[0].mean())),
        "methods": [_method(row) for row in comparison.rows],
        "skipped": [list(pair) for pair in comparison.skipped],
        "before": diagrams(judged.confidence[0], judged.correct[0]),
        "after": diagrams(judged.confidence[1], judged.correct[1]),
        "classes": _class_table(judged, targets, n_classes),
        "entries": class_entries(pair.before(mixed), pair.after(mixed), targets[mixed]),
        "mistakes": _mistakes(judged, targets),
        "rows": packed | {"seed": seed},
        "criterion": None if criterion is None else _criterion(criterion),
        "provenance": asdict(provenance) | {"files": [asdict(f) for f in provenance.files]},
    }
    return PageData(document)


def _check(
    comparison: Comparison,
    rows: NDArray[Any],
    class_names: Sequence[str] | None,
) -> None:
    n, k = rows.shape
    if (n, k) != (comparison.n_judged, comparison.n_classes):
        raise ValueError(
            f"`logits` must be the rows judged, {comparison.n_judged} of {comparison.n_classes} "
            f"classes, got {n} of {k}. Pass the test set, or the validation set where the "
            "methods were cross-fitted."
        )
    if class_names is not None and len(class_names) != k:
        raise ValueError(
            f"`class_names` must name each of the {k} classes, got {len(class_names)}. "
            "Leave them out to number the classes."
        )


def _shown(
    rows: NDArray[Any], labels: NDArray[np.intp], seed: int
) -> tuple[NDArray[np.intp], dict[str, Any]]:
    """Return which rows the page computes from, as many as it can hold, and their JSON."""
    shown = sample_rows(*rows.shape, seed=seed)
    packed = pack_rows(rows[shown], labels[shown])
    if text_length(packed) > MAX_TEXT:
        n = int(len(shown) * 0.98 * MAX_TEXT / text_length(packed))
        shown = np.sort(np.random.default_rng(seed).choice(len(rows), n, replace=False))
        packed = pack_rows(rows[shown], labels[shown])
    return shown, packed


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
    classwise: tuple[ClasswiseTable, ClasswiseTable]


def _judge(pair: _Pair) -> _Judged:
    found: list[tuple[Any, ...]] = []
    for part in pair.blocks():
        labels = pair.labels[part]
        probs = pair.before(part), pair.after(part)
        predicted = tuple(p.argmax(axis=1) for p in probs)
        confidence = tuple(np.minimum(p.max(axis=1).astype(np.float64), 1.0) for p in probs)
        at = np.arange(len(labels))
        found.append(
            (
                *confidence,
                *predicted,
                probs[1][at, predicted[0]].astype(np.float64),
                *(ClasswiseTable.of(p, labels) for p in probs),
            )
        )
    *columns, raw, after = zip(*found, strict=True)
    c0, c1, p0, p1, of_predicted = (np.concatenate(column) for column in columns)
    return _Judged(
        (c0, c1),
        (p0, p1),
        (p0 == pair.labels, p1 == pair.labels),
        of_predicted,
        (sum(raw[1:], raw[0]), sum(after[1:], after[0])),
    )


def _method(row: MethodResult) -> dict[str, Any]:
    calibrator: Any = row.calibrator
    kind = calibrator.kind
    gamma = getattr(calibrator, "gamma", None)
    temperature = getattr(calibrator, "temperature", None)
    if kind in ("identity", "posterior_recovery"):
        temperature = 1.0
    if kind in ("identity", "temperature_scaling"):
        gamma = 0.0
    return {
        "method": row.method,
        "label": row.label,
        "complexity": row.complexity,
        "describe": calibrator.describe(),
        "gamma": gamma if temperature is not None else None,
        "temperature": temperature if gamma is not None else None,
        "scores": {m: _score(i) for m, i in row.scores.items()},
        "to_raw": {m: _score(i) for m, i in row.to_raw.items()},
        "changed": row.n_predictions_changed,
        "notes": list(row.notes),
    }


def _score(value: Score) -> list[float | None]:
    low = value.estimate if value.low is None else value.low
    high = value.estimate if value.high is None else value.high
    return shorts((value.estimate, low, high))


def _class_table(judged: _Judged, labels: NDArray[np.intp], k: int) -> dict[str, Any]:
    before, after = judged.predicted
    count = np.bincount(labels, minlength=k)
    hits = np.bincount(labels[judged.correct[0]], minlength=k)
    predicted = np.bincount(before, minlength=k)

    def mean(total: NDArray[Any], size: NDArray[Any]) -> list[float | None]:
        out = np.full(k, np.nan)
        return shorts(np.divide(total, size, out=out, where=size > 0), 4)

    return {
        "count": count.tolist(),
        "predicted": predicted.tolist(),
        "recall": mean(hits, count),
        "precision": mean(hits, predicted),
        "confidence_before": mean(
            np.bincount(before, judged.confidence[0], minlength=k), predicted
        ),
        "confidence_after": mean(
            np.bincount(after, judged.confidence[1], minlength=k),
            np.bincount(after, minlength=k),
        ),
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
