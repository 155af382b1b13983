"""Cells: sums over intervals of probability, from which every calibration error follows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_choice, check_n_bins, is_whole
from focalibrate.metrics.binning import (
    Closed,
    FineIndex,
    Ints,
    divided,
    edges_of,
    equal_mass_sizes,
    index_of,
    split_equal_mass,
)
from focalibrate.metrics.interval import counts_rows
from focalibrate.metrics.residuals import Residuals
from focalibrate.metrics.rows import (
    RowOptions,
    read,
    read_label_matrix,
    read_outcomes,
    read_rows_of_event,
    read_weights,
    row_chunks,
)
from focalibrate.metrics.smooth import smooth_ece_of_residuals

Norm = Literal["l1", "l2", "max"]
FIELDS = (
    "weight", "probability", "square", "rows", "spread", "outcome", "hits", "spread_outcome",
)  # fmt: skip
"""Of `Cells.sums`; the last three are of the rows for which the event happened."""


@dataclass(frozen=True, eq=False)
class Cells:
    r"""Sums over cells of probability: all that calibration errors and diagrams need.

    A row has the probability :math:`c` of an event, its outcome :math:`y` (0 or 1, or a share)
    and a weight :math:`w`. Cell ``j`` holds the rows with :math:`c` in ``(edges[j], edges[j+1]]``;
    0 falls in the first cell. The event can be anything: "the prediction is right", "the class is
    k", "label j is set", "a row of group g is right". Several events have one row of sums each.
    The size does not grow with the rows, and ``+`` merges batches, files, workers and days.

    Attributes:
        sums: by name and cell, ``[8, M]`` for one event, ``[8, E, M]`` for several: the sums of
            :math:`w`, :math:`wc`, :math:`wc^2`, 1, :math:`w^2`, :math:`wy`, :math:`wcy` and
            :math:`w^2y`.
        edges: from 0 to 1, shape ``[M + 1]``.

    Numerics:
        Sums are float64: merging agrees with one pass to about ``N * 1e-16``. A probability is
        compared with the float64 edges at its exact value: the float32 nearest to 0.2 lies above
        0.2 and falls in the cell that starts there.

    Example:
        >>> import numpy as np
        >>> probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        >>> first = Cells.of_top_label(probs[:2], np.array([0, 0]), bins=2)
        >>> both = first + Cells.of_top_label(probs[2:], np.array([0]), bins=2)
        >>> both.weight, round(both.ece(), 4)
        (array([0., 3.]), 0.1)
    """

    sums: Floats
    edges: Floats
    is_counted: bool = True
    """whether weights are whole numbers, which count repeated rows"""

    @classmethod
    def of(
        cls,
        confidence: Array,
        correct: Array,
        *,
        bins: int | ArrayLike = 15,
        sample_weight: Array | None = None,
        closed: Closed = "right",
    ) -> "Cells":
        """Return the cells of probabilities ``[N]`` of an event, and of its outcomes ``[N]``.

        Args:
            confidence: in [0, 1].
            correct: whether the event happened, 0 or 1; a share in [0, 1] for a tie.
            bins: number of equally wide cells, or their edges from 0 to 1.
            sample_weight: weights ``[N]``. Whole numbers count repeated rows.
            closed: ``"right"`` for cells ``(a, b]``, ``"left"`` for ``[a, b)``.
        """
        c, outcome = read_outcomes(confidence, correct)
        y = outcome.astype(np.bool_) if is_whole(outcome) else outcome
        return cls._of(c, y, bins, read_weights(sample_weight, len(c)), closed)

    @classmethod
    def of_top_label(
        cls,
        probs: Array,
        labels: Array,
        *,
        bins: int | ArrayLike = 15,
        closed: Closed = "right",
        **rows: Unpack[RowOptions],
    ) -> "Cells":
        """Return the cells of each row's largest probability and whether it was right.

        Arguments are those of `focalibrate.metrics.ece`, and `bins` as in `of`.
        """
        c, y, weights = read_rows_of_event(probs, labels, **rows)
        return cls._of(c, y, bins, weights, closed)

    @classmethod
    def of_classes(
        cls,
        probs: Array,
        labels: Array,
        *,
        bins: int | ArrayLike = 15,
        sample_weight: Array | None = None,
        binary: bool = False,
    ) -> "Cells":
        """Return the cells of every class: event ``k`` is that the label is ``k``.

        Numerics:
            Most entries of a softmax lie in the first cell, whose sums are taken as the totals of
            the class minus the other cells: exact to about ``N * 1e-16``.
        """
        rows, y = read(probs, labels, binary=binary)
        cell_of = FineIndex(edges_of(bins))
        return class_cells(rows, y, cell_of, read_weights(sample_weight, len(rows)))

    @classmethod
    def of_labels(
        cls,
        probs: Array,
        labels: Array,
        *,
        bins: int | ArrayLike = 15,
        sample_weight: Array | None = None,
    ) -> "Cells":
        """Return the cells of every label of a multi-label head.

        Args:
            probs: one probability per label, ``[N, C]``, any array library or data frame.
            labels: 0 or 1, ``[N, C]``.
            bins: as in `of`.
            sample_weight: ``[N]``, or ``[N, C]`` with 0 for a label that is unknown.
        """
        p, y, weights = read_label_matrix(probs, labels, sample_weight)
        event = np.broadcast_to(np.arange(p.shape[1]), p.shape).reshape(-1)
        w = None if weights is None else weights.reshape(-1)
        edges = edges_of(bins)
        index = index_of(p.reshape(-1), edges)
        return cls.of_index(
            index, p.reshape(-1), y.reshape(-1), edges, w, event=event, n_events=p.shape[1]
        )

    @classmethod
    def of_index(
        cls,
        cell: Ints,
        probability: Floats,
        outcome: NDArray[Any],
        edges: Floats,
        weights: Floats | None = None,
        *,
        event: Ints | None = None,
        n_events: int = 0,
        copies: bool | None = None,
    ) -> "Cells":
        """Return the sums of NumPy rows ``[N]`` whose cells are known; nothing is checked."""
        m = len(edges) - 1
        at = cell if event is None else event * m + cell
        shape = (m,) if event is None else (n_events, m)
        sums = row_sums(at, probability, outcome, weights, int(np.prod(shape)))
        return cls(sums.reshape(-1, *shape), edges, counts_rows(weights, copies))

    @classmethod
    def of_distinct(
        cls, probability: Floats, outcome: NDArray[Any], weights: Floats | None = None
    ) -> "Cells":
        """Return one cell per distinct probability, ascending: with it `equal_mass` is exact."""
        value, y, w = sorted_rows(probability, outcome, weights)
        first = np.flatnonzero(np.diff(value, prepend=-1.0))
        sums = np.add.reduceat(_row_values(value, y, w), first, axis=1)
        at = value[first]
        sums[1], sums[2] = sums[0] * at, sums[0] * at * at  # exactly tied
        edges = np.concatenate([[0.0], at[:-1], [1.0]])
        return cls(sums, edges, counts_rows(w))

    @classmethod
    def of_equal_mass(
        cls, probability: Floats, outcome: NDArray[Any], n_bins: int, weights: Floats | None = None
    ) -> "Cells":
        r"""Return ``of_distinct(...).equal_mass(n_bins)``, faster where there are no weights.

        Numerics:
            See `sorted_rows`. Sums of a bin are taken at once, and a tie group that a boundary
            cuts gives each side its share afterwards.
        """
        if weights is not None or outcome.dtype != np.bool_:
            return cls.of_distinct(probability, outcome, weights).equal_mass(n_bins)
        value, y, _ = sorted_rows(probability, outcome, None)
        n, sizes = len(value), equal_mass_sizes(len(value), n_bins)
        ends = np.cumsum(sizes)
        starts = np.minimum(ends - sizes, n - 1)
        terms = (value, value * value, y, value * y)
        c, square, hit, both = (np.add.reduceat(x, starts) for x in terms)
        sums = np.stack([sizes, c, square, sizes, sizes, hit, both, hit])
        sums[:, sizes == 0] = 0.0
        for b in np.flatnonzero(ends < n).tolist():
            cut, c = int(ends[b]), value[ends[b]]
            if value[cut - 1] == c:
                low, high = np.searchsorted(value, [c, np.nextafter(c, 2.0)])
                share = (cut - low) / (high - low)
                moved = share * y[low:high].sum() - y[low:cut].sum()
                change = moved * np.array([1.0, c, 1.0])
                sums[5:, b] += change
                sums[5:, b + 1] -= change
        edges = np.concatenate([[0.0], value[ends[:-1] - 1], [1.0]])
        return cls(sums, edges)

    @classmethod
    def empty(cls, *, bins: int | ArrayLike = 15) -> "Cells":
        """Return the cells of no rows, to which others are added; their errors are nan."""
        edges = edges_of(bins)
        return cls(np.zeros((len(FIELDS), len(edges) - 1)), edges)

    @classmethod
    def _of(
        cls, c: Floats, y: NDArray[Any], bins: int | ArrayLike, w: Floats | None, closed: Closed
    ) -> "Cells":
        edges = edges_of(bins)
        return cls.of_index(index_of(c, edges, closed), c, y, edges, w)

    def __add__(self, other: "Cells") -> "Cells":
        if not np.array_equal(self.edges, other.edges) or self.n_events != other.n_events:
            raise ValueError(
                "cells must have the same `edges` and events to be merged, got "
                f"{self.sums.shape[1:]} and {other.sums.shape[1:]}. Build both with the same "
                "`bins`; bins of equal mass are merged as fine cells first, see `equal_mass`."
            )
        is_counted = self.is_counted and other.is_counted
        return Cells(self.sums + other.sums, self.edges, is_counted)

    @property
    def n_events(self) -> int:
        """Number of events; 0 for a single one without an axis of events."""
        return self.sums.shape[1] if self.sums.ndim == 3 else 0

    def __getitem__(self, event: int) -> "Cells":
        """Return the cells of one event."""
        return replace(self, sums=self.sums[:, event])

    def __iter__(self) -> Iterator["Cells"]:
        return (self[event] for event in range(self.n_events))

    def pooled(self) -> "Cells":
        """Return the cells of all events together: every pair of a row and an event counts."""
        return replace(self, sums=self.sums.sum(axis=1)) if self.n_events else self

    def binned(self, bins: int | ArrayLike) -> "Cells":
        """Return the sums over wider cells; exact where their edges are among these."""
        edges = edges_of(bins)
        starts = np.searchsorted(self.edges, edges)[:-1]
        return Cells(np.add.reduceat(self.sums, starts, axis=-1), edges, self.is_counted)

    def equal_mass(self, n_bins: int = 15) -> "Cells":
        r"""Return the sums over bins of equal mass, for one event.

        Sizes differ by at most one, larger ones first. The rows of a cell count as tied: a cell
        that crosses a boundary gives each side its share of the sums. The result is exact where
        no cell that is cut holds two different probabilities; otherwise its ECE is off by at
        most :math:`\sum_c \frac{m_c}{2N}(1 + w_c)` over the cells that are cut, :math:`m_c` rows
        in a width of :math:`w_c`. So equal-mass errors are streamed in bounded memory: keep
        ``Cells.of(..., bins=log_odds_edges())``, add, and cut at the end.
        """
        check_n_bins(n_bins)
        filled = self.weight > 0
        if not filled.any():
            return Cells.empty(bins=n_bins)
        sums, last = split_equal_mass(self.sums[:, filled], n_bins)
        upper = self.edges[1:][filled][last]
        edges = np.concatenate([[0.0], upper[:-1], [1.0]])
        return Cells(sums, edges, self.is_counted)

    def _field(self, name: str) -> Floats:
        sums: Floats = self.sums[FIELDS.index(name)]
        return sums

    @property
    def weight(self) -> Floats:
        """Rows of each cell, or the sum of their weights."""
        return self._field("weight")

    @property
    def probability(self) -> Floats:
        """Sum of the probabilities of each cell."""
        return self._field("probability")

    @property
    def outcome(self) -> Floats:
        """Sum of the outcomes of each cell."""
        return self._field("outcome")

    @property
    def hits(self) -> Floats:
        """Sum of probability times outcome."""
        return self._field("hits")

    @property
    def square(self) -> Floats:
        """Sum of the squared probabilities."""
        return self._field("square")

    @property
    def rows(self) -> Floats:
        """Number of rows, repeated ones included."""
        return self._field("weight" if self.is_counted else "rows")

    @property
    def spread(self) -> Floats:
        """Sum of the squared weights; of repeated rows, their number."""
        return self._field("weight" if self.is_counted else "spread")

    @property
    def n_rows(self) -> int:
        """Number of rows as they came, repeated ones counted once."""
        return round(float(self._field("rows").sum()))

    @property
    def n_bins(self) -> int:
        """Number of cells, empty ones included."""
        return len(self.edges) - 1

    @property
    def n(self) -> int:
        """Number of rows, or the sum of their weights, rounded."""
        return round(float(self.weight.sum()))

    @property
    def confidence(self) -> Floats:
        """Mean probability of each cell, nan where it is empty."""
        return self._mean(self.probability)

    @property
    def accuracy(self) -> Floats:
        """Mean outcome of each cell, nan where it is empty."""
        return self._mean(self.outcome)

    @property
    def gap(self) -> Floats:
        """Mean probability minus mean outcome: positive where overconfident, nan where empty."""
        return self._mean(self.probability - self.outcome)

    def _mean(self, total: Floats) -> Floats:
        return divided(total, self.weight, np.nan)

    @property
    def _total(self) -> Floats:
        """Weight of each event, nan where it has no rows."""
        total = np.asarray(self.weight.sum(axis=-1))
        return np.where(total > 0, total, np.nan)

    def ece(self, norm: Norm = "l1") -> Any:
        """Return the calibration error, a float or ``[E]``; see `focalibrate.metrics.ece`."""
        check_choice(norm, ("l1", "l2", "max"), name="norm")
        if norm == "l1":
            off = np.abs(self.probability - self.outcome).sum(axis=-1)
            return _plain(off / self._total)
        gap = np.nan_to_num(np.abs(self.gap))
        if norm == "max":
            return _plain(np.where(self._total > 0, gap.max(axis=-1), np.nan))
        return _plain(np.sqrt((self.weight * gap**2).sum(axis=-1) / self._total))

    def debiased_square(self) -> Any:
        """Return the squared l2 error without the noise of the cells; it can be negative."""
        # with repeated rows pairs / spread is n - 1
        pairs = self.weight**2 - self.spread
        several = pairs > 1e-9 * self.weight**2
        noise = divided(self.spread, pairs, above=1e-9 * self.weight**2)
        accuracy = np.nan_to_num(self.accuracy)
        excess = np.nan_to_num(self.gap) ** 2 - accuracy * (1.0 - accuracy) * noise
        return _plain((self.weight * excess * several).sum(axis=-1) / self._total)

    def debiased_ece(self) -> Any:
        """Return the debiased l2 error; see `focalibrate.metrics.debiased_ece`."""
        return _plain(np.sqrt(np.maximum(self.debiased_square(), 0.0)))

    def smooth_ece(self) -> float:
        """Return smooth ECE of one event, hits and misses of a cell each at their mean."""
        sides = (
            (self.outcome, self.hits, self.hits - self.outcome),
            (self.weight - self.outcome, *2 * (self.probability - self.hits,)),
        )
        total = float(self.weight.sum())
        at, mass = [], []
        for count, probability, residual in sides:
            filled = count > 1e-12 * total
            at.append(np.clip(probability[filled] / count[filled], 0.0, 1.0))
            mass.append(residual[filled] / total)
        return smooth_ece_of_residuals(np.concatenate(at), np.concatenate(mass))

    def residuals(self) -> Residuals:
        r"""Return the filled cells of one event for inference, their rows tied at their mean.

        Rows of a cell of width :math:`w` are off their mean by less than :math:`w`, which changes
        a sum of squares by less than :math:`w^2/4` per row.
        """
        happened = self._field("outcome" if self.is_counted else "spread_outcome")
        given = (self.rows, self.weight, self.spread, self.probability, self.outcome)
        filled = self.weight > 0
        rows, weight, spread, probability, outcome = (x[filled] for x in given)
        mean = np.clip(probability / weight, 0.0, 1.0)
        hit_mean = divided(self.hits[filled], outcome)
        square = spread * mean**2 + happened[filled] * (1.0 - 2.0 * hit_mean)
        variance = spread * mean * (1.0 - mean)
        return Residuals(
            rows, weight, spread, probability, outcome, np.maximum(square, 0.0), variance
        )


def _plain(value: Any) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def sorted_rows(
    value: Floats, outcome: NDArray[Any], weights: Floats | None
) -> tuple[Floats, Floats, Floats | None]:
    """Return the three sorted by `value`.

    Without weights a boolean outcome is sorted as one more bit of the value, as sorting numbers
    is five times as fast as finding their order.
    """
    if weights is not None or outcome.dtype != np.bool_:
        order = np.argsort(value, kind="stable")
        y = outcome[order].astype(np.float64)
        return value[order], y, None if weights is None else weights[order]
    packed = (value + 0.0).view(np.int64) << 1 | outcome  # bits of [0, 1] rise with the value
    packed.sort()
    return (packed >> 1).view(np.float64), (packed & 1).astype(np.float64), None


def _row_values(c: Floats, y: Floats, weights: Floats | None) -> Floats:
    """Return what each row adds to the sums, ``[8, N]``."""
    one = np.ones(len(c))
    w = one if weights is None else weights
    return np.stack([w, w * c, w * c * c, one, w * w, w * y, w * c * y, w * w * y])


def row_sums(at: Ints, c: Floats, outcome: NDArray[Any], weights: Floats | None, n: int) -> Floats:
    """Return the sums ``[8, n]`` of rows by their place `at`; nothing is checked.

    Rows without weights are sorted by cell and outcome at once: three passes instead of five.
    """
    if weights is None and outcome.dtype == np.bool_:
        twice = 2 * at
        twice += outcome
        rows = np.bincount(twice, minlength=2 * n).reshape(n, 2).astype(np.float64)
        sums = np.bincount(twice, c, 2 * n).reshape(n, 2)
        squares, count, hits = np.bincount(at, c * c, n), rows.sum(axis=1), rows[:, 1]
        return np.stack([count, sums.sum(axis=1), squares, count, count, hits, sums[:, 1], hits])
    values = _row_values(c, outcome.astype(np.float64, copy=False), weights)
    return np.stack([np.bincount(at, x, n) for x in values]).astype(np.float64, copy=False)


def class_cells(
    rows: NDArray[Any],
    labels: Ints,
    cell_of: FineIndex,
    weights: Floats | None,
    *,
    copies: bool | None = None,
) -> Cells:
    """Return the cells of every class of checked rows ``[N, K]``."""
    builder = ClassCells(rows.shape[1], cell_of, is_counted=counts_rows(weights, copies))
    for part in row_chunks(*rows.shape):
        chunk = rows[part].astype(np.float64, copy=False)
        builder.add(chunk, labels[part], None if weights is None else weights[part], axis=1)
    return builder.result()


@final
class ClassCells:
    """The cells of every class, from chunks of rows.

    Most entries of a softmax lie in the first cell: the others are sorted into theirs, and the
    first gets what the totals of the classes leave. Entries wait until there are more than
    cells, so that adding to all cells costs little per row.
    """

    def __init__(self, n_classes: int, cell_of: FineIndex, *, is_counted: bool) -> None:
        """Prepare sums over the cells of an index."""
        self._cell_of, self._is_counted = cell_of, is_counted
        self._n_cells = len(cell_of.edges) - 1
        self._sums = np.zeros((len(FIELDS), n_classes * self._n_cells))
        self._totals = np.zeros((5, n_classes))
        self._waiting: list[tuple[Any, ...]] = []
        self._n_waiting = 0

    def add(self, probs: Floats, labels: Ints, weights: Floats | None, axis: int) -> None:
        """Take in a chunk of rows.

        Args:
            probs: ``[K, N]`` for `axis` 0, else ``[N, K]``.
            labels: class indices ``[N]``.
            weights: ``[N]``, of all chunks or of none.
            axis: of the classes.
        """
        n, letters = len(labels), "kn" if axis == 0 else "nk"
        hit = np.flatnonzero(probs > self._cell_of.edges[1])
        first, second = np.divmod(hit, probs.shape[1])
        column, row = (first, second) if axis == 0 else (second, first)
        p = np.minimum(probs.reshape(-1)[hit], 1.0)
        at = (labels, np.arange(n)) if axis == 0 else (np.arange(n), labels)
        own = np.minimum(probs[at], 1.0)
        cell = column * self._n_cells + self._cell_of(p)
        own_cell = labels * self._n_cells + self._cell_of(own)
        w = None if weights is None else weights[row]
        self._waiting.append((cell, p, own_cell, own, w, weights))
        self._n_waiting += len(cell)
        if weights is None:  # no BLAS, whose threads spin
            mass = spread = float(n)
            total, square = (
                probs.sum(axis=1 - axis),
                np.einsum(f"{letters},{letters}->k", *2 * (probs,)),
            )
        else:
            mass, spread = float(weights.sum()), float(weights @ weights)
            table = probs if axis == 0 else probs.T
            total, square = table @ weights, (table * table) @ weights
        for sums, x in zip(self._totals, (mass, total, square, n, spread), strict=True):
            sums += x
        if self._n_waiting > self._sums.shape[1]:
            self._sort()

    def _sort(self) -> None:
        """Add the entries that wait to their cells."""
        columns = list(zip(*self._waiting, strict=True))
        self._waiting, self._n_waiting = [], 0
        cell, p, own_cell, own = (np.concatenate(x) for x in columns[:4])
        n = self._sums.shape[1]
        found: list[NDArray[Any]]
        if columns[4][0] is None:
            count, hits = np.bincount(cell, minlength=n), np.bincount(own_cell, minlength=n)
            c, square = np.bincount(cell, p, n), np.bincount(cell, p * p, n)
            found = [count, c, square, count, count, hits, np.bincount(own_cell, own, n), hits]
        else:
            w, v = np.concatenate(columns[4]), np.concatenate(columns[5])
            found = [np.bincount(cell, x, n) for x in (w, w * p, w * p * p, None, w * w)]
            found += [np.bincount(own_cell, x, n) for x in (v, v * own, v * v)]
        for sums, x in zip(self._sums, found, strict=True):
            sums += x

    def result(self) -> Cells:
        """Return the cells of all rows, one event per class."""
        if self._waiting:
            self._sort()
        sums = self._sums.reshape(len(FIELDS), -1, self._n_cells)
        # a difference of sums, which rounding can make negative
        sums[:5, :, 0] = np.maximum(self._totals - sums[:5, :, 1:].sum(axis=2), 0.0)
        return Cells(sums, self._cell_of.edges, self._is_counted)
