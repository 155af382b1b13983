"""Verdicts on a paper's claim, decided by rules that are written before the run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Standing = Literal["reproduced", "same direction", "not reproduced", "not run at full size"]
STANDINGS: tuple[Standing, ...] = (
    "reproduced",
    "same direction",
    "not reproduced",
    "not run at full size",
)


@dataclass(frozen=True)
class Interval:
    """A number and its 95 % interval; both ends equal the number where it is exact."""

    estimate: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> "Interval":
        """Return a number that has no spread."""
        return cls(float(value), float(value), float(value))


@dataclass(frozen=True)
class Line:
    """One claim, what the paper prints, what we found, and the verdict by the rule."""

    claim: str
    rule: str
    """when it counts as reproduced, in words"""
    paper: str
    """the paper's own number or words"""
    ours: Interval
    unit: str
    """how to read our number, such as ``"% ECE, FL less CE"``"""
    standing: Standing
    note: str = ""


def mean_interval(values: Sequence[float] | NDArray[np.float64]) -> Interval:
    """Return the mean of independent runs with Student's 95 % interval; infinite for one run.

    Example:
        >>> found = mean_interval([1.0, 2.0, 3.0])
        >>> round(found.low, 3), round(found.high, 3)
        (-0.484, 4.484)
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return Interval(math.nan, math.nan, math.nan)
    mean = float(x.mean())
    if x.size == 1:
        return Interval(mean, -math.inf, math.inf)
    half = float(stdtrit(x.size - 1, 0.975) * x.std(ddof=1) / math.sqrt(x.size))
    return Interval(mean, mean - half, mean + half)


def judge_below(ours: Interval, bound: float, *, is_full: bool) -> Standing:
    """Judge the claim that a number lies below `bound`.

    Reproduced: at full size, with the whole interval below. Same direction: the estimate is
    below. Not reproduced: it is not (nan is not).
    """
    if is_full and ours.high < bound:
        return "reproduced"
    return "same direction" if ours.estimate < bound else "not reproduced"


def judge_above(ours: Interval, bound: float, *, is_full: bool) -> Standing:
    """Judge the claim that a number lies above `bound`, as `judge_below` does."""
    mirrored = Interval(-ours.estimate, -ours.high, -ours.low)
    return judge_below(mirrored, -bound, is_full=is_full)


def judge_number(ours: Interval, paper: float, *, tolerance: float, is_full: bool) -> Standing:
    """Judge a number the paper prints.

    Not run at full size: as it says. Reproduced: the estimate is within `tolerance` of the
    paper's number, or the interval holds it. Not reproduced otherwise.
    """
    if not is_full:
        return "not run at full size"
    is_near = abs(ours.estimate - paper) <= tolerance
    return "reproduced" if is_near or ours.low <= paper <= ours.high else "not reproduced"
