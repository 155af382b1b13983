"""Cells of neighbouring examples: all that inference about one event needs of the rows."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics.binning import bin_sums, equal_width_index

Ints = NDArray[np.intp]

MAX_CELLS = 512
"""Number of cells of equal mass; with fewer rows, each row has its own cell."""
CLASS_CELLS = 128
"""The same for each of many classes, whose draws are only tested on bins of equal mass."""
SCALES = 32
"""Bins of the finest scale of the test."""
BINS = 15
"""Bins of the root-mean-square error, and of ECE, AdaECE and MCE beside their noise."""
LEAST_NOISE = 0.05
"""Outcomes between 0 and 1 vary less than yes and no; at least this share is assumed."""


@dataclass(frozen=True, eq=False)
class Cells:
    r"""Sums over cells of neighbouring examples; every array has shape ``[M]``.

    A row has probability :math:`c`, outcome :math:`y \in [0, 1]`, residual :math:`r = c - y`,
    weight :math:`w`, and enters variances with :math:`u`. A weight scales a row's residual:
    :math:`u = w^2`. Weights that count copies of a row, which are independent: :math:`u = w`.
    """

    rows: Floats
    """rows, copies included"""
    weight: Floats
    """sum of w"""
    spread: Floats
    """sum of u"""
    probability: Floats
    """sum of w c"""
    outcome: Floats
    """sum of w y"""
    square: Floats
    """sum of u r²"""
    variance: Floats
    """sum of u c (1 - c), the variance of the residual sum if c is the truth"""

    @classmethod
    def of_rows(
        cls, value: Floats, outcome: Floats, weights: Floats | None, *, copies: bool = False
    ) -> Self:
        """Return one cell per row."""
        one = np.ones(len(value))
        square, variance = (value - outcome) ** 2, value * (1.0 - value)
        variance *= _noise_share(outcome, variance)
        if weights is None:
            return cls(one, one, one, value, outcome, square, variance)
        spread = weights if copies else weights**2
        return cls(
            weights if copies else one, weights, spread, weights * value, weights * outcome,
            spread * square, spread * variance,
        )  # fmt: skip

    @property
    def residual(self) -> Floats:
        """Sum of w r."""
        return self.probability - self.outcome

    @property
    def mean(self) -> Floats:
        """Mean probability of each cell."""
        return np.clip(self.probability / self.weight, 0.0, 1.0)

    def binned(self, index: Ints, n_bins: int) -> "Cells":
        """Return the sums over `n_bins` bins that `index` sorts the cells into."""
        return Cells(*(bin_sums(index, x, n_bins) for x in self.arrays()))

    def summed_from(self, first: Ints) -> "Cells":
        """Return the sums over runs of neighbouring cells that begin at `first`."""
        return Cells(*(np.add.reduceat(x, first) for x in self.arrays()))

    def arrays(self) -> tuple[Floats, ...]:
        """Return the seven sums in the order of the fields."""
        return (
            self.rows, self.weight, self.spread, self.probability,
            self.outcome, self.square, self.variance,
        )  # fmt: skip

    @property
    def effective_rows(self) -> float:
        r"""Return :math:`(\sum w)^2 / \sum u`: the number of rows if all weights were equal."""
        return float(self.weight.sum() ** 2 / self.spread.sum())


def _noise_share(outcome: Floats, variance: Floats) -> float:
    """Return the variance of the outcomes as a share of that of yes and no.

    If a fractional outcome y has mean c, its variance is c (1 - c) minus the mean of y (1 - y).
    """
    between = float((outcome * (1.0 - outcome)).sum())
    total = float(variance.sum())
    return 1.0 if between == 0.0 or total == 0.0 else max(LEAST_NOISE, 1.0 - between / total)


@dataclass(frozen=True, eq=False)
class EventCells:
    """About 512 cells of the rows of one event, in order of its probability, and their bins."""

    sums: Cells
    rank: Ints
    """rank among cells of equal mass, shape ``[M]``"""
    scale: Ints
    """rank among `SCALES` bins of equal mass, shape ``[M]``"""
    bin: Ints
    """rank among `BINS` bins of equal mass, shape ``[M]``"""
    cell_of_row: Ints
    """cell of each of the fine cells, shape ``[N]``"""

    @property
    def bins(self) -> Cells:
        """The sums over `BINS` bins of equal mass."""
        return self.sums.binned(self.bin, BINS)


def row_cells(
    value: Floats, outcome: Floats, weights: Floats | None, *, copies: bool = False
) -> Cells:
    """Return one cell per row, in order of the probability `value` ``[N]``."""
    order = np.argsort(value, kind="stable")
    w = None if weights is None else weights[order]
    return Cells.of_rows(value[order], outcome[order], w, copies=copies)


def event_cells(fine: Cells, *, n_cells: int = MAX_CELLS) -> EventCells:
    """Gather fine cells, in order of probability, into about `n_cells`; ties stay together."""
    value = fine.mean
    at = positions(value, fine.weight)
    rank, fifteenth = _ranks(at, n_cells), _ranks(at, BINS)
    first = _starts(rank, equal_width_index(value, BINS), fifteenth)
    rank = rank[first]
    return EventCells(
        fine.summed_from(first),
        rank,
        rank // (n_cells // SCALES),
        fifteenth[first],
        np.repeat(np.arange(len(first)), np.diff(first, append=len(value))),
    )


def equal_mass_ranks(value: Floats, weights: Floats | None, n_bins: int) -> Ints:
    """Return which of `n_bins` bins of equal mass each row falls in; ties stay together."""
    order = np.argsort(value)
    rank = np.empty(len(value), dtype=np.intp)
    w = np.ones(len(value)) if weights is None else weights[order]
    rank[order] = _ranks(positions(value[order], w), n_bins)
    return rank


def positions(value: Floats, weights: Floats) -> Floats:
    """Return for sorted `value` the share of the mass below it, plus half that of its ties.

    Ties have one position, so rows of equal probability are treated alike and the order
    of the rows does not matter.
    """
    # 1e-15: the mean w c / w of a weighted row is c only up to rounding
    first = np.flatnonzero(np.diff(value, prepend=-1.0) > 1e-15)
    size = np.diff(first, append=len(value))
    mass = np.add.reduceat(weights, first)
    end = np.cumsum(mass)
    return np.repeat((end - mass / 2.0) / end[-1], size)


def _ranks(position: Floats, n_bins: int) -> Ints:
    # 1e-9: a position on an edge goes up, whatever the rounding of a sum of weights
    return np.minimum((position * n_bins + 1e-9).astype(np.intp), n_bins - 1)


def _starts(*keys: Ints) -> Ints:
    """Return where any of the `keys`, ``[N]`` each, changes."""
    changed = np.zeros(len(keys[0]), dtype=np.bool_)
    changed[0] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(changed)
