"""Sums of a sketch over cells and groups, which can be merged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics._cells import Cells, Ints
from focalibrate.metrics.reliability_table import ReliabilityTable

PLAIN = ("weight", "probability", "outcome", "outcome_probability")
WEIGHTED = (*PLAIN, "rows", "spread", "spread_outcome")
MAX_GROUPS = 10_000
"""A column with more values than this holds names of rows rather than of groups."""


def row_values(probability: Floats, outcome: NDArray[Any], weights: Floats | None) -> Floats:
    """Return what each row adds to the sums `PLAIN`, or `WEIGHTED`; ``[F, N]``."""
    y = outcome.astype(np.float64, copy=False)
    one = np.ones(len(y))
    if weights is None:
        return np.stack([one, probability, y, probability * y])
    w = weights
    return np.stack([w, w * probability, w * y, w * probability * y, one, w * w, w * w * y])


def cell_sums(
    cell: Ints, probability: Floats, outcome: NDArray[np.bool_], weights: Floats | None, n: int
) -> Floats:
    """Return the sums ``[F, n]`` of rows over cells, `PLAIN` or `WEIGHTED`.

    Without weights the rows are sorted by cell and outcome at once: two passes instead of four.
    """
    if weights is not None:
        return binned(cell, row_values(probability, outcome, weights), n)
    at = 2 * cell
    at += outcome
    rows = np.bincount(at, minlength=2 * n).reshape(n, 2).astype(np.float64)
    sums = np.bincount(at, probability, 2 * n).reshape(n, 2)
    return np.stack([rows.sum(axis=1), sums.sum(axis=1), rows[:, 1], sums[:, 1]])


def binned(index: Ints, values: Floats, n: int) -> Floats:
    """Return the sums ``[F, n]`` of `values` ``[F, N]`` by `index`."""
    return np.stack([np.bincount(index, row, n) for row in values]).astype(np.float64, copy=False)


def promoted(sums: Floats) -> Floats:
    """Return sums without weights as sums of rows of weight 1."""
    weight, _, outcome, _ = sums
    return np.concatenate([sums, np.stack([weight, weight, outcome])])


def added(first: Floats, second: Floats) -> Floats:
    """Return two blocks of sums added, one with weights if either has."""
    if len(first) != len(second):
        first, second = (x if len(x) == len(WEIGHTED) else promoted(x) for x in (first, second))
    return np.asarray(first + second)


def table_of_sums(sums: Floats, edges: Floats, *, is_whole: bool) -> ReliabilityTable:
    """Return the sums as a table; `is_whole`: weights count repeated rows."""
    spread = None if is_whole or len(sums) == len(PLAIN) else sums[5]
    return ReliabilityTable(sums[0], sums[1], sums[2], edges, spread)


def cells_of_sums(sums: Floats, *, is_whole: bool) -> Cells:
    r"""Return the filled cells, with squares and variances as if tied at the cell's mean.

    Rows of a cell of width :math:`w` are off their mean by less than :math:`w`, which changes
    a sum of squares by less than :math:`w^2/4` per row.
    """
    filled = sums[0] > 0
    weight, probability, outcome, of_hits = sums[: len(PLAIN), filled]
    if is_whole or len(sums) == len(PLAIN):
        rows, spread, happened = weight, weight, outcome
    else:
        rows, spread, happened = sums[4:, filled]
    mean = np.clip(probability / weight, 0.0, 1.0)
    hit_mean = np.divide(of_hits, outcome, out=np.zeros_like(mean), where=outcome > 0)
    square = np.maximum(spread * mean**2 + happened * (1.0 - 2.0 * hit_mean), 0.0)
    variance = spread * mean * (1.0 - mean)
    return Cells(rows, weight, spread, probability, outcome, square, variance)


@dataclass(frozen=True, eq=False)
class GroupColumn:
    """The cells of every group of one column; only filled cells are stored."""

    names: tuple[str, ...]
    """of the groups, sorted as text"""
    at: Ints
    """group times number of cells plus cell, ascending, shape ``[M]``"""
    sums: Floats
    """shape ``[F, M]``"""

    @classmethod
    def of(
        cls, name: str, values: NDArray[Any], cell: Ints, rows: Floats, n_cells: int
    ) -> "GroupColumn":
        """Return the sums of `rows` ``[F, N]`` by the groups `values` ``[N]`` and `cell`."""
        found, group = np.unique(values.astype(str), return_inverse=True)
        check_groups(name, found)
        at, compact = np.unique(group.reshape(-1) * n_cells + cell, return_inverse=True)
        return cls(tuple(found.tolist()), at, binned(compact.reshape(-1), rows, len(at)))

    def merged(self, other: Self, name: str, n_cells: int) -> "GroupColumn":
        """Return the sums of both."""
        names = sorted({*self.names, *other.names})
        check_groups(name, names)
        place = {text: i for i, text in enumerate(names)}
        sides = []
        for side in (self, other):
            moved = np.array([place[text] for text in side.names], dtype=np.intp)
            group, cell = np.divmod(side.at, n_cells)
            sides.append(moved[group] * n_cells + cell)
        if len(self.sums) != len(other.sums):
            both = [s if len(s) == len(WEIGHTED) else promoted(s) for s in (self.sums, other.sums)]
        else:
            both = [self.sums, other.sums]
        at = np.union1d(*sides)
        sums = np.zeros((len(both[0]), len(at)))
        for side_at, side_sums in zip(sides, both, strict=True):
            sums[:, np.searchsorted(at, side_at)] += side_sums
        return GroupColumn(tuple(names), at, sums)

    def cells(self, number: int, n_cells: int, *, is_whole: bool) -> tuple[Cells, int]:
        """Return the cells of one group, and how many rows it has."""
        low, high = np.searchsorted(self.at, [number * n_cells, (number + 1) * n_cells])
        part = self.sums[:, low:high]
        rows = part[0] if len(part) == len(PLAIN) else part[4]
        return cells_of_sums(part, is_whole=is_whole), round(float(rows.sum()))

    def in_order(self) -> list[int]:
        """Return the groups' numbers, by value where all are numbers, else by name."""
        try:
            values = [float(name) for name in self.names]
        except ValueError:
            return list(range(len(self.names)))
        return sorted(range(len(values)), key=lambda i: (values[i] != values[i], values[i]))


def check_groups(name: str, names: Sequence[str] | NDArray[Any]) -> None:
    """Raise `ValueError` if a column has too many values to be a column of groups."""
    if len(names) > MAX_GROUPS:
        raise ValueError(
            f"`groups`: column {name!r} has more than {MAX_GROUPS:,} distinct values, such as "
            f"{names[0]!r} and {names[1]!r}. Group by a column with fewer, or cut numbers into "
            "ranges first."
        )
