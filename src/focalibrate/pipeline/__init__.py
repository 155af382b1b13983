"""The main job: from predictions with labels to a calibrator, a verdict and a report."""

from focalibrate.pipeline.applying import (
    PriorShift,
    SpecialRows,
    apply_to_parts,
    calibrated_blocks,
)
from focalibrate.pipeline.calibrate import calibrate_predictions
from focalibrate.pipeline.doubts import DataWarning, WrongDataWarning, doubts_about
from focalibrate.pipeline.evaluation import Evaluation, evaluate_predictions
from focalibrate.pipeline.examples import Examples
from focalibrate.pipeline.gate import check_predictions
from focalibrate.pipeline.gate_result import BAD_INPUT, GateResult, LimitCheck, LossMean
from focalibrate.pipeline.models import (
    Difference,
    ModelComparison,
    compare_models,
    paired_rows,
)
from focalibrate.pipeline.pages import evaluation_page, models_page
from focalibrate.pipeline.result import FILES, CalibrationResult, file_record
from focalibrate.pipeline.sample import FitRows, rows_to_fit
from focalibrate.pipeline.sketching import sketch_predictions

__all__ = [
    "BAD_INPUT",
    "FILES",
    "CalibrationResult",
    "DataWarning",
    "Difference",
    "Evaluation",
    "Examples",
    "FitRows",
    "GateResult",
    "LimitCheck",
    "LossMean",
    "ModelComparison",
    "PriorShift",
    "SpecialRows",
    "WrongDataWarning",
    "apply_to_parts",
    "calibrate_predictions",
    "calibrated_blocks",
    "check_predictions",
    "compare_models",
    "doubts_about",
    "evaluate_predictions",
    "evaluation_page",
    "file_record",
    "models_page",
    "paired_rows",
    "rows_to_fit",
    "sketch_predictions",
]
