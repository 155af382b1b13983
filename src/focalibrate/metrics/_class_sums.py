"""Sums by class and cell, collected from chunks of rows."""

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics._class_cells import class_edges, class_index
from focalibrate.metrics.reliability_table import ReliabilityTable

CLASS_PLAIN = ("count", "probability", "label", "variance")
CLASS_WEIGHTED = (*CLASS_PLAIN, "rows", "row_probability", "spread_variance")


@final
class ClassSums:
    """Sums over cells of every class.

    Most entries of a softmax lie in the first cell: the others are sorted into theirs, and the
    first gets what the totals of the classes leave. Entries wait until there are more than
    cells, so that adding to all cells costs little per row.
    """

    def __init__(self, n_classes: int, n_bins: int, *, is_weighted: bool) -> None:
        edges = class_edges(n_classes, n_bins)
        self._cell_of, self._first_edge = class_index(n_classes, n_bins), float(edges[1])
        self._n_cells = len(edges) - 1
        names = CLASS_WEIGHTED if is_weighted else CLASS_PLAIN
        self._sums = np.zeros((len(names), n_classes * self._n_cells))
        self._totals = np.zeros((len(names), n_classes))
        self._waiting: list[tuple[Any, ...]] = []
        self._n_waiting = 0

    def add(
        self,
        probs: Floats,
        labels: NDArray[np.intp],
        own: Floats,
        weights: Floats | None,
        axis: int,
    ) -> None:
        """Take in a chunk of rows.

        Args:
            probs: ``[K, N]`` for `axis` 0, else ``[N, K]``.
            labels: class indices ``[N]``.
            own: probabilities of the labels ``[N]``.
            weights: ``[N]``.
            axis: of the classes.
        """
        n_cells = self._n_cells
        hit = np.flatnonzero(probs > self._first_edge)
        p = np.minimum(probs.reshape(-1)[hit], 1.0)
        first, second = np.divmod(hit, probs.shape[1])
        column, row = (first, second) if axis == 0 else (second, first)
        cell = column * n_cells + self._cell_of(p)
        own_cell = labels * n_cells + self._cell_of(np.minimum(own, 1.0))
        w = None if weights is None else weights[row]
        self._waiting.append((cell, p, w, own_cell, weights))
        self._n_waiting += len(cell)
        self._add_totals(probs, weights, axis)
        if self._n_waiting > self._sums.shape[1]:
            self._sort()

    def _add_totals(self, probs: Floats, weights: Floats | None, axis: int) -> None:
        n, plain = probs.shape[1 - axis], probs.sum(axis=1 - axis)
        if weights is None:  # no BLAS, whose threads spin
            squares = np.einsum("kn,kn->k" if axis == 0 else "nk,nk->k", probs, probs)
            found = [n, plain, 0.0, plain - squares]
        else:
            table = probs if axis == 0 else probs.T
            squares, powers = table * table, weights * weights
            mean = table @ weights
            found = [weights.sum(), mean, 0.0, mean - squares @ weights]
            found += [n, plain, (table - squares) @ powers]
        for total, more in zip(self._totals, found, strict=True):
            total += more

    def _sort(self) -> None:
        """Add the entries that wait to their cells."""
        if not self._waiting:
            return
        columns = list(zip(*self._waiting, strict=True))
        self._waiting, self._n_waiting = [], 0
        is_plain = columns[2][0] is None
        cell, p, own_cell = (np.concatenate(columns[i]) for i in (0, 1, 3))
        w, own_w = (None if is_plain else np.concatenate(columns[i]) for i in (2, 4))
        n, variance = self._sums.shape[1], p - p * p
        self._sums[0] += np.bincount(cell, w, n)
        self._sums[1] += np.bincount(cell, p if w is None else w * p, n)
        self._sums[2] += np.bincount(own_cell, own_w, n)
        self._sums[3] += np.bincount(cell, variance if w is None else w * variance, n)
        if w is not None:
            self._sums[4] += np.bincount(cell, None, n)
            self._sums[5] += np.bincount(cell, p, n)
            self._sums[6] += np.bincount(cell, w * w * variance, n)

    def result(self) -> Floats:
        """Return the sums of all rows ``[F, K, C]``."""
        self._sort()
        sums = self._sums.reshape(len(self._totals), -1, self._n_cells)
        for i, total in enumerate(self._totals):
            if CLASS_WEIGHTED[i] != "label":
                sums[i, :, 0] += total - sums[i].sum(axis=1)
        return sums


def added_classes(first: Floats, second: Floats) -> Floats:
    """Return two blocks of sums by class added, one with weights if either has."""

    def full(sums: Floats) -> Floats:
        count, probability, _, variance = sums
        return np.concatenate([sums, np.stack([count, probability, variance])])

    if len(first) != len(second):
        first, second = (x if len(x) == len(CLASS_WEIGHTED) else full(x) for x in (first, second))
    assert len(first) in (len(CLASS_PLAIN), len(CLASS_WEIGHTED))  # noqa: S101
    return np.asarray(first + second)


def table_of_class(
    classes: Floats, event: int, n_bins: int, *, is_whole: bool
) -> ReliabilityTable:
    """Return the cells of one class, of the sums ``[F, K, C]``, as a table."""
    # the first cell is what column totals leave, to rounding
    sums = np.maximum(classes[:, event], 0.0)
    spread = None
    if len(sums) == len(CLASS_WEIGHTED) and not is_whole:
        # of a narrow cell, whose p (1 - p) hardly vary
        spread = sums[0] * np.divide(
            sums[6], sums[3], out=np.ones_like(sums[0]), where=sums[3] > 0
        )
    edges = class_edges(classes.shape[1], n_bins)
    return ReliabilityTable(sums[0], sums[1], sums[2], edges, spread)
