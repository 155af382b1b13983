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

if TYPE_CHECKING:
    from focalibrate import boosting as boosting
    from focalibrate import (
        calibrate,
        comparison,
        curvature,
        io,
        losses,
        metrics,
        pipeline,
        report,
        theory,
    )
    from focalibrate import deploy as deploy
    from focalibrate import estimators as estimators
    from focalibrate import nn as nn
    from focalibrate.calibrate import (
        Calibrator,
        PosteriorRecovery,
        TemperatureScaling,
        fit,
        fit_focal_temperature,
        fit_temperature,
    )
    from focalibrate.comparison import choose, compare_methods
    from focalibrate.io import read_predictions
    from focalibrate.losses import focal_loss
    from focalibrate.metrics import (
        Cells,
        adaptive_ece,
        assess,
        bootstrap,
        brier_score,
        ece,
        nll,
    )
    from focalibrate.pipeline import calibrate_predictions, check_predictions
    from focalibrate.theory import recover_posterior

__version__ = "0.1.0"
__all__ = [
    "Calibrator",
    "Cells",
    "PosteriorRecovery",
    "TemperatureScaling",
    "__version__",
    "adaptive_ece",
    "assess",
    "bootstrap",
    "brier_score",
    "calibrate",
    "calibrate_predictions",
    "check_predictions",
    "choose",
    "compare_methods",
    "comparison",
    "curvature",
    "detection",
    "ece",
    "fit",
    "fit_focal_temperature",
    "fit_temperature",
    "focal_loss",
    "io",
    "losses",
    "metrics",
    "nll",
    "pipeline",
    "read_predictions",
    "recover_posterior",
    "report",
    "theory",
]

_HOME = {
    "Calibrator": "calibrate",
    "PosteriorRecovery": "calibrate",
    "Cells": "metrics",
    "TemperatureScaling": "calibrate",
    "adaptive_ece": "metrics",
    "assess": "metrics",
    "bootstrap": "metrics",
    "brier_score": "metrics",
    "calibrate_predictions": "pipeline",
    "check_predictions": "pipeline",
    "choose": "comparison",
    "compare_methods": "comparison",
    "ece": "metrics",
    "fit": "calibrate",
    "fit_focal_temperature": "calibrate",
    "fit_temperature": "calibrate",
    "focal_loss": "losses",
    "nll": "metrics",
    "read_predictions": "io",
    "recover_posterior": "theory",
}
"""The subpackage that each function and class comes from."""
_WITH_EXTRA = ("boosting", "deploy", "estimators", "nn")
"""Subpackages that need an extra, which ``from focalibrate import *`` leaves out."""


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in __all__ or name in _WITH_EXTRA:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_WITH_EXTRA})
