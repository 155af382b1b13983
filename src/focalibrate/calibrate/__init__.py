"""Post-hoc calibration: fit on validation logits, apply to any logits."""

from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.blocks import available_cores
from focalibrate.calibrate._engine.grid import RowIndex
from focalibrate.calibrate._input import (
    ScoredRows,
    read_scores,
    read_weights,
    sample_size,
    score_matrix,
    zero_mix_below,
    zero_mix_for,
)
from focalibrate.calibrate._scores import as_array, log_probabilities, own_log_probabilities
from focalibrate.calibrate._settings import (
    COARSE_TEMPERATURES,
    FINE_TEMPERATURES,
    FOCAL_GAMMAS,
    CalibrationWarning,
)
from focalibrate.calibrate.auto import AutomaticChoice, explain_auto, fit_auto
from focalibrate.calibrate.binary import (
    BetaCalibration,
    PlattScaling,
    QuadraticScaling,
    fit_beta,
    fit_platt,
    fit_quadratic,
)
from focalibrate.calibrate.compressed import CompressedLogits, compress_logits, exact_logits
from focalibrate.calibrate.dirichlet import DirichletCalibration, fit_dirichlet
from focalibrate.calibrate.ensemble import EnsembleTemperatureScaling, fit_ensemble_temperature
from focalibrate.calibrate.fit_report import FitReport, collected_warnings
from focalibrate.calibrate.fit_structured import fit_structured_matrix, fit_structured_vector
from focalibrate.calibrate.focal_temperature import fit_focal_temperature
from focalibrate.calibrate.grouped import GroupedCalibrator, group_names
from focalibrate.calibrate.histogram import fit_histogram_binning
from focalibrate.calibrate.isotonic import fit_isotonic
from focalibrate.calibrate.methods import METHODS, fit, fit_parts
from focalibrate.calibrate.one_vs_rest import HistogramBinning, IsotonicCalibration
from focalibrate.calibrate.parametric import (
    FocalLossTemperature,
    FocalTemperatureScaling,
    Identity,
    PosteriorRecovery,
    TemperatureScaling,
    VectorScaling,
)
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.pool import Pool
from focalibrate.calibrate.pooled_fits import fit_pool
from focalibrate.calibrate.row_stream import RowCounts, RowStream
from focalibrate.calibrate.sigmoid import (
    SigmoidCalibrator,
    fit_sigmoid_platt,
    fit_sigmoid_temperature,
)
from focalibrate.calibrate.single import Method
from focalibrate.calibrate.spline import SplineCalibration, fit_spline
from focalibrate.calibrate.streamed import STREAMED, fit_streamed
from focalibrate.calibrate.structured import StructuredMatrixScaling, StructuredVectorScaling
from focalibrate.calibrate.temperature import fit_temperature, share_temperatures
from focalibrate.calibrate.top_terms import TopScorer, TopTerms, form_of
from focalibrate.calibrate.vector import fit_vector_scaling
from focalibrate.calibrate.venn_abers import VennAbers, fit_venn_abers

__all__ = [
    "COARSE_TEMPERATURES",
    "FINE_TEMPERATURES",
    "FOCAL_GAMMAS",
    "METHODS",
    "STREAMED",
    "AutomaticChoice",
    "BetaCalibration",
    "CalibrationWarning",
    "Calibrator",
    "CompressedLogits",
    "DirichletCalibration",
    "EnsembleTemperatureScaling",
    "FitReport",
    "FocalLossTemperature",
    "FocalTemperatureScaling",
    "GroupedCalibrator",
    "HistogramBinning",
    "Identity",
    "IsotonicCalibration",
    "Method",
    "Parts",
    "PlattScaling",
    "Pool",
    "PosteriorRecovery",
    "QuadraticScaling",
    "RowCounts",
    "RowIndex",
    "RowStream",
    "ScoredRows",
    "SigmoidCalibrator",
    "SplineCalibration",
    "StructuredMatrixScaling",
    "StructuredVectorScaling",
    "TemperatureScaling",
    "TopScorer",
    "TopTerms",
    "VectorScaling",
    "VennAbers",
    "as_array",
    "available_cores",
    "collected_warnings",
    "compress_logits",
    "exact_logits",
    "explain_auto",
    "fit",
    "fit_auto",
    "fit_beta",
    "fit_dirichlet",
    "fit_ensemble_temperature",
    "fit_focal_temperature",
    "fit_histogram_binning",
    "fit_isotonic",
    "fit_parts",
    "fit_platt",
    "fit_pool",
    "fit_quadratic",
    "fit_sigmoid_platt",
    "fit_sigmoid_temperature",
    "fit_spline",
    "fit_streamed",
    "fit_structured_matrix",
    "fit_structured_vector",
    "fit_temperature",
    "fit_vector_scaling",
    "fit_venn_abers",
    "form_of",
    "group_names",
    "log_probabilities",
    "own_log_probabilities",
    "read_scores",
    "read_weights",
    "sample_size",
    "score_matrix",
    "share_temperatures",
    "zero_mix_below",
    "zero_mix_for",
]
