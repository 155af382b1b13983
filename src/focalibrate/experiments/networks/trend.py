"""How one number depends on another: a straight line and a correlation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import linregress


@dataclass(frozen=True)
class StraightLine:
    """A straight line through points, by least squares."""

    slope: float
    intercept: float
    r2: float
    """share of the variance the line explains"""
    n_points: int


def fit_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> StraightLine:
    """Return the least-squares line of `y` on `x`; nan for fewer than 3 points."""
    if len(x) < 3:
        return StraightLine(math.nan, math.nan, math.nan, len(x))
    found = linregress(x, y)
    r2 = float(found.rvalue) ** 2 if np.ptp(y) > 0 else 1.0
    return StraightLine(float(found.slope), float(found.intercept), r2, len(x))


def correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Pearson's correlation over the last axis; 0 if one of the two is constant."""
    a, b = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    norm = np.sqrt(np.sum(a**2, axis=-1) * np.sum(b**2, axis=-1))
    found: NDArray[np.float64] = np.sum(a * b, axis=-1) / np.where(norm > 0, norm, 1.0)
    return found


def mean_of_known(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the mean of the values that are not nan; nan if there are none."""
    x = np.asarray(values, dtype=np.float64)
    known = x[~np.isnan(x)]
    return float(known.mean()) if known.size else math.nan
