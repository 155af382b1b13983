"""Temperatures fitted on one half of the test rows and judged on the other, both ways."""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import CalibrationWarning, TemperatureScaling, fit_temperature
from focalibrate.experiments._folds import halves

HALVES_NOTE = (
    "The validation part is small, so the temperature is fitted on a random half of the test rows "
    "(always the same) and judged on the other half, then the other way round; numbers after T "
    "are the mean of both. Numbers before T are of all test rows."
)


@dataclass(frozen=True, eq=False)
class Half:
    """Half of the rows, with the temperature that was fitted on the other half."""

    logits: NDArray[np.float32]
    labels: NDArray[np.int64]
    temperature: float

    def log_probs(self) -> NDArray[np.float64]:
        """Return the log-probabilities after temperature scaling."""
        scaling = TemperatureScaling(self.temperature)
        return np.asarray(scaling.log_probs(self.logits.astype(np.float64)))


def cross_fitted(
    logits: NDArray[np.float32],
    labels: NDArray[np.int64],
    *,
    criterion: Literal["ece", "adaptive_ece"] = "ece",
) -> tuple[Half, Half]:
    """Return both halves, each with the temperature of least `criterion` on the other.

    The grid is paper 002's, 0.1 to 10 by 0.1, with 15 bins.
    """
    first, second = halves(len(labels))

    def half(judge: NDArray[np.intp], fit: NDArray[np.intp]) -> Half:
        with warnings.catch_warnings():  # of an edge of the grid: the rows show that T
            warnings.simplefilter("ignore", CalibrationWarning)
            found = fit_temperature(logits[fit], labels[fit], criterion=criterion)
        return Half(logits[judge], labels[judge], found.temperature)

    return half(first, second), half(second, first)
