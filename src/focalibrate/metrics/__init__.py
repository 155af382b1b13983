"""Calibration errors, proper scores, and what the data prove about them.

Every metric takes ``(probs, labels)`` of any array library and returns a Python float,
computed in NumPy float64; `sample_weight` weights the rows. Probabilities are ``[..., K]``;
one probability of class 1 per example needs ``binary=True``. `METRICS` lists the metrics,
`assess` tests whether a model is calibrated, `focalibrate.metrics.tests` has further tests.
For data that comes in pieces, `Cells` are the mergeable sums behind every calibration error, and
`Sketch` is a mergeable summary from which all of this is computed. The types of results are in
the modules of the functions that return them.
"""

from focalibrate.metrics.assessment import Assessment, ClassFinding, assess
from focalibrate.metrics.binning import log_odds_edges
from focalibrate.metrics.bootstrap import bootstrap, bootstrap_difference
from focalibrate.metrics.bounds import ErrorBounds, calibration_bounds
from focalibrate.metrics.cells import Cells
from focalibrate.metrics.corp import Corp, Decomposition, ReliabilityCurve, corp, corp_of_cells
from focalibrate.metrics.errors import (
    adaptive_ece,
    classwise_ece,
    debiased_ece,
    ece,
    mce,
    multilabel_ece,
)
from focalibrate.metrics.groups import GroupAssessment, assess_groups, holm
from focalibrate.metrics.interval import Interval, Moments, NoiseFloor
from focalibrate.metrics.registry import (
    INTERVAL_METRICS,
    METRIC_NAMES,
    METRICS,
    Metric,
    MetricName,
)
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
from focalibrate.metrics.threshold import (
    Costs,
    Selective,
    Threshold,
    choose_threshold,
    selective_accuracy,
)

__all__ = [
    "INTERVAL_METRICS",
    "METRICS",
    "METRIC_NAMES",
    "Assessment",
    "Cells",
    "ClassFinding",
    "ConfidentFraction",
    "Corp",
    "Costs",
    "Decomposition",
    "ErrorBounds",
    "GroupAssessment",
    "Interval",
    "Metric",
    "MetricName",
    "Moments",
    "NoiseFloor",
    "ReliabilityCurve",
    "Selective",
    "Sketch",
    "SketchEvaluation",
    "Threshold",
    "WorstSlice",
    "adaptive_ece",
    "assess",
    "assess_groups",
    "binary_brier_score",
    "bootstrap",
    "bootstrap_difference",
    "brier_score",
    "calibration_bounds",
    "choose_threshold",
    "classwise_ece",
    "confident_fraction",
    "corp",
    "corp_of_cells",
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
    "selective_accuracy",
    "smooth_ece",
    "worst_slice",
]
