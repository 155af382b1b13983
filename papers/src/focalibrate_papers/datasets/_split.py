"""Splits that keep the shares of the classes, by seed."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from focalibrate_papers.datasets.dataset import Inputs, Split, Tokens

_Index = NDArray[np.intp]


def stratified_order(labels: NDArray[np.integer], *, seed: int | Sequence[int]) -> _Index:
    """Return a random order of the rows in which every stretch has nearly the class shares.

    Row r of the n_c rows of a class, in random order, is placed at (r + 1/2) / n_c. So a prefix of
    a share s has between s·n_c - 1 and s·n_c + 1 rows of the class; and the only row of a
    class is in the middle, which is training data in any sensible split.
    """
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(labels))
    place = np.empty(len(labels))
    for label in np.unique(labels):
        rows = np.flatnonzero(labels[shuffled] == label)
        place[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return shuffled[np.argsort(place, kind="stable")]


def split_sizes(
    labels: NDArray[np.integer], sizes: Sequence[int], *, seed: int | Sequence[int]
) -> list[_Index]:
    """Return the rows of each part, in the order of the file; the sizes add up to all rows."""
    order = stratified_order(labels, seed=seed)
    cuts = np.cumsum(sizes)[:-1]
    return [np.sort(part) for part in np.split(order, cuts)]


def check_fraction(fraction: float) -> float:
    """Return `fraction`, a number in (0, 1]."""
    if not 0 < fraction <= 1:
        raise ValueError(f"`fraction` must be in (0, 1], got {fraction!r}.")
    return fraction


def thinned(labels: NDArray[np.integer], *, fraction: float, seed: int | Sequence[int]) -> _Index:
    """Return the rows that are kept, in the order of the file; at least one.

    The rows of a smaller fraction are among those of a larger one.
    """
    if fraction == 1:
        return np.arange(len(labels))
    kept = max(1, math.floor(fraction * len(labels) + 0.5))
    return np.sort(stratified_order(labels, seed=seed)[:kept])


def take(split: Split, rows: _Index) -> Split:
    """Return the examples `rows` of a split."""
    inputs: Inputs
    if isinstance(split.inputs, np.ndarray | Tokens):
        inputs = split.inputs[rows]
    else:
        inputs = [split.inputs[row] for row in rows]
    return Split(inputs, split.labels[rows])
