"""The main job: from predictions with labels to a calibrator, a verdict and a report."""

from focalibrate.pipeline.examples import Examples
from focalibrate.pipeline.job import calibrate_predictions
from focalibrate.pipeline.record import comparison_record, file_record, interval_record
from focalibrate.pipeline.result import FILES, CalibrationResult

__all__ = [
    "FILES",
    "CalibrationResult",
    "Examples",
    "calibrate_predictions",
    "comparison_record",
    "file_record",
    "interval_record",
]
