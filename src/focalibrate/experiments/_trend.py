"""How one number goes with another: a line, and the order alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


@dataclass(frozen=True)
class LineFit:
    """A straight line through points."""

    slope: float
    intercept: float
    r2: float
    """share of the variance the line explains"""
    n_points: int


def fit_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> LineFit:
    """Return the least-squares line of `y` on `x`; nan of fewer than 3 points.

    Example:
        >>> fit_line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0])).r2
        1.0
    """
    if len(x) < 3:
        return LineFit(math.nan, math.nan, math.nan, len(x))
    dx, dy = x - x.mean(), y - y.mean()
    slope = float(dx @ dy / (dx @ dx))
    total = float(dy @ dy)
    rest = float(((dy - slope * dx) ** 2).sum())
    r2 = 1.0 - rest / total if total > 0 else 1.0
    return LineFit(slope, float(y.mean() - slope * x.mean()), r2, len(x))


def rank_correlation(
    x: Sequence[float] | NDArray[np.float64], y: Sequence[float] | NDArray[np.float64]
) -> float:
    """Return Spearman's rank correlation; 0 where one of the two does not change.

    Example:
        >>> rank_correlation([0.0, 1.0, 5.0], [9.0, 4.0, 1.0])
        -1.0
    """
    a, b = rankdata(x), rankdata(y)
    a, b = a - a.mean(), b - b.mean()
    norm = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / norm if norm > 0 else 0.0


def mean_of_known(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the mean of what is not nan; nan where nothing is known."""
    x = np.asarray(values, dtype=np.float64)
    known = x[~np.isnan(x)]
    return float(known.mean()) if known.size else math.nan
