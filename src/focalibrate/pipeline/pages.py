"""Pages that evaluate one model or compare several, as text."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from focalibrate import __version__
from focalibrate._array import Floats
from focalibrate.comparison import Verdict, assessed
from focalibrate.metrics import Cells, choose_threshold
from focalibrate.pipeline.evaluation import Evaluation
from focalibrate.pipeline.models import Difference, ModelComparison
from focalibrate.report import (
    ComparedGroup,
    ComparedModel,
    Promise,
    Provenance,
    models_data,
    render_report,
)

PROMISED = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
"""Errors of the rows kept for which the page looks for a threshold."""
MOST_PROMISED = 100_000
"""Of more rows, the page promises nothing: `focalibrate threshold` does."""


def evaluation_page(
    found: Evaluation, *, command: str = "", seed: int = 0, made_at: str = ""
) -> str:
    """Return an evaluation of rows or of a sketch as one HTML page, complete in itself.

    Args:
        found: what `evaluate_predictions` or `evaluate_predictions` returned.
        command: how it was made, shown at the end.
        seed: random seed of the evaluation, shown at the end.
        made_at: date, as it is to be shown.
    """
    worst = None if found.rows is None else found.rows.worst
    data = models_data(
        [replace(_compared(found), promised=_promised(found))],
        verdict=assessed(found.assessment),
        provenance=Provenance(command=command, version=__version__, seed=seed, made_at=made_at),
        n_classes=found.n_classes,
        event=found.assessment.event_name if found.n_classes == 2 else None,
        n_rows=found.n_rows,
        assessed=found.groups,
        worst_slice=None if worst is None else worst.summary,
        notes=found.notes,
    )
    return render_report(data)


def models_page(
    found: ModelComparison, *, command: str = "", seed: int = 0, made_at: str = ""
) -> str:
    """Return the comparison as one HTML page, complete in itself.

    Args:
        found: what `compare_models` returned.
        command: how it was made, shown at the end.
        seed: random seed of the comparison, shown at the end.
        made_at: date, as it is to be shown.
    """
    made = Provenance(command=command, version=__version__, seed=seed, made_at=made_at)
    differences = {d.name: d for d in found.differences}
    data = models_data(
        [_compared(model, differences.get(model.name)) for model in found.models],
        verdict=Verdict(None, found.verdict),
        provenance=made,
        n_classes=found.best.n_classes,
        event=found.best.assessment.event_name if found.best.n_classes == 2 else None,
        groups=[
            ComparedGroup(
                f"{group.column} = {group.group}",
                group.n,
                group.nll,
                tuple(group.is_clear(i) for i in range(len(group.nll))),
            )
            for group in found.groups
        ],
    )
    return render_report(data)


def _compared(model: Evaluation, difference: Difference | None = None) -> ComparedModel:
    rows, two = model.rows, model.n_classes == 2
    top = _rows_of_cells(model.cells(is_event=False)) if rows is None else rows.top
    positive = None
    if two:
        positive = _rows_of_cells(model.cells(is_event=True)) if rows is None else rows.positive
    return ComparedModel(
        name=model.name,
        scores={str(metric): score for metric, score in model.scores.items()},
        assessment=model.assessment,
        top=top,
        positive=positive,
        is_answer=rows is not None and rows.is_answer,
        difference=None if difference is None else difference.scores["nll"],
        p_value=None if difference is None else difference.p_value,
    )


def _promised(model: Evaluation) -> list[Promise]:
    """Return the thresholds that keep the error of the rows kept below a level, where they do."""
    rows = model.rows
    if rows is None or rows.weights is not None or model.n_rows > MOST_PROMISED:
        return []
    confidence, correct, _ = rows.answers
    found = []
    for error in PROMISED:
        best = choose_threshold(confidence, correct, precision=1.0 - error, cluster=rows.cluster)
        if best.threshold is not None:
            found.append(Promise(error, best.threshold, best.coverage))
        if best.coverage == 1.0:
            break  # all rows are kept
    return found


def _rows_of_cells(cells: Cells) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Return probability, outcome and weight of two rows per cell: its hits, its misses."""
    filled = cells.weight > 0
    probability, hits = cells.confidence[filled], cells.outcome[filled]
    misses = np.maximum(cells.weight[filled] - hits, 0.0)
    outcome = np.repeat([True, False], len(hits))
    weight = np.concatenate([hits, misses])
    kept = weight > 0
    return np.tile(probability, 2)[kept], outcome[kept], weight[kept]
