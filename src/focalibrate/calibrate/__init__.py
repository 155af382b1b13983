"""Post-hoc calibration: fit on validation logits, apply to any logits."""

from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._settings import (
    GAMMAS_003,
    TEMPERATURES_002,
    TEMPERATURES_003,
    CalibrationWarning,
)
from focalibrate.calibrate.compressed import CompressedLogits, compress_logits, exact_logits
from focalibrate.calibrate.fit_report import FitReport
from focalibrate.calibrate.focal_temperature import fit_focal_temperature
from focalibrate.calibrate.histogram import fit_histogram_binning
from focalibrate.calibrate.isotonic import fit_isotonic
from focalibrate.calibrate.methods import METHODS, fit
from focalibrate.calibrate.one_vs_rest import HistogramBinning, IsotonicCalibration
from focalibrate.calibrate.parametric import (
    FocalLossTemperature,
    FocalTemperatureScaling,
    Identity,
    PosteriorRecovery,
    TemperatureScaling,
    VectorScaling,
)
from focalibrate.calibrate.temperature import fit_temperature
from focalibrate.calibrate.vector import fit_vector_scaling

__all__ = [
    "GAMMAS_003",
    "METHODS",
    "TEMPERATURES_002",
    "TEMPERATURES_003",
    "CalibrationWarning",
    "Calibrator",
    "CompressedLogits",
    "FitReport",
    "FocalLossTemperature",
    "FocalTemperatureScaling",
    "HistogramBinning",
    "Identity",
    "IsotonicCalibration",
    "PosteriorRecovery",
    "TemperatureScaling",
    "VectorScaling",
    "compress_logits",
    "exact_logits",
    "fit",
    "fit_focal_temperature",
    "fit_histogram_binning",
    "fit_isotonic",
    "fit_temperature",
    "fit_vector_scaling",
]
