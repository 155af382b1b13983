"""Tables of one curve per class, read for all classes at once, on any array library."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from focalibrate._array import Array, Floats, device, is_numpy_array, namespace


def padded(rows: Sequence[Sequence[float]], fill: float | None = None) -> Floats:
    """Return `rows` as ``[K, L]``, filled up with `fill` or with each row's last entry."""
    length = max(1, *map(len, rows))
    return np.array(
        [[*row, *[row[-1] if fill is None else fill] * (length - len(row))] for row in rows],
        dtype=np.float64,
    )


def count_below(p: Array, knots: Floats, *, side: Literal["left", "right"]) -> Array:
    """Return how many knots of its class are below each `p` (right: or equal), ``[..., K]``.

    Args:
        p: real array ``[..., K]``.
        knots: ``[K, L]``, rising, infinite behind the last.
        side: as in `numpy.searchsorted`.
    """
    if is_numpy_array(p):
        counts = np.empty(p.shape, dtype=np.int64)
        for k, row in enumerate(knots):
            counts[..., k] = np.searchsorted(row, p[..., k], side=side)
        return counts
    # By halving, with gathers only: the array API has no search in several tables.
    xp = namespace(p)
    n_steps = knots.shape[1].bit_length()
    levels = np.full((len(knots), 2**n_steps - 1), np.inf)
    levels[:, : knots.shape[1]] = knots
    count = xp.astype(xp.zeros_like(p), xp.int64)
    for step in (2**i for i in reversed(range(n_steps))):
        knot = entries(levels, count + (step - 1), p)
        is_below = knot < p if side == "left" else knot <= p
        count = xp.where(is_below, count + step, count)
    return count


def entries(table: Floats, index: Array, like: Array) -> Array:
    """Return ``table[k, index[..., k]]`` in the library, dtype and device of `like`."""
    xp = namespace(like)
    n_classes, length = table.shape
    flat = xp.asarray(table.ravel(), dtype=like.dtype, device=device(like))
    first = xp.asarray(length * np.arange(n_classes), dtype=xp.int64, device=device(like))
    at = xp.reshape(index + first, (-1,))
    return xp.reshape(xp.take(flat, at), like.shape)


def interpolated(p: Floats, curves: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Return the curve of its class at each `p` ``[..., K]``, linear between knots, flat beyond.

    Args:
        p: NumPy array.
        curves: knots and values of each class.
    """
    columns = p.reshape(-1, len(curves)).T
    found = np.empty(columns.shape)
    for column, (x, y), out in zip(columns, curves, found, strict=True):
        out[...] = np.interp(column, x, y)
    return np.ascontiguousarray(found.T).reshape(p.shape)
