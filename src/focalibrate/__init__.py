"""Make a classifier's probabilities true.

Subpackages, imported on first use so that ``import focalibrate`` stays cheap:

- `focalibrate.theory`: what focal training does to probabilities, and how to undo it.
- `focalibrate.losses`: one loss per example, on any array library.
- `focalibrate.metrics`: how honest probabilities are, with confidence intervals.
- `focalibrate.calibrate`: fit a calibrator on validation logits, save it.
- `focalibrate.comparison`: calibration methods side by side, and the choice.
- `focalibrate.curvature`: trace, eigenvalues and spectrum of a Hessian from products alone.
- `focalibrate.io`: files of predictions. `focalibrate.report`: the findings as one page.

With an extra, never imported from here:

- `focalibrate.nn`: losses and calibrators as PyTorch modules.
- `focalibrate.models`, `focalibrate.train`: the papers' networks, and training by recipe.
- `focalibrate.estimators`: calibrators as scikit-learn estimators.
- `focalibrate.deploy`: calibrators as ONNX graphs.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from focalibrate import (
        calibrate,
        comparison,
        curvature,
        datasets,
        io,
        losses,
        metrics,
        report,
        theory,
    )

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "calibrate",
    "comparison",
    "curvature",
    "datasets",
    "io",
    "losses",
    "metrics",
    "report",
    "theory",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
