"""Post-hoc calibration: fit on validation logits, apply to any logits."""

from focalibrate.calibrate.affine import (
    DirichletCalibration,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    VectorScaling,
    fit_dirichlet,
    fit_structured_matrix,
    fit_structured_vector,
    fit_vector_scaling,
)
from focalibrate.calibrate.average import Average
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.choice import explain_auto, fit_average
from focalibrate.calibrate.ensemble import EnsembleTemperatureScaling, fit_ensemble_temperature
from focalibrate.calibrate.fit_focal_temperature import fit_focal_temperature
from focalibrate.calibrate.fit_temperature import fit_temperature
from focalibrate.calibrate.grouped import GroupedCalibrator
from focalibrate.calibrate.log_odds import (
    BetaCalibration,
    PlattScaling,
    QuadraticScaling,
    SplineCalibration,
    fit_beta,
    fit_platt,
    fit_quadratic,
    fit_spline,
)
from focalibrate.calibrate.methods import METHODS, fit
from focalibrate.calibrate.one_vs_rest import (
    HistogramBinning,
    IsotonicCalibration,
    VennAbers,
    fit_histogram_binning,
    fit_isotonic,
    fit_venn_abers,
)
from focalibrate.calibrate.report import CalibrationWarning, FitReport
from focalibrate.calibrate.sigmoid import (
    SigmoidCalibrator,
    fit_sigmoid_platt,
    fit_sigmoid_temperature,
)
from focalibrate.calibrate.temperature import (
    FocalLossTemperature,
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
    "FocalLossTemperature",
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
    "explain_auto",
    "fit",
    "fit_average",
    "fit_beta",
    "fit_dirichlet",
    "fit_ensemble_temperature",
    "fit_focal_temperature",
    "fit_histogram_binning",
    "fit_isotonic",
    "fit_platt",
    "fit_quadratic",
    "fit_sigmoid_platt",
    "fit_sigmoid_temperature",
    "fit_spline",
    "fit_structured_matrix",
    "fit_structured_vector",
    "fit_temperature",
    "fit_vector_scaling",
    "fit_venn_abers",
]
