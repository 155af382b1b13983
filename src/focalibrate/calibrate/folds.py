"""Folds of a cross-validation."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import is_whole
from focalibrate.calibrate._input import ScoredRows

Folds = tuple[NDArray[np.intp], ...]

N_FOLDS = 5
FEW_FOLDS, MANY_ENTRIES = 3, 60_000
"""Numbers of folds, and from how many logits on each is used."""
MAX_COPIES = 10_000_000
"""Most copies of rows in a class that are assigned to the folds one by one."""


def fold_count(rows: ScoredRows) -> int:
    """Return the number of folds for data of this size."""
    n = n_copies(rows)
    return min(FEW_FOLDS if n * rows.n_classes > MANY_ENTRIES else N_FOLDS, n)


def n_copies(rows: ScoredRows) -> int:
    """Return how many rows there are, counting a whole weight as copies of its row."""
    if rows.weights is None or not is_whole(rows.weights):
        return rows.n_rows
    return int(rows.weights.sum())


def split_over_folds(
    rows: ScoredRows, n_folds: int, seed: int | np.random.Generator
) -> tuple[ScoredRows, Folds]:
    """Return the rows, and which each fold holds; every class is spread evenly over the folds.

    Equal rows go to different folds. A row of weight 3 is treated as three equal rows: it occurs
    once in each fold that holds some of them, with their number as its weight. Folds depend on
    the content of a row and not on its position, so that the order of the rows does not matter
    and weights give the same result as copies.
    """
    rng = np.random.default_rng(seed)
    counts = np.ones(rows.n_rows, dtype=np.int64)
    if rows.weights is not None and is_whole(rows.weights):
        counts = rows.weights.astype(np.int64)
    order = _by_content(rows)
    held = np.zeros((rows.n_rows, n_folds), dtype=np.int64)
    start = 0
    for label in np.unique(rows.labels):
        at = order[rows.labels[order] == label]
        total = int(counts[at].sum())
        if total <= MAX_COPIES:
            fold = np.empty(total, dtype=np.intp)
            fold[rng.permutation(total)] = (start + np.arange(total)) % n_folds
            np.add.at(held, (np.repeat(at, counts[at]), fold), 1)
        else:  # too many copies to assign one by one
            held[at] = counts[at, None] // n_folds
            rest = (start + np.arange(n_folds)) % n_folds < counts[at, None] % n_folds
            held[at] += rest
        start += total
    row, fold_of_row = np.nonzero(held)
    folds = tuple(np.flatnonzero(fold_of_row == i) for i in range(n_folds))
    if len(row) == rows.n_rows:  # no row is in two folds
        return rows, folds
    weights = held[row, fold_of_row].astype(np.float64)
    return replace(rows.take(row), weights=weights), folds


def stratified_folds(rows: ScoredRows, n_folds: int, seed: int | np.random.Generator) -> Folds:
    """Return which rows each fold holds, as `split_over_folds` has it, with every row in one."""
    return split_over_folds(replace(rows, weights=None), n_folds, seed)[1]


def _by_content(rows: ScoredRows) -> NDArray[np.intp]:
    """Return an order of the rows that does not depend on their positions."""
    direction = np.random.default_rng(rows.n_classes).normal(size=rows.n_classes)
    key = np.empty(rows.n_rows)
    for start in range(0, rows.n_rows, 4096):
        block = np.asarray(rows.logits[start : start + 4096], dtype=np.float64)
        # not `@`, whose rounding depends on a row's neighbours
        key[start : start + 4096] = (np.where(np.isfinite(block), block, -1e3) * direction).sum(1)
    return np.argsort(key, kind="stable")
