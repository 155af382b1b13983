"""Folds of a cross-validation."""

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate.rows import Rows

Folds = tuple[NDArray[np.intp], ...]

N_FOLDS = 5
FEW_FOLDS, MANY_ENTRIES = 3, 60_000
"""Numbers of folds, and from how many logits on each is used."""


def fold_count(rows: Rows) -> int:
    """Return the number of folds for data of this size."""
    return min(FEW_FOLDS if rows.logits.size > MANY_ENTRIES else N_FOLDS, rows.n_rows)


def random_folds(
    rows: Rows,
    n_folds: int,
    seed: int | np.random.Generator,
    cluster: NDArray[np.intp] | None = None,
) -> Folds:
    """Return which rows each fold holds, at random.

    Classes are not spread evenly: a fold with the class frequencies of the others would reward
    a method for fitting the chance in them, and a calibrated model would lose to it. But of a
    class of several rows, one is outside of each fold. Folds depend on the content of a row and
    not on its position.

    With the number of the `cluster` of each row ``[N]``, no cluster is split: they are dealt in
    random order, the largest first, each to the fold with the fewest rows.
    """
    rng = np.random.default_rng(seed)
    if cluster is not None:
        return _clustered(rows, n_folds, rng, cluster)
    fold = np.empty(rows.n_rows, dtype=np.intp)
    fold[_by_content(rows)] = rng.permutation(rows.n_rows) % n_folds
    for label, count in enumerate(np.bincount(rows.labels)):
        if 1 < count <= n_folds * 10:  # more are hardly ever all in one fold
            at = np.flatnonzero(rows.labels == label)
            if (fold[at] == fold[at[0]]).all():
                fold[at[0]] = (fold[at[0]] + 1) % n_folds
    return tuple(np.flatnonzero(fold == i) for i in range(n_folds))


def _clustered(
    rows: Rows, n_folds: int, rng: np.random.Generator, cluster: NDArray[np.intp]
) -> Folds:
    size = np.bincount(cluster)
    first = np.full(len(size), rows.n_rows)
    np.minimum.at(first, cluster[_by_content(rows)], np.arange(rows.n_rows))
    dealt = np.argsort(first, kind="stable")[rng.permutation(len(size))]
    fold, filled = np.empty(len(size), dtype=np.intp), np.zeros(n_folds)
    for one in dealt[np.argsort(-size[dealt], kind="stable")]:
        fold[one] = filled.argmin()
        filled[fold[one]] += size[one]
    for label, count in enumerate(np.bincount(rows.labels)):
        if 1 < count <= n_folds * 10:
            held = np.unique(cluster[rows.labels == label])
            if len(held) > 1 and (fold[held] == fold[held[0]]).all():
                fold[held[0]] = (fold[held[0]] + 1) % n_folds
    of_row = fold[cluster]
    return tuple(np.flatnonzero(of_row == i) for i in range(n_folds))


def _by_content(rows: Rows) -> NDArray[np.intp]:
    """Return an order of the rows that does not depend on their positions."""
    direction = np.random.default_rng(rows.n_classes).normal(size=rows.n_classes)
    key = np.empty(rows.n_rows)
    for start in range(0, rows.n_rows, 4096):
        block = np.asarray(rows.logits[start : start + 4096], dtype=np.float64)
        # not `@`, whose rounding depends on a row's neighbours
        key[start : start + 4096] = (np.where(np.isfinite(block), block, -1e3) * direction).sum(1)
    return np.lexsort((rows.labels, key))
