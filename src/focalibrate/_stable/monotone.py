"""Isotonic regression in NumPy: SciPy's takes a third of a second to import."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats

MAX_PASSES = 40
"""Passes before the rest is left to SciPy; outcomes sorted by a score take about ten."""


class Monotone(NamedTuple):
    """The rising sequence of least squared error."""

    x: Floats
    """fitted values ``[N]``"""
    blocks: NDArray[np.intp]
    """where each block of equal values begins, and N"""


def isotonic_regression(
    y: NDArray[Any], weights: NDArray[Any], *, length: int | None = None
) -> Monotone:
    r"""Return :math:`\arg\min_{x_1 \le \dots \le x_N} \sum_i w_i (x_i - y_i)^2`.

    With a `length`, `y` is that of several sequences one after the other, so long each and
    fitted one by one.

    Numerics:
        Pools adjacent violators; any order of pooling ends in the same blocks, so each pass
        pools all that there are. A few sequences need a pass for every value: after
        `MAX_PASSES` SciPy takes over.
    """
    n = len(y)
    length = length or n
    first = np.arange(n)
    value, total, mass = y, y * weights, weights
    for _ in range(MAX_PASSES):
        rises = first % length == 0
        rises[1:] |= value[1:] > value[:-1]
        at = np.flatnonzero(rises)
        if len(at) == len(value):
            break
        first = first[at]
        total, mass = np.add.reduceat(total, at), np.add.reduceat(mass, at)
        value = total / mass
    else:
        first, value = _pool_the_rest(first, value, mass, length)
    blocks = np.append(first, n)
    return Monotone(np.repeat(value, np.diff(blocks)), blocks)


def _pool_the_rest(
    first: NDArray[np.intp], value: Floats, mass: Floats, length: int
) -> tuple[NDArray[np.intp], Floats]:
    """Return where each block begins and its value, by SciPy."""
    from scipy.optimize import isotonic_regression as pool

    ends = np.append(np.flatnonzero(first % length == 0), len(first))
    kept, values = [], []
    for start, end in pairwise(ends):
        found = pool(value[start:end], weights=mass[start:end])
        at = found.blocks[:-1]
        kept.append(first[start:end][at])
        values.append(found.x[at])
    return np.concatenate(kept), np.concatenate(values)
