"""Calibration errors, proper scores, and what the data prove about them.

Every metric takes ``(probs, labels)`` of any array library and returns a Python float,
computed in NumPy float64; `sample_weight` weights the rows. Probabilities are ``[..., K]``;
one probability of class 1 per example needs ``binary=True``. `METRICS` lists the metrics,
`assess` tests whether a model is calibrated, `focalibrate.metrics.tests` has further tests.
For data that comes in pieces, `Cells` are the mergeable sums behind every calibration error, and
`Sketch` is a mergeable summary from which all of this is computed. The types of results are in
the modules of the functions that return them.
"""

from focalibrate.metrics.assessment import Assessment, assess
from focalibrate.metrics.bounds import calibration_bounds
from focalibrate.metrics.cells import Cells
from focalibrate.metrics.corp import corp
from focalibrate.metrics.errors import (
    METRICS,
    adaptive_ece,
    classwise_ece,
    debiased_ece,
    ece,
    mce,
    multilabel_ece,
    smooth_ece,
)
from focalibrate.metrics.groups import assess_groups, worst_slice
from focalibrate.metrics.interval import Interval
from focalibrate.metrics.scores import (
    binary_brier_score,
    bootstrap,
    brier_score,
    confident_fraction,
    entropy,
    error_rate,
    kl_divergence,
    nll,
)
from focalibrate.metrics.sketch import Sketch
from focalibrate.metrics.threshold import Costs, choose_threshold, selective_accuracy

__all__ = [
    "METRICS",
    "Assessment",
    "Cells",
    "Costs",
    "Interval",
    "Sketch",
    "adaptive_ece",
    "assess",
    "assess_groups",
    "binary_brier_score",
    "bootstrap",
    "brier_score",
    "calibration_bounds",
    "choose_threshold",
    "classwise_ece",
    "confident_fraction",
    "corp",
    "debiased_ece",
    "ece",
    "entropy",
    "error_rate",
    "kl_divergence",
    "mce",
    "multilabel_ece",
    "nll",
    "selective_accuracy",
    "smooth_ece",
    "worst_slice",
]
