"""Post-hoc calibration: fit on validation logits, apply to any logits."""

from focalibrate.calibrate.affine import (
    DirichletCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
)
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.choice import fit
from focalibrate.calibrate.fit_focal_temperature import fit_focal_temperature
from focalibrate.calibrate.fit_temperature import fit_temperature
from focalibrate.calibrate.grouped import GroupedCalibrator
from focalibrate.calibrate.log_odds import (
    BetaCalibration,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
)
from focalibrate.calibrate.methods import METHODS
from focalibrate.calibrate.mixtures import Average, EnsembleTemperatureScaling
from focalibrate.calibrate.one_vs_rest import HistogramBinning, IsotonicCalibration, VennAbers
from focalibrate.calibrate.optimise import CalibrationWarning, FitReport
from focalibrate.calibrate.sigmoid import SigmoidCalibrator, fit_multilabel
from focalibrate.calibrate.temperature import (
    FocalTemperatureScaling,
    Identity,
    PosteriorRecovery,
    TemperatureScaling,
)

__all__ = [
    "METHODS",
    "Average",
    "BetaCalibration",
    "CalibrationWarning",
    "Calibrator",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "FitReport",
    "FocalTemperatureScaling",
    "GroupedCalibrator",
    "HistogramBinning",
    "Identity",
    "IsotonicCalibration",
    "PlattScaling",
    "PosteriorRecovery",
    "QuadraticScaling",
    "SigmoidCalibrator",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
    "VennAbers",
    "fit",
    "fit_focal_temperature",
    "fit_multilabel",
    "fit_temperature",
]
