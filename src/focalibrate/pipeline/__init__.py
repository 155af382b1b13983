"""The main job: from predictions with labels to a calibrator, a verdict and a report."""

from focalibrate.pipeline.applying import PriorShift, apply_to_parts
from focalibrate.pipeline.calibrate import calibrate_predictions
from focalibrate.pipeline.doubts import DataWarning, WrongDataWarning, doubts_about
from focalibrate.pipeline.evaluation import Evaluation, evaluate_predictions
from focalibrate.pipeline.examples import Examples
from focalibrate.pipeline.gate import check_predictions
from focalibrate.pipeline.gate_result import GateResult, LimitCheck, LossMean
from focalibrate.pipeline.models import Difference, ModelComparison, compare_models
from focalibrate.pipeline.pages import evaluation_page, models_page
from focalibrate.pipeline.result import CalibrationResult
from focalibrate.pipeline.sketching import sketch_predictions

__all__ = [
    "CalibrationResult",
    "DataWarning",
    "Difference",
    "Evaluation",
    "Examples",
    "GateResult",
    "LimitCheck",
    "LossMean",
    "ModelComparison",
    "PriorShift",
    "WrongDataWarning",
    "apply_to_parts",
    "calibrate_predictions",
    "check_predictions",
    "compare_models",
    "doubts_about",
    "evaluate_predictions",
    "evaluation_page",
    "models_page",
    "sketch_predictions",
]
