r"""Sums over the classes of rows in half precision, from how often each number occurs.

There are only 65,536 numbers: counting them is faster than one exponential per class, and
serves every temperature and gamma. The sums are exact to rounding, but for the series.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate._engine.blocks import Workspace
from focalibrate.calibrate._engine.series import (
    Form,
    LargeClasses,
    moved,
    powers,
    reach_of_large,
    with_series,
)

Floats = NDArray[np.float64]
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

    def __init__(self, forms: Sequence[Form]) -> None:
        self.forms = tuple(forms)
        self.width = STEP * min((temperature for _, temperature in forms), default=1.0)
        self._tables: dict[int, Floats] = {}
        sizes = [2 if gamma == 0 else 6 for gamma, _ in forms]
        ends = np.cumsum([0, *sizes]).tolist()
        self._parts = [slice(a, b) for a, b in pairwise(ends)]

    def sums(self, logits: NDArray[np.float16], space: Workspace) -> tuple[Any, list[Sums]]:
        r"""Return the top class ``[n]`` and three sums over the others for each form, ``[n]``.

        Those of `calibrate.top_terms`; a row has at least one finite number, and no nan or +inf.
        """
        codes = logits.view(np.uint16)
        top = np.array([_argmax(row) for row in codes], dtype=np.intp)
        tops = codes[np.arange(len(codes)), top]
        counts, ranges = _counted(codes, tops, space)
        high = VALUES[tops]
        places = np.rint(high / self.width).astype(np.int64)
        raw = np.empty((len(codes), self._parts[-1].stop))
        for place in np.unique(places).tolist():
            rows = places == place
            some = counts if rows.all() else counts[rows]
            raw[rows] = _products(some, self._table(place), ranges)
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
    codes: NDArray[np.uint16], tops: NDArray[np.uint16], space: Workspace
) -> tuple[Floats, list[tuple[int, int]]]:
    """Return how many classes have each code, without the top one, ``[n, C]``.

    And the ranges of codes that occur; outside of them the counts are arbitrary.
    """
    found = [np.bincount(row) for row in codes]
    positive = max((int(code) for code in tops if code < NEGATIVE), default=0) + 1
    negative = min(max(len(some) for some in found), MINUS_INF)
    ranges = [(0, positive), (NEGATIVE, max(negative, NEGATIVE))]
    counts = space.array("counts", (len(codes), N_CODES))
    for row, some, top in zip(counts, found, tops.tolist(), strict=True):
        some[top] -= 1
        for start, end in ranges:
            last = max(start, min(end, len(some)))
            row[start:last] = some[start:last]
            row[last:end] = 0.0
    return counts, ranges


def _large(
    counts: Floats, ranges: Sequence[tuple[int, int]], high: Floats, reach: Floats
) -> LargeClasses | None:
    """Return the classes within `reach` of the top; None where it is 0 everywhere."""
    if not reach.any():
        return None
    found = [
        _codes_above(row, ranges, top - within)
        for row, top, within in zip(counts, high.tolist(), reach.tolist(), strict=True)
    ]
    row = np.repeat(np.arange(len(found)), [len(codes) for codes in found])
    at = np.concatenate(found)
    return LargeClasses(row, high[row] - VALUES[at], counts[row, at], len(found))


def _completed(sums: Floats, large: LargeClasses | None, form: Form) -> Sums:
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


def _code_of(value: float) -> int:
    """Return the code of the nearest number in half precision."""
    with np.errstate(over="ignore"):
        return int(np.float16(value).view(np.uint16))


def _codes_above(
    counts: Floats, ranges: Sequence[tuple[int, int]], low: float
) -> NDArray[np.intp]:
    """Return the codes that occur, of numbers from about `low` on."""
    (_, positive), (first, negative) = ranges
    some = (
        (_code_of(max(low, 0.0)), positive),
        (first, min(_code_of(min(low, -0.0)) + 1, negative)),
    )
    kept = some[: 1 if low > 0 else 2]
    return np.concatenate([start + np.flatnonzero(counts[start:end]) for start, end in kept])


def _products(counts: Floats, table: Floats, ranges: Sequence[tuple[int, int]]) -> Floats:
    """Return ``counts @ table.T`` over some ranges of codes."""
    found = np.zeros((len(counts), len(table)))
    step = max(1, BLAS_PRODUCTS // found.size)
    for start, end in ranges:
        for at in range(start, end, step):
            part = slice(at, min(at + step, end))
            found += counts[:, part] @ table[:, part].T
    return found
