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
    given = values.tolist() if isinstance(values, np.ndarray) else [float(v) for v in values]
    known = {value: short(value, digits) for value in set(given)}
    return [known.get(value) for value in given]  # nan is no key that is found again
