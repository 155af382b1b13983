"""An estimate with its interval, and the sums from which those of a mean follow."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from focalibrate._array import Floats
from focalibrate._check import is_whole

NORMAL_95 = 1.959963984540054


def counts_rows(weights: Floats | None, copies: bool | None = None) -> bool:
    """Return whether weights count rows: if `copies` does not say so, where all are whole."""
    return weights is None or (is_whole(weights) if copies is None else copies)


@dataclass(frozen=True)
class Interval:
    """An estimate and the interval that holds the true value at `level`."""

    estimate: float
    low: float
    high: float
    level: float = 0.95

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0.0 or self.high < 0.0


def record_of(found: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by name, for JSON; an undefined number is None."""
    return asdict(
        found,
        dict_factory=lambda items: {
            name: None if isinstance(x, float) and math.isnan(x) else x for name, x in items
        },
    )


class NoiseFloor(NamedTuple):
    """What a calibrated model with the same predictions would show."""

    median: float
    q95: float
    """exceeded by 5 % of calibrated models"""


@dataclass(frozen=True, eq=False)
class Moments:
    r"""Sums over rows of powers of a number :math:`x` and a weight :math:`w`; ``+`` merges them.

    A weighted mean, its standard error and its third moment follow from them. Infinite numbers
    are counted and left out of the sums.

    Example:
        >>> first, second = Moments.of(np.array([1.0, 2.0])), Moments.of(np.array([6.0]))
        >>> both = first + second
        >>> both.mean, round(both.standard_error, 4)
        (3.0, 1.5275)
    """

    rows: float
    powers: Floats
    """sums of :math:`w^{i+1} x^j`, shape ``[3, 4]``"""
    n_infinite: int = 0
    is_counted: bool = True
    """whether every weight so far was a whole number"""

    @classmethod
    def of(
        cls, x: Floats, weights: Floats | None = None, *, copies: bool | None = False
    ) -> "Moments":
        """Return the sums of numbers ``[N]``; `copies`: see `counts_rows`."""
        is_finite = np.isfinite(x)
        n_infinite = int(len(x) - np.count_nonzero(is_finite))
        if n_infinite:
            x = np.where(is_finite, x, 0.0)
        terms = np.stack([np.ones_like(x), x, x * x, x * x * x])
        if weights is None:
            powers = np.tile(terms.sum(axis=1), (3, 1))
        else:  # no BLAS, whose threads spin
            w = np.stack([weights, weights**2, weights**3])
            powers = np.einsum("in,jn->ij", w, terms)
        return cls(float(len(x)), powers, n_infinite, counts_rows(weights, copies))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.rows + other.rows,
            self.powers + other.powers,
            self.n_infinite + other.n_infinite,
            self.is_counted and other.is_counted,
        )

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(self.powers[0, 0])

    @property
    def n(self) -> int:
        """Number of rows, repeated ones included where weights are whole."""
        return round(self.weight if self.is_counted else self.rows)

    @property
    def mean(self) -> float:
        """The weighted mean; infinite with an infinite number."""
        return math.inf if self.n_infinite else float(self.powers[0, 1]) / self.weight

    @property
    def standard_error(self) -> float:
        """Standard error of the mean; infinite for fewer than two rows."""
        size = self.weight if self.is_counted else self.rows
        if self.n_infinite or not size > 1:
            return math.inf
        zero, one, two, _ = self.powers[0 if self.is_counted else 1].tolist()
        around = two - 2 * self.mean * one + self.mean**2 * zero
        return math.sqrt(max(0.0, around) * size / (size - 1)) / self.weight

    @property
    def third(self) -> float:
        """Third central moment of the mean."""
        m = self.mean
        zero, one, two, three = self.powers[0 if self.is_counted else 2].tolist()
        return float(three - 3 * m * two + 3 * m**2 * one - m**3 * zero) / self.weight**3

    def interval(self, *, most: float = math.inf) -> Interval:
        """Return the mean with its normal 95 % interval, within 0 and `most`."""
        if self.n_infinite:
            return Interval(math.inf, math.inf, math.inf)
        off = NORMAL_95 * self.standard_error
        return Interval(self.mean, max(0.0, self.mean - off), min(self.mean + off, most))
