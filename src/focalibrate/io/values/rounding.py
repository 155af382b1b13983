"""Probabilities that were rounded when they were written, and so do not sum to 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_ROUNDING = 0.05
"""Rows whose sum is off by more than this cannot be rounded probabilities."""

MAX_DIGITS = 7


def rounding_explains(rows: NDArray[Any], gaps: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each row whether rounding alone can have moved its sum away from 1.

    Every number of such a row is a multiple of one decimal, or has few significant digits, and
    the sum is off by at most half a unit of the last digit per number.

    Args:
        rows: ``[N, K]``, numbers in [0, 1].
        gaps: ``[N]``, how far the sums are from 1.

    Example:
        >>> rows = np.array([[0.333, 0.333, 0.333], [0.5, 0.3, 0.1], [0.31234, 0.3, 0.4]])
        >>> rounding_explains(rows, np.abs(rows.sum(axis=1) - 1))
        array([ True, False, False])
    """
    precision = float(np.finfo(rows.dtype).eps)
    explained = np.zeros(len(rows), bool)
    for is_significant in (False, True):
        for digits in range(1, MAX_DIGITS + 1):
            left = np.flatnonzero(~explained & (gaps < MAX_ROUNDING))
            values = np.asarray(rows[left], np.float64)
            units = _significant(values, digits) if is_significant else 10.0**-digits
            steps = values / units
            is_rounded = (np.abs(steps - np.rint(steps)) <= 1e-6 + precision * steps).all(axis=1)
            most = np.broadcast_to(units, values.shape).sum(axis=1) / 2 + precision
            explained[left] = is_rounded & (gaps[left] <= most)
    return explained


def _significant(values: NDArray[np.float64], digits: int) -> NDArray[np.float64]:
    """Return the unit of the last of so many significant digits of each number, tiny for 0."""
    leading = np.floor(np.log10(np.maximum(values, 1e-30)))
    return np.asarray(10.0 ** (leading - digits + 1), np.float64)


def decimals_of(rows: NDArray[Any]) -> int | None:
    """Return how many decimals all numbers have, or None if more than a few.

    Example:
        >>> decimals_of(np.array([[0.25, 0.3], [0.0, 1.0]]))
        2
    """
    for digits in range(1, MAX_DIGITS):
        steps = rows * 10.0**digits
        if (np.abs(steps - np.rint(steps)) <= 1e-6).all():
            return digits
    return None
