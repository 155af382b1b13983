"""Our methods for CalArena's own runner (github.com/probkit/CalArena).

Copy this file over its ``custom_calibrators.py``, or import the table there::

    from benchmarks.calarena_calibrators import CUSTOM_CALIBRATORS

and run ``python run_benchmark.py --benchmark tabrepo-binary --calibrator focalibrate-auto``.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import METHODS, fit


class FocalibrateCalibrator:
    """A method of focalibrate with the two functions that the runner calls."""

    def __init__(self, method: str = "auto") -> None:
        self.method = method

    def fit(self, p_cal: NDArray[Any], y_cal: NDArray[Any]) -> None:
        """Fit on probabilities ``[N, K]``, or ``[N]`` of class 1, and labels."""
        labels = np.asarray(y_cal).astype(int)
        fitted: Any
        if self.method == "auto":
            fitted = fit(labels=labels, probs=p_cal)
        else:
            fitted = fit(labels=labels, method=self.method, probs=p_cal)
        self.calibrator_ = fitted

    def predict_proba(self, p_test: NDArray[Any]) -> NDArray[Any]:
        """Return calibrated probabilities ``[N, K]``."""
        return np.asarray(self.calibrator_.probs(probs=p_test))


CUSTOM_CALIBRATORS: dict[str, Callable[[], FocalibrateCalibrator]] = {
    f"focalibrate-{name}": partial(FocalibrateCalibrator, name)
    for name in ("auto", *(m.name for m in METHODS.values() if not m.needs_gamma))
}
"""Names and factories, in the form of CalArena's ``custom_calibrators.py``."""
