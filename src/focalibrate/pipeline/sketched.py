"""Scores computed from a sketch."""

import math
from dataclasses import dataclass, field
from typing import Any

from focalibrate.comparison import Score
from focalibrate.io import SketchFile
from focalibrate.metrics import Assessment, Cells
from focalibrate.metrics.groups import GroupAssessment
from focalibrate.metrics.registry import MetricName
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.pipeline.record import score_record


@dataclass(frozen=True, eq=False)
class SketchedEvaluation:
    """The scores of a sketch, in the form of `Evaluation`, which has rows."""

    name: str
    calibrator: str
    """what was applied first, in words; empty where nothing was"""
    scores: dict[MetricName, Score]
    """log loss, Brier score and error with 95 % intervals; calibration errors without"""
    error_bound: dict[MetricName, float]
    """how far each calibration error can be from its value on rows; 0: the same"""
    assessment: Assessment
    n_rows: int
    n_classes: int
    n_zeros: int
    """rows with probability 0 at their label"""
    confident: ConfidentFraction
    table: Cells = field(repr=False)
    file: SketchFile = field(repr=False)
    groups: tuple[GroupAssessment, ...] = ()

    @property
    def precision(self) -> str:
        """How exact the scores are, as a sentence."""
        return (
            "Evaluated in one pass, from a sketch: adaptive ECE is within "
            f"{100 * self.error_bound['adaptive_ece']:.2g} points of its value on rows, smooth "
            f"ECE within {100 * self.error_bound['smooth_ece']:.2g}; the other scores are exact."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        return {
            "name": self.name,
            "calibrator": self.calibrator or None,
            "rows": self.n_rows,
            "classes": self.n_classes,
            "scores": {m: score_record(v) for m, v in self.scores.items()},
            "assessment": self.assessment.to_dict(),
            "groups": [group.to_dict() for group in self.groups],
            "worst_slice": None,
            "sketch": {
                "error_bound": dict(self.error_bound),
                "sources": list(self.file.sources),
                "versions": {name: list(v) for name, v in self.file.versions.items()},
                "from": self.file.start,
                "to": self.file.end,
            },
        }


def evaluate_sketch_file(file: SketchFile, *, name: str = "", seed: int = 0) -> SketchedEvaluation:
    """Return the scores of a sketch, and whether its model is calibrated.

    Args:
        file: of `read_sketch`, `merge_sketches` or `sketch_predictions`.
        name: what to call the model.
        seed: random seed of the test's draws.
    """
    found = file.sketch.evaluate(seed=seed)
    scores = {m: Score(v) for m, v in found.errors.items()}
    for metric, value in found.scores.items():
        is_known = math.isfinite(value.low) and math.isfinite(value.high)
        scores[metric] = (
            Score(value.estimate, value.low, value.high) if is_known else Score(value.estimate)
        )
    return SketchedEvaluation(
        name=name,
        calibrator=file.calibrator,
        scores=scores,
        error_bound=dict(found.error_bound),
        assessment=found.assessment,
        n_rows=found.n,
        n_classes=found.n_classes,
        n_zeros=found.n_zeros,
        confident=found.confident,
        table=found.table,
        file=file,
        groups=found.groups,
    )
