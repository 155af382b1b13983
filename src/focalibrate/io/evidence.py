"""What the values of columns show: rows that sum to 1, an index, fractions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROW_TOLERANCE = 0.05
"""How far the sum of a row may be from 1: probabilities may be rounded to few digits."""

SCREENED = 64
"""Number of rows on which runs of columns are tried first."""

MAX_RUN_COLUMNS = 1500
"""Most columns that are searched for a run that sums to 1."""


@dataclass(frozen=True)
class RowSums:
    """What the rows over some columns sum to; rows with nan are left out.

    Attributes:
        in_unit: every number lies in [0, 1].
        worst: largest distance of a row's sum from 1.
        worst_percent: largest distance from 100.
        negative: some number is below 0.
        fractions: some number lies strictly between 0 and 1.
        n_rows: rows without nan.
    """

    in_unit: bool
    worst: float
    worst_percent: float
    negative: bool
    fractions: bool
    n_rows: int

    @property
    def on_simplex(self) -> bool:
        """Whether every row looks like probabilities."""
        return self.n_rows > 0 and self.in_unit and self.worst <= ROW_TOLERANCE

    @property
    def in_percent(self) -> bool:
        """Whether every row looks like percentages."""
        return (
            self.n_rows > 0 and not self.negative and self.worst_percent <= 100 * ROW_TOLERANCE / 2
        )


def row_sums(values: NDArray[Any]) -> RowSums:
    """Return what the rows of a matrix ``[N, K]`` sum to."""
    with np.errstate(all="ignore"):
        total = values.sum(axis=1, dtype=np.float64)
        good = ~np.isnan(total)
        if not good.all():
            values, total = values[good], total[good]
        if not values.size:
            return RowSums(False, np.inf, np.inf, False, False, 0)
        low, high = float(values.min()), float(values.max())
        return RowSums(
            in_unit=low >= 0 and high <= 1 + 1e-6,
            worst=float(np.abs(total - 1).max()),
            worst_percent=float(np.abs(total - 100).max()),
            negative=low < 0,
            fractions=bool(((values > 0) & (values < 1)).any()),
            n_rows=len(total),
        )


def looks_like_probs(scores: NDArray[Any]) -> bool:
    """Return whether the rows of a matrix could hardly be anything but probabilities."""
    sums = row_sums(scores)
    return sums.on_simplex and sums.fractions and sums.worst < 1e-3


AGREEMENT = 0.02
"""How far two columns of probabilities of one model may differ: they may be rounded."""


def is_same_model(logits: NDArray[Any], probs: NDArray[Any]) -> bool:
    """Return whether the softmax of `logits` gives `probs`, both ``[N, K]``, in the first rows."""
    if logits.shape != probs.shape or not len(logits):
        return False
    z, p = (np.asarray(a[:4096], np.float64) for a in (logits, probs))
    with np.errstate(all="ignore"):
        e = np.exp(z - z.max(axis=1, keepdims=True))
        gap = np.abs(e / e.sum(axis=1, keepdims=True) - p / p.sum(axis=1, keepdims=True))
    return bool(np.nanmax(gap, initial=0.0) <= AGREEMENT)


def is_whole(values: NDArray[Any]) -> bool:
    """Return whether every number is whole (or missing)."""
    if values.dtype.kind in "iub":
        return True
    if values.dtype.kind != "f":
        return False
    with np.errstate(invalid="ignore"):
        return bool((np.isnan(values) | (values == np.trunc(values))).all())


def is_row_number(values: NDArray[Any]) -> bool:
    """Return whether the values number at least 5 rows: each is one more than the one before."""
    if values.dtype.kind not in "fiu" or values.ndim != 1 or len(values) < 5:
        return False
    numbers = values.astype(np.float64)
    return bool((np.diff(numbers) == 1).all())


def find_runs(columns: Sequence[NDArray[Any]]) -> list[tuple[int, int]]:
    """Return the first and last of each run of neighbouring columns whose rows sum to 1.

    Only runs with fractions count, as one-hot columns sum to 1 too. Runs that differ only by
    columns of zeros are all returned.
    """
    if not 2 <= len(columns) <= MAX_RUN_COLUMNS:
        return []
    n = min(SCREENED, len(columns[0]))
    rows = np.unique(np.linspace(0, len(columns[0]) - 1, n).astype(np.intp))
    table = np.stack([np.asarray(c[rows], np.float64) for c in columns], axis=1)
    with np.errstate(all="ignore"):
        table[:, ((table < 0) | (table > 1 + 1e-6)).any(axis=0)] = np.nan
    found = []
    width = table.shape[1]
    for first in range(width - 1):
        sums = np.cumsum(table[:, first:], axis=1)
        with np.errstate(invalid="ignore"):
            good = np.all(np.abs(sums - 1) <= ROW_TOLERANCE, axis=0)
        for last in (first + np.flatnonzero(good)).tolist():
            if last == first:
                continue
            checked = row_sums(np.stack(columns[first : last + 1], axis=1))
            if checked.on_simplex and checked.fractions:
                found.append((first, last))
            if len(found) > 20:
                return found
    return found
