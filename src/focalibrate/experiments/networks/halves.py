"""Test rows in two halves: fit on one, evaluate on the other, and vice versa."""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import CalibrationWarning, TemperatureScaling, fit_temperature

SPLIT_SEED = 0
"""Random seed of the halves, the same for all networks of a problem."""
HALVES_NOTE = (
    "The validation set is small, so the temperature is fitted on a random half of the test rows "
    "(always the same) and evaluated on the other half, and vice versa; numbers after T are the "
    "mean of both. Numbers before T are computed on all test rows."
)


def halves(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row numbers of two random halves of `n` rows, each in ascending order."""
    order = np.random.default_rng(SPLIT_SEED).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit on and rows to evaluate on."""

    fit_logits: NDArray[np.float64]
    fit_labels: NDArray[np.int64]
    logits: NDArray[np.float64]
    labels: NDArray[np.int64]


def folds(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> tuple[Fold, Fold]:
    """Return the two ways to fit on a random half of the rows and evaluate on the other.

    Numbers are averaged over the two. The rows are not pooled: a half that is easy by chance makes
    the other overconfident and itself underconfident, and in a calibration error over all rows the
    two would cancel.
    """
    z = np.asarray(logits, dtype=np.float64)
    first, second = ((z[part], labels[part]) for part in halves(len(labels)))
    return Fold(*first, *second), Fold(*second, *first)


@dataclass(frozen=True, eq=False)
class Half:
    """One half of the rows, with the temperature fitted on the other half."""

    logits: NDArray[np.float64]
    labels: NDArray[np.int64]
    temperature: float

    def log_probs(self) -> NDArray[np.float64]:
        """Return the log-probabilities after temperature scaling."""
        return np.asarray(TemperatureScaling(self.temperature).log_probs(self.logits))


def cross_fitted(
    logits: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    criterion: Literal["ece", "adaptive_ece"] = "ece",
) -> tuple[Half, Half]:
    """Return both halves, each with the temperature that minimises `criterion` on the other.

    The grid is paper 002's, 0.1 to 10 by 0.1, with 15 bins.
    """

    def half(fold: Fold) -> Half:
        with warnings.catch_warnings():  # for a T at the edge of the grid, which the rows show
            warnings.simplefilter("ignore", CalibrationWarning)
            found = fit_temperature(fold.fit_logits, fold.fit_labels, criterion=criterion)
        return Half(fold.logits, fold.labels, found.temperature)

    second, first = folds(logits, labels)
    return half(first), half(second)
