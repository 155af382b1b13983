"""Cells of neighbouring examples: all that inference about calibration needs of the rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import is_whole
from focalibrate.metrics.binning import bin_sums, equal_width_index

Ints = NDArray[np.intp]

MAX_CELLS = 512
"""Number of cells of equal mass; with fewer rows, each row has its own cell."""
SCALES = 32
"""Bins of the finest scale of the test."""
BINS = 15
"""Bins of the root-mean-square error, and of ECE, AdaECE and MCE beside their noise."""


@dataclass(frozen=True, eq=False)
class EventBins:
    """How the cells fall into bins for one event.

    For two classes the same cells are used twice: by the probability of class 1, and by the
    confidence of the predicted class, for which the residual of class 0 changes sign.
    """

    sign: Floats
    """-1 where the residual of the event changes sign, shape ``[M]``"""
    value: Floats
    """mean probability of the event of this view, shape ``[M]``"""
    cell: Ints
    """rank among `MAX_CELLS` cells of equal mass, shape ``[M]``"""
    bin: Ints
    """rank among `BINS` bins of equal mass, shape ``[M]``"""

    @property
    def scale(self) -> Ints:
        """Rank among `SCALES` bins of equal mass, shape ``[M]``."""
        return self.cell // (MAX_CELLS // SCALES)


@dataclass(frozen=True, eq=False)
class Cells:
    r"""Sums over cells of neighbouring examples; every array has shape ``[M]``.

    A row has probability :math:`c`, outcome :math:`y \in \{0, 1\}`, residual
    :math:`r = c - y`, weight :math:`w`, and enters variances with :math:`u`. Whole weights
    count repeated rows, which are independent: :math:`u = w`. Other weights scale a row's
    residual: :math:`u = w^2`.
    """

    rows: Floats
    """rows, repeated ones included"""
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
    def of_rows(cls, value: Floats, event: Floats, weights: Floats | None) -> Self:
        """Return one cell per row."""
        square, variance = (value - event) ** 2, value * (1.0 - value)
        if weights is None:
            one = np.ones(len(value))
            return cls(one, one, one, value, event, square, variance)
        if is_whole(weights):
            rows, spread = weights, weights
        else:
            rows, spread = np.ones(len(value)), weights**2
        return cls(
            rows, weights, spread, weights * value, weights * event,
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


def top_cells(
    confidence: Floats, correct: Floats, weights: Floats | None
) -> tuple[Cells, EventBins]:
    """Return the cells of confidences and correctness ``[N]``, and their bins."""
    value, event, w = _sorted(confidence, correct, weights)
    return _gathered_top(value, w, lambda first: _sums(value, event, w, first))


def top_cells_of_groups(groups: Cells) -> tuple[Cells, EventBins]:
    """Return the same from sums over groups of neighbours, in order of confidence.

    The rows of a group count as tied at their mean.
    """
    return _gathered_top(groups.mean, groups.weight, groups.summed_from)


def _gathered_top(
    value: Floats, w: Floats | None, gather: Callable[[Ints], Cells]
) -> tuple[Cells, EventBins]:
    at = positions(value, w)
    cell, wide, fifteenth = _ranks(at, MAX_CELLS), equal_width_index(value, BINS), _ranks(at, BINS)
    first = _starts(cell, wide, fifteenth)
    cells = gather(first)
    return cells, EventBins(np.ones(len(first)), cells.mean, cell[first], fifteenth[first])


def two_class_cells(
    probability: Floats, positive: Floats, weights: Floats | None
) -> tuple[Cells, EventBins, EventBins]:
    """Return the cells of P(class 1) ``[N]``, their bins by confidence and by P(class 1)."""
    value, event, w = _sorted(probability, positive, weights)
    return _gathered_two(value, w, lambda first: _sums(value, event, w, first))


def two_class_cells_of_groups(groups: Cells) -> tuple[Cells, EventBins, EventBins]:
    """Return the same from sums over groups of neighbours, in order of P(class 1)."""
    return _gathered_two(groups.mean, groups.weight, groups.summed_from)


def _gathered_two(
    value: Floats, w: Floats | None, gather: Callable[[Ints], Cells]
) -> tuple[Cells, EventBins, EventBins]:
    confidence = np.maximum(value, 1.0 - value)
    by_confidence = np.argsort(confidence, kind="stable")  # two sorted runs: merged in one pass
    folded = np.empty(len(value))
    folded[by_confidence] = positions(
        confidence[by_confidence], None if w is None else w[by_confidence]
    )
    at = positions(value, w)
    ranks = [_ranks(x, MAX_CELLS) for x in (folded, at)]
    fifteenths = [_ranks(x, BINS) for x in (folded, at)]
    is_class_1 = (value > 0.5).astype(np.intp)
    wide = equal_width_index(confidence, BINS)
    first = _starts(*ranks, *fifteenths, is_class_1, wide)
    cells = gather(first)
    mean, side = cells.mean, is_class_1[first]
    top = EventBins(
        np.where(side == 1, 1.0, -1.0),
        np.where(side == 1, mean, 1.0 - mean),
        ranks[0][first],
        fifteenths[0][first],
    )
    return cells, top, EventBins(np.ones(len(first)), mean, ranks[1][first], fifteenths[1][first])


def _sorted(
    value: Floats, event: Floats, weights: Floats | None
) -> tuple[Floats, Floats, Floats | None]:
    """Return the three sorted by `value`.

    Without weights the event is kept in the last bit of the value (an error of 2e-16), as
    sorting numbers is five times as fast as finding their order.
    """
    if weights is not None:
        order = np.argsort(value)
        return value[order], event[order], weights[order]
    packed = value.view(np.int64) & ~1 | event.astype(np.int64)
    packed.sort()
    return (packed & ~1).view(np.float64), (packed & 1).astype(np.float64), None


def equal_mass_ranks(value: Floats, weights: Floats | None, n_bins: int) -> Ints:
    """Return which of `n_bins` bins of equal mass each row falls in; ties stay together."""
    order = np.argsort(value)
    rank = np.empty(len(value), dtype=np.intp)
    at = positions(value[order], None if weights is None else weights[order])
    rank[order] = _ranks(at, n_bins)
    return rank


def positions(value: Floats, weights: Floats | None) -> Floats:
    """Return for sorted `value` the share of the mass below it, plus half that of its ties.

    Ties have one position, so rows of equal probability are treated alike and the order
    of the rows does not matter.
    """
    n = len(value)
    first = np.flatnonzero(np.diff(value, prepend=-1.0))
    if weights is None and len(first) == n:
        return (np.arange(n) + 0.5) / n
    size = np.diff(first, append=n)
    mass = size.astype(np.float64) if weights is None else np.add.reduceat(weights, first)
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


def _sums(value: Floats, event: Floats, weights: Floats | None, first: Ints) -> Cells:
    each = Cells.of_rows(value, event, weights)
    if weights is not None:
        return Cells(*(np.add.reduceat(x, first) for x in each.arrays()))
    rows = np.diff(first, append=len(value)).astype(np.float64)
    four = (each.probability, each.outcome, each.square, each.variance)
    return Cells(rows, rows, rows, *(np.add.reduceat(x, first) for x in four))
