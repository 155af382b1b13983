"""A page that evaluates one model, as text."""

import numpy as np
from numpy.typing import NDArray

from focalibrate import __version__
from focalibrate._array import Floats
from focalibrate.metrics import ReliabilityTable
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
    notes, worst = [], None
    weights: Floats | None
    if isinstance(found, SketchedEvaluation):
        confidence, correct, weights = _rows_of_cells(found.file.sketch.cells)
        notes = [found.precision]
    else:
        confidence, correct = found.row_scores.confidence, found.row_scores.correct
        weights = found.weights
        worst = None if found.worst is None else found.worst.summary
    summary = found.assessment.summary
    data = models_data(
        [
            ComparedModel(
                name=found.name,
                scores={str(metric): score for metric, score in found.scores.items()},
                assessment=found.assessment,
                confidence=confidence,
                correct=correct,
                weights=weights,
            )
        ],
        verdict=f"{summary[:1].upper()}{summary[1:]}.",
        provenance=Provenance(command=command, version=__version__, seed=seed, made_at=made_at),
        n_classes=found.n_classes,
        n_rows=found.n_rows,
        assessed=found.groups,
        worst_slice=worst,
        notes=notes,
    )
    return render_report(data)


def _rows_of_cells(cells: ReliabilityTable) -> tuple[Floats, NDArray[np.bool_], Floats]:
    """Return confidence, correctness and weight of two rows per cell: its hits, its misses."""
    filled = cells.count > 0
    confidence, hits = cells.confidence[filled], cells.correct_sum[filled]
    misses = np.maximum(cells.count[filled] - hits, 0.0)
    correct = np.repeat([True, False], len(hits))
    weight = np.concatenate([hits, misses])
    kept = weight > 0
    return np.tile(confidence, 2)[kept], correct[kept], weight[kept]
