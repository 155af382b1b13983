"""Numbers for JSON: few digits, and None for those that are not finite."""

import math
from collections.abc import Iterable

import numpy as np


def short(value: float, digits: int = 6) -> float | None:
    """Return `value` to `digits` significant digits; None where it is not finite."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 2**53 else rounded


def shorts(values: Iterable[float], digits: int = 6) -> list[float | None]:
    """Return `short` of each value; of equal ones it is computed once."""
    given = np.array(values if isinstance(values, np.ndarray) else list(values), np.float64)
    is_finite = np.isfinite(given)
    distinct, place = np.unique(given[is_finite], return_inverse=True)
    found = np.full(len(given), None, dtype=object)
    found[is_finite] = np.array([short(v, digits) for v in distinct.tolist()], object)[place]
    return found.tolist()
