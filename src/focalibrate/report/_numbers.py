"""Numbers for JSON: few digits, and None for those that are not finite."""

import math
from collections.abc import Iterable


def short(value: float, digits: int = 6) -> float | None:
    """Return `value` to `digits` significant digits; None where it is not finite."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 2**53 else rounded


def shorts(values: Iterable[float], digits: int = 6) -> list[float | None]:
    """Return `short` of each value."""
    return [short(float(value), digits) for value in values]
