"""Calibrate a classifier's probabilities.

Subpackages, imported on first use so that ``import focalibrate`` stays cheap:

- `focalibrate.theory`: what focal training does to probabilities, and how to undo it.
- `focalibrate.losses`: one loss per example, on any array library.
- `focalibrate.metrics`: how honest probabilities are, with confidence intervals.
- `focalibrate.calibrate`: fit a calibrator on validation logits, save it.
- `focalibrate.comparison`: calibration methods side by side, and the choice.
- `focalibrate.curvature`: trace, eigenvalues and spectrum of a Hessian from products alone.
- `focalibrate.io`: files of predictions. `focalibrate.report`: the findings as one page.
- `focalibrate.pipeline`: the main job, `calibrate_predictions`.

The names people reach for most are here too: `ece`, `fit_temperature`, `calibrate_predictions`
and others, see ``dir(focalibrate)``.

With an extra, imported on first use too:

- `focalibrate.nn`: losses and calibrators as PyTorch modules.
- `focalibrate.estimators`: calibrators as scikit-learn estimators.
- `focalibrate.deploy`: calibrators as ONNX graphs.
- `focalibrate.boosting`: focal loss for XGBoost, LightGBM and CatBoost.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # every name `as` itself: type checkers then count it as public
    from focalibrate import boosting as boosting
    from focalibrate import calibrate as calibrate
    from focalibrate import comparison as comparison
    from focalibrate import curvature as curvature
    from focalibrate import deploy as deploy
    from focalibrate import detection as detection
    from focalibrate import estimators as estimators
    from focalibrate import io as io
    from focalibrate import losses as losses
    from focalibrate import metrics as metrics
    from focalibrate import nn as nn
    from focalibrate import pipeline as pipeline
    from focalibrate import report as report
    from focalibrate import theory as theory
    from focalibrate.calibrate import Calibrator as Calibrator
    from focalibrate.calibrate import PosteriorRecovery as PosteriorRecovery
    from focalibrate.calibrate import TemperatureScaling as TemperatureScaling
    from focalibrate.calibrate import fit as fit
    from focalibrate.calibrate import fit_focal_temperature as fit_focal_temperature
    from focalibrate.calibrate import fit_temperature as fit_temperature
    from focalibrate.comparison import choose as choose
    from focalibrate.comparison import compare_methods as compare_methods
    from focalibrate.io import read_predictions as read_predictions
    from focalibrate.losses import focal_loss as focal_loss
    from focalibrate.metrics import Cells as Cells
    from focalibrate.metrics import adaptive_ece as adaptive_ece
    from focalibrate.metrics import assess as assess
    from focalibrate.metrics import bootstrap as bootstrap
    from focalibrate.metrics import brier_score as brier_score
    from focalibrate.metrics import ece as ece
    from focalibrate.metrics import nll as nll
    from focalibrate.pipeline import calibrate_predictions as calibrate_predictions
    from focalibrate.pipeline import check_predictions as check_predictions
    from focalibrate.theory import recover_posterior as recover_posterior

__version__ = "0.1.0"
_NAMES = {
    "calibrate": (
        "Calibrator",
        "PosteriorRecovery",
        "TemperatureScaling",
        "fit",
        "fit_focal_temperature",
        "fit_temperature",
    ),
    "comparison": ("choose", "compare_methods"),
    "curvature": (),
    "detection": (),
    "io": ("read_predictions",),
    "losses": ("focal_loss",),
    "metrics": ("Cells", "adaptive_ece", "assess", "bootstrap", "brier_score", "ece", "nll"),
    "pipeline": ("calibrate_predictions", "check_predictions"),
    "report": (),
    "theory": ("recover_posterior",),
}
"""Subpackages, and what is here of each."""
_WITH_EXTRA = ("boosting", "deploy", "estimators", "nn")
"""Subpackages that need an extra, which ``from focalibrate import *`` leaves out."""
_HOME = {name: package for package, names in _NAMES.items() for name in names}
__all__ = ["__version__", *_NAMES, *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in _NAMES or name in _WITH_EXTRA:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_WITH_EXTRA})
