"""Isotonic regression in NumPy: SciPy's takes a third of a second to import."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_PASSES = 40
"""Passes before the rest is left to SciPy; outcomes sorted by a score take about ten."""


class Monotone(NamedTuple):
    """The rising sequence of least squared error."""

    x: Floats
    """fitted values ``[N]``"""
    blocks: NDArray[np.intp]
    """where each block of equal values begins, and N"""


def isotonic_regression(y: NDArray[Any], weights: NDArray[Any]) -> Monotone:
    r"""Return :math:`\arg\min_{x_1 \le \dots \le x_N} \sum_i w_i (x_i - y_i)^2`.

    Numerics:
        Pools adjacent violators; any order of pooling ends in the same blocks, so each pass
        pools all that there are. A few sequences need a pass for every value: after
        `MAX_PASSES` SciPy takes over.
    """
    n = len(y)
    first = np.arange(n)
    value, total, mass = y, y * weights, weights
    for _ in range(MAX_PASSES):
        rises = np.empty(len(value), dtype=bool)
        rises[0] = True
        np.greater(value[1:], value[:-1], out=rises[1:])
        at = np.flatnonzero(rises)
        if len(at) == len(value):
            break
        first = first[at]
        total, mass = np.add.reduceat(total, at), np.add.reduceat(mass, at)
        value = total / mass
    else:
        from scipy.optimize import isotonic_regression as pool

        found = pool(value, weights=mass)
        first = first[found.blocks[:-1]]
        value = found.x[found.blocks[:-1]]
    blocks = np.append(first, n)
    return Monotone(np.repeat(value, np.diff(blocks)), blocks)
