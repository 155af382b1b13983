"""A page that evaluates one model, as text."""

import numpy as np
from numpy.typing import NDArray

from focalibrate import __version__
from focalibrate._array import Floats
from focalibrate.comparison import assessed
from focalibrate.metrics import Cells
from focalibrate.pipeline.evaluation import Evaluation
from focalibrate.pipeline.sketched import SketchedEvaluation
from focalibrate.report import ComparedModel, Provenance, models_data, render_report


def evaluation_page(
    found: Evaluation | SketchedEvaluation,
    *,
    command: str = "",
    seed: int = 0,
    made_at: str = "",
) -> str:
    """Return an evaluation of rows or of a sketch as one HTML page, complete in itself.

    Args:
        found: what `evaluate_examples` or `evaluate_sketch_file` returned.
        command: how it was made, shown at the end.
        seed: random seed of the evaluation, shown at the end.
        made_at: date, as it is to be shown.
    """
    notes, worst, positive = [], None, None
    weights: Floats | None
    if isinstance(found, SketchedEvaluation):
        confidence, correct, weights = _rows_of_cells(found.file.sketch.top)
        notes = [found.precision]
    else:
        confidence, correct = found.units.confidence, found.units.correct > 0.5
        weights = found.weights
        positive = found.units.positive if found.n_classes == 2 else None
        worst = None if found.worst is None else found.worst.summary
    data = models_data(
        [
            ComparedModel(
                name=found.name,
                scores={str(metric): score for metric, score in found.scores.items()},
                assessment=found.assessment,
                confidence=confidence,
                correct=correct,
                positive=positive,
                weights=weights,
            )
        ],
        verdict=assessed(found.assessment),
        provenance=Provenance(command=command, version=__version__, seed=seed, made_at=made_at),
        n_classes=found.n_classes,
        event=None if positive is None else found.assessment.event_name,
        n_rows=found.n_rows,
        assessed=found.groups,
        worst_slice=worst,
        notes=notes,
    )
    return render_report(data)


def _rows_of_cells(cells: Cells) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Return confidence, correctness and weight of two rows per cell: its hits, its misses."""
    filled = cells.weight > 0
    confidence, hits = cells.confidence[filled], cells.outcome[filled]
    misses = np.maximum(cells.weight[filled] - hits, 0.0)
    correct = np.repeat([True, False], len(hits))
    weight = np.concatenate([hits, misses])
    kept = weight > 0
    return np.tile(confidence, 2)[kept], correct[kept], weight[kept]
