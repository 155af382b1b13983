"""Pages that evaluate one model or compare several, as text."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate import __version__
from focalibrate._array import Floats
from focalibrate.comparison import Verdict, assessed
from focalibrate.metrics import Cells, choose_threshold
from focalibrate.pipeline.evaluation import Evaluation
from focalibrate.pipeline.models import Difference, ModelComparison
from focalibrate.report import SCHEMA_VERSION, PageData, Provenance, render_report
from focalibrate.report.records import (
    assessment_record,
    diagrams,
    group_records,
    risk_coverage,
    score_record,
    short,
    shorts,
    top_label_figures,
)

MAX_GROUPS = 200
"""Most groups that the page shows."""
MOST_NAMED = 3
"""Most models that the title names."""
PROMISED = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
"""Errors of the rows kept for which the page looks for a threshold."""
MOST_PROMISED = 100_000
"""Of more rows, the page promises nothing: `focalibrate threshold` does."""


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
        assessed=group_records(found.groups),
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
                "nll": shorts(group.nll),
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
    rows = model.rows
    figures = top_label_figures(*_rows(model, is_event=False))
    if model.n_classes == 2:
        positive = _rows(model, is_event=True)
        figures |= diagrams(*positive)
        if rows is not None and rows.is_answer:
            figures["risk"] = risk_coverage(*positive)
    return {
        "name": model.name,
        "scores": {m: score_record(value) for m, value in model.scores.items()},
        "difference": None if difference is None else score_record(difference.scores["nll"]),
        "p_value": None if difference is None else short(difference.p_value),
        "assessment": assessment_record(model.assessment),
        "promised": [],
        **figures,
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


def _rows(model: Evaluation, *, is_event: bool) -> tuple[Floats, NDArray[np.bool_], Floats | None]:
    """Return probability, outcome and weight of each row, or of two per cell: hits, misses."""
    if model.rows is not None:
        return model.rows.positive if is_event else model.rows.top
    return _rows_of_cells(model.cells(is_event=is_event))


def _rows_of_cells(cells: Cells) -> tuple[Floats, NDArray[np.bool_], Floats]:
    filled = cells.weight > 0
    probability, hits = cells.confidence[filled], cells.outcome[filled]
    misses = np.maximum(cells.weight[filled] - hits, 0.0)
    outcome = np.repeat([True, False], len(hits))
    weight = np.concatenate([hits, misses])
    kept = weight > 0
    return np.tile(probability, 2)[kept], outcome[kept], weight[kept]
