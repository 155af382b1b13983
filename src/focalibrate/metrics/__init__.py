"""Calibration errors, proper scores, and what the data prove about them.

Every metric takes ``(probs, labels)`` of any array library and returns a Python float,
computed in NumPy float64; `sample_weight` weights the rows. Probabilities are ``[..., K]``;
one probability of class 1 per example needs ``binary=True``. `METRICS` lists the metrics,
`assess` tests whether a model is calibrated, `focalibrate.metrics.tests` has further tests.
For data that comes in pieces, `Sketch` is a mergeable summary from which all of this is computed;
`ReliabilityTable` and `ClasswiseTable` are the tables in it.
"""

from focalibrate.metrics.adaptive import adaptive_ece, debiased_ece
from focalibrate.metrics.assessment import Assessment, PositiveAssessment, assess
from focalibrate.metrics.binning import log_odds_edges
from focalibrate.metrics.bootstrap import BootstrapInterval, bootstrap, bootstrap_difference
from focalibrate.metrics.bounds import ErrorBounds, calibration_bounds
from focalibrate.metrics.calibration_error import ece, mce
from focalibrate.metrics.classwise import ClasswiseTable, classwise_ece
from focalibrate.metrics.corp import Corp, Decomposition, ReliabilityCurve, corp, corp_of_table
from focalibrate.metrics.difference import rms_difference
from focalibrate.metrics.groups import GroupAssessment, assess_groups, holm
from focalibrate.metrics.interval import ConfidenceInterval, NoiseFloor
from focalibrate.metrics.multilabel import MultilabelTable, multilabel_ece
from focalibrate.metrics.registry import (
    INTERVAL_METRICS,
    METRIC_NAMES,
    METRICS,
    Metric,
    MetricName,
)
from focalibrate.metrics.reliability_table import ReliabilityTable
from focalibrate.metrics.scorecard import Scorecard, scorecard
from focalibrate.metrics.scores import (
    ConfidentFraction,
    binary_brier_score,
    brier_score,
    confident_fraction,
    entropy,
    error_rate,
    kl_divergence,
    nll,
)
from focalibrate.metrics.sketch import Sketch
from focalibrate.metrics.sketch_evaluation import SketchEvaluation
from focalibrate.metrics.slices import WorstSlice, worst_slice
from focalibrate.metrics.smooth import smooth_ece

__all__ = [
    "INTERVAL_METRICS",
    "METRICS",
    "METRIC_NAMES",
    "Assessment",
    "BootstrapInterval",
    "ClasswiseTable",
    "ConfidenceInterval",
    "ConfidentFraction",
    "Corp",
    "Decomposition",
    "ErrorBounds",
    "GroupAssessment",
    "Metric",
    "MetricName",
    "MultilabelTable",
    "NoiseFloor",
    "PositiveAssessment",
    "ReliabilityCurve",
    "ReliabilityTable",
    "Scorecard",
    "Sketch",
    "SketchEvaluation",
    "WorstSlice",
    "adaptive_ece",
    "assess",
    "assess_groups",
    "binary_brier_score",
    "bootstrap",
    "bootstrap_difference",
    "brier_score",
    "calibration_bounds",
    "classwise_ece",
    "confident_fraction",
    "corp",
    "corp_of_table",
    "debiased_ece",
    "ece",
    "entropy",
    "error_rate",
    "holm",
    "kl_divergence",
    "log_odds_edges",
    "mce",
    "multilabel_ece",
    "nll",
    "rms_difference",
    "scorecard",
    "smooth_ece",
    "worst_slice",
]
