"""Test rows in two halves: fit on one, judge on the other, and the reverse."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SPLIT_SEED = 0
"""Decides which rows are in which half, the same for all networks of a problem."""


def halves(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row numbers of two random halves of `n` rows, each in rising order."""
    order = np.random.default_rng(SPLIT_SEED).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit on and rows to judge on."""

    fit_logits: NDArray[np.float64]
    fit_labels: NDArray[np.int64]
    logits: NDArray[np.float64]
    labels: NDArray[np.int64]


def folds(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> tuple[Fold, Fold]:
    """Return the two ways to fit on a random half of the rows and judge on the other.

    Numbers are then averaged over the two. Not the rows put together: a half that is easy by
    chance leaves its neighbour overconfident and itself underconfident, and a calibration error
    over all rows would let the two cancel.
    """
    z = np.asarray(logits, dtype=np.float64)
    first, second = ((z[part], labels[part]) for part in halves(len(labels)))
    return Fold(*first, *second), Fold(*second, *first)
