"""What pages show: of a job, of one model evaluated, of several models compared."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from focalibrate import __version__
from focalibrate.calibrate import Calibrator
from focalibrate.comparison import Verdict, assessed
from focalibrate.io import Predictions
from focalibrate.io.roles.vocabulary import Named
from focalibrate.metrics import Cells, choose_threshold
from focalibrate.pipeline.evaluation import Evaluation
from focalibrate.pipeline.models import Difference, ModelComparison
from focalibrate.report import (
    SCHEMA_VERSION,
    PageData,
    Provenance,
    criterion_grid,
    deployment_snippets,
    records,
    render_report,
)
from focalibrate.report.rows import packed_sample, planned_entries

if TYPE_CHECKING:
    from focalibrate.pipeline.result import CalibrationResult

MAX_GROUPS = 200
"""Most groups that the page shows."""
MOST_IDS = 1_000_000
"""Of more rows, ids are not read a second time for the list of mistakes."""
MOST_NAMED = 3
"""Most models that the title names."""
PROMISED = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
"""Errors of the rows kept for which the page looks for a threshold."""
MOST_PROMISED = 100_000
"""Of more rows, the page promises nothing: `focalibrate threshold` does."""


def result_page(result: "CalibrationResult") -> PageData:
    """Return what the page of a job shows; with `trained_gamma`, the criterion over γ and T."""
    comparison, choice, judged = result.comparison, result.choice, result.judged
    if result.sizes is not None:  # the diagrams are of some of the rows evaluated
        comparison = replace(comparison, n_judged=judged.n_rows, weights=judged.weights)
    read, weights, k = judged.rows, comparison.weights, judged.n_classes
    labels, names, is_kept = read.labels, result.class_names, choice.row.method == "identity"

    def probs(index: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        raw = comparison.held_out_probs("identity", read.logits, index)
        after = raw
        if not is_kept:
            after = comparison.held_out_probs(choice.row.method, read.logits, index)
        return raw, after

    entries = planned_entries(probs, judged.n_rows, k, weights, np.random.default_rng(0))
    before, after = records.judge_rows(probs, labels, weights, entries)
    sides = {"before": before, "after": after}
    top = {n: Cells.of_distinct(s.confidence, s.correct, weights) for n, s in sides.items()}
    event, positive = top, None
    if k == 2:
        is_event = labels == 1
        event = {n: Cells.of_distinct(s.positive, is_event, weights) for n, s in sides.items()}
        positive = {name: records.diagrams(cells) for name, cells in event.items()}
    ranked = event if judged.are_answers else top
    risk = {name: records.risk_coverage(cells) for name, cells in ranked.items()}
    figures = {n: records.diagrams(cells) | {"risk": risk[n]} for n, cells in top.items()}
    settings, trials = comparison.settings, result.by_group
    grid = None
    if settings.trained_gamma is not None:
        grid = criterion_grid(
            result.fitted.logits,
            result.fitted.labels,
            criterion=settings.criterion,
            n_bins=settings.n_bins,
            seed=comparison.seed,
        )
    own = None if trials is None else trials.calibrator
    deployed: Calibrator = own or choice.row.calibrator
    event_name = result.assessment.class_name or ("class 1" if names is None else names[1])
    found = result.assessment, None if is_kept else result.assessment_after
    files = result.provenance.files
    return PageData(
        {
            "schema": SCHEMA_VERSION,
            "title": f"{Path(files[0].name).name}: calibration report"
            if files
            else "Calibration report",
            "verdict": result.verdict.to_dict(),
            "event": {"name": event_name, "klass": 1} if k == 2 else None,
            "chosen": choice.row.method,
            # Without, rows were left out: numbers of rows are not the file's.
            "file": None if judged.layout.rest is None else judged.source.name,
            "judged_on": comparison.judged_on,
            "n_judged": result.comparison.n_judged,  # the table and the verdict are of all
            "n_fitted": comparison.n_fitted,
            "n_classes": k,
            "n_folds": comparison.n_folds,
            "is_weighted": weights is not None,
            "n_bins": settings.n_bins,
            "n_resamples": comparison.n_resamples,
            "bin_counts": list(records.BIN_COUNTS),
            "class_names": None if names is None else list(names),
            "accuracy": records.short(float(np.average(before.correct, weights=weights))),
            "assessment": {
                name: None if one is None else records.assessment_record(one)
                for name, one in zip(sides, found, strict=True)
            },
            "groups": records.group_records(result.groups),
            "worst_slice": None if result.worst is None else result.worst.summary,
            "by_group": None if trials is None else records.by_group_record(trials),
            "deploy": [
                asdict(snippet)
                for snippet in deployment_snippets(
                    deployed, method=choice.row.method, scores=result.fitted.kind
                )
                if own is not None or not is_kept
            ],
            "methods": [records.method_record(row, comparison, choice) for row in comparison.rows],
            "skipped": [list(pair) for pair in comparison.skipped],
            **figures,
            "positive": positive,
            "classes": records.class_table(before, after, labels, k, weights),
            "entries": entries.record(),
            "mistakes": records.mistakes(before, after, labels, _row_ids(judged)),
            "rows": None if grid is None else packed_sample(read.logits, labels, weights, 0),
            "criterion": None if grid is None else records.criterion_record(grid),
            "provenance": asdict(result.provenance) | {"files": [asdict(f) for f in files]},
        }
    )


def _row_ids(read: Predictions) -> list[Any] | None:
    """Return what the file calls each row; None where no column is an id, or rows are many."""
    name = next((name for name in read.layout.names if Named(name).is_id), None)
    if name is None or read.layout.rest is None or read.n_rows > MOST_IDS:
        return None
    found: list[Any] = read.layout.rest().column(name).to_pylist()
    return found


def evaluation_page(found: Evaluation, *, command: str = "", seed: int = 0) -> str:
    """Return an evaluation of rows or of a sketch as one HTML page, complete in itself.

    Args:
        found: what `evaluate_predictions` returned.
        command: how it was made, shown at the end.
        seed: random seed of the evaluation, shown at the end.
    """
    worst = None if found.rows is None else found.rows.worst
    return _page(
        [found],
        assessed(found.assessment),
        command,
        seed,
        models=[_model(found) | {"promised": _promised(found)}],
        title=f"{found.name}: evaluation",
        assessed=records.group_records(found.groups),
        worst_slice=None if worst is None else worst.summary,
        notes=list(found.notes),
    )


def models_page(found: ModelComparison, *, command: str = "", seed: int = 0) -> str:
    """Return the comparison as one HTML page, complete in itself.

    Args:
        found: what `compare_models` returned.
        command: how it was made, shown at the end.
        seed: random seed of the comparison, shown at the end.
    """
    differences = {d.name: d for d in found.differences}
    names = [model.name for model in found.models]
    rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return _page(
        found.models,
        Verdict(None, found.verdict),
        command,
        seed,
        models=[_model(model, differences.get(model.name)) for model in found.models],
        title=f"{', '.join(names[:MOST_NAMED])}{rest}: models compared",
        groups=[
            {
                "name": f"{group.column} = {group.group}",
                "n": group.n,
                "nll": records.shorts(group.nll),
                "clear": [group.is_clear(i) for i in range(len(group.nll))],
            }
            for group in found.groups[:MAX_GROUPS]
        ],
    )


def _page(
    found: Sequence[Evaluation], verdict: Verdict, command: str, seed: int, **more: Any
) -> str:
    """Return a page; `more` is what only one kind of page shows."""
    one = found[0]
    name = one.assessment.event_name
    document = {
        "schema": SCHEMA_VERSION,
        "kind": "models",
        "verdict": verdict.to_dict(),
        "event": {"name": name, "klass": 1} if one.n_classes == 2 else None,
        "n_rows": one.n_rows,
        "n_classes": one.n_classes,
        "groups": [],
        "assessed": [],
        "worst_slice": None,
        "notes": [],
        "provenance": asdict(Provenance(command=command, version=__version__, seed=seed)),
    }
    return render_report(PageData(document | more))


def _model(model: Evaluation, difference: Difference | None = None) -> dict[str, Any]:
    top = model.cells(is_event=False)
    shown = model.cells(is_event=True) if model.n_classes == 2 else top
    is_answer = model.rows is not None and model.rows.is_answer
    return {
        "name": model.name,
        "scores": {m: records.score_record(value) for m, value in model.scores.items()},
        "difference": difference and records.score_record(difference.scores["nll"]),
        "p_value": difference and records.short(difference.p_value),
        "assessment": records.assessment_record(model.assessment),
        "promised": [],
        **records.diagrams(shown),
        "risk": records.risk_coverage(shown if is_answer else top),
    }


def _promised(model: Evaluation) -> list[dict[str, float]]:
    """Return the thresholds that keep the error of the rows kept below a level, where they do.

    With 95 % certainty, of rows with at least this confidence at most this share is wrong.
    """
    rows = model.rows
    if rows is None or rows.weights is not None or model.n_rows > MOST_PROMISED:
        return []
    confidence, correct, _ = rows.answers
    found = []
    for error in PROMISED:
        best = choose_threshold(confidence, correct, precision=1.0 - error, cluster=rows.cluster)
        if best.threshold is not None:
            share = {"threshold": best.threshold, "coverage": best.coverage}
            found.append({"error": error, **share})
        if best.coverage == 1.0:
            break  # all rows are kept
    return found
