r"""Sums over the classes of rows in half precision, from how often each number occurs.

There are only 65,536 numbers: counting them is faster than one exponential per class, and
serves every temperature and gamma. The sums are exact to rounding, but for the series.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._engine.blocks import Workspace
from focalibrate.calibrate._engine.series import (
    FocalMap,
    LargeClasses,
    moved,
    powers,
    reach_of_large,
    with_series,
)

Sums = tuple[Floats, Floats, Floats]

N_CODES = 1 << 16
NEGATIVE = 1 << 15
"""Numbers below 0 have codes from here on, the larger the further below."""
MINUS_INF = 0xFC00
STEP = 100.0
"""Tables of exponentials are made for tops at multiples of so many least temperatures: then no
exponential that counts overflows, or falls below 1e-250."""
MAX_TABLES = 8
BLAS_PRODUCTS = 1 << 18
"""Most multiplications of a matrix product that BLAS does without starting threads within ours."""


def _values() -> Floats:
    finite = np.arange(MINUS_INF & ~NEGATIVE, dtype=np.uint16).view(np.float16).astype(np.float64)
    values = np.full(N_CODES, -np.inf)
    values[: len(finite)], values[NEGATIVE : NEGATIVE + len(finite)] = finite, -finite
    return values


VALUES = _values()
"""What each code stands for; -inf for nan and +inf too, which do not occur."""


class CodeSums:
    """Sums over the classes of float16 rows for several forms, as `TemperedRows` needs them."""

    certain = 1e-240
    """Sums over rivals are accurate down to here."""

    def __init__(self, forms: Sequence[FocalMap]) -> None:
        self.forms = tuple(forms)
        self.width = STEP * min((temperature for _, temperature in forms), default=1.0)
        self._tables: dict[int, Floats] = {}
        sizes = [2 if gamma == 0 else 6 for gamma, _ in forms]
        ends = np.cumsum([0, *sizes]).tolist()
        self._parts = [slice(a, b) for a, b in pairwise(ends)]

    def sums(
        self, rows: Sequence[NDArray[np.float16]], space: Workspace
    ) -> tuple[NDArray[np.intp], list[Sums]]:
        r"""Return the top class ``[n]`` and three sums over the others for each form, ``[n]``.

        Those of `calibrate.top_terms`; a row has at least one finite number, and no nan or +inf.
        """
        codes = [row.view(np.uint16) for row in rows]
        top = np.array([_argmax(row) for row in codes], dtype=np.intp)
        tops = np.array([row[place] for row, place in zip(codes, top, strict=True)])
        counts, ranges = _counted(codes, tops, space)
        high = VALUES[tops]
        places = np.rint(high / self.width).astype(np.int64)
        raw = np.empty((len(codes), self._parts[-1].stop))
        for place in np.unique(places).tolist():
            is_here = places == place
            some = counts if is_here.all() else counts[is_here]
            raw[is_here] = _products(some, self._table(place), ranges)
        shifts = [(high - places * self.width) / temperature for _, temperature in self.forms]
        sums = [moved(raw[:, p], s) for p, s in zip(self._parts, shifts, strict=True)]
        large = _large(counts, ranges, high, self._reach(sums))
        return top, [
            _completed(some, large, form) for some, form in zip(sums, self.forms, strict=True)
        ]

    def _reach(self, sums: Sequence[Floats]) -> Floats:
        """Return the gaps below which classes are taken one by one, for gammas other than 0."""
        reach = np.zeros(len(sums[0]))
        for form, some in zip(self.forms, sums, strict=True):
            if form[0] != 0:
                np.maximum(reach, reach_of_large(form, 1.0 + some[:, 0]), out=reach)
        return reach

    def _table(self, place: int) -> Floats:
        """Return what each code adds to the sums, relative to a multiple of `width`."""
        table = self._tables.get(place)
        if table is None:
            gap = VALUES - place * self.width
            made = [powers(np.minimum(gap / t, 200.0), gamma) for gamma, t in self.forms]
            table = np.concatenate(made)
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
            self._tables[place] = table
        return table


def _counted(
    codes: Sequence[NDArray[np.uint16]], tops: NDArray[np.uint16], space: Workspace
) -> tuple[Floats, list[tuple[int, int]]]:
    """Return how many classes have each code, without the top one, ``[n, C]``.

    And the ranges of codes that occur; outside of them the counts are arbitrary. One buffer
    serves all rows: fresh memory takes as long as the counting.
    """
    positive = max((int(code) for code in tops if code < NEGATIVE), default=0) + 1
    counts = space.array("counts", (len(codes), N_CODES))
    place = space.array("place", codes[0].shape, np.intp)
    ends = []
    for row, own, top in zip(counts, codes, tops.tolist(), strict=True):
        np.copyto(place, own)
        found = np.bincount(place)
        found[top] -= 1
        ends.append(min(max(len(found), NEGATIVE), MINUS_INF))
        n = min(len(found), positive)
        row[:n], row[n:positive] = found[:n], 0.0
        row[NEGATIVE : ends[-1]] = found[NEGATIVE : ends[-1]]
    for row, end in zip(counts, ends, strict=True):
        row[end : max(ends)] = 0.0
    return counts, [(0, positive), (NEGATIVE, max(ends))]


def _large(
    counts: Floats, ranges: Sequence[tuple[int, int]], high: Floats, reach: Floats
) -> LargeClasses | None:
    """Return the classes within `reach` of the top; None where it is 0 everywhere."""
    if not reach.any():
        return None
    low = high - reach
    (_, positive), (_, negative) = ranges
    above, below = _codes_of(np.maximum(low, 0.0)), _codes_of(np.minimum(low, -0.0)) + 1
    found = []
    for own, start, end in zip(counts, above.tolist(), below.tolist(), strict=True):
        some = start + np.flatnonzero(own[start:positive])
        if end > NEGATIVE + 1:
            more = NEGATIVE + np.flatnonzero(own[NEGATIVE : min(end, negative)])
            some = np.concatenate([some, more])
        found.append(some)
    row = np.repeat(np.arange(len(found)), [len(codes) for codes in found])
    at = np.concatenate(found)
    return LargeClasses(row, high[row] - VALUES[at], counts[row, at], len(found))


def _completed(sums: Floats, large: LargeClasses | None, form: FocalMap) -> Sums:
    """Return the three sums over all classes, those of the large ones taken one by one."""
    gamma, temperature = form
    if gamma == 0 or large is None:
        return with_series(sums, np.zeros((3, len(sums))), gamma)
    apart = np.stack([large.summed(v) for v in powers(-large.gap / temperature, gamma)], axis=1)
    rest = sums - apart
    return with_series(rest, large.sums(1.0 + np.maximum(rest[:, 0], 0.0), form), gamma)


def _argmax(codes: NDArray[np.uint16]) -> int:
    """Return the place of the first largest number of a row."""
    place = int(codes.view(np.int16).argmax())
    code = int(codes[place])
    if 0 < code < NEGATIVE:
        return place
    return int(codes.view(np.float16).argmax())  # 0 and -0 are equal; else all are below 0


def _codes_of(values: Floats) -> NDArray[np.int64]:
    """Return the codes of the nearest numbers in half precision."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).view(np.uint16).astype(np.int64)


def _products(counts: Floats, table: Floats, ranges: Sequence[tuple[int, int]]) -> Floats:
    """Return ``counts @ table.T`` over some ranges of codes."""
    found = np.zeros((len(counts), len(table)))
    step = max(1, BLAS_PRODUCTS // found.size)
    for start, end in ranges:
        for at in range(start, end, step):
            part = slice(at, min(at + step, end))
            found += counts[:, part] @ table[:, part].T
    return found
