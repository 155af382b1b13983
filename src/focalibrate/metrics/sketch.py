"""Sketch: a mergeable summary of predictions, from which calibration is evaluated."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_count, check_n_bins, is_whole
from focalibrate.metrics._cell_sums import (
    GroupColumn,
    added,
    cell_sums,
    row_values,
    table_of_sums,
)
from focalibrate.metrics._class_cells import by_bin
from focalibrate.metrics._class_sums import added_classes, table_of_class
from focalibrate.metrics._fine_index import fine_edges, fine_index
from focalibrate.metrics._rows import read_weights
from focalibrate.metrics._score_sums import score_sums, total_sums
from focalibrate.metrics._sketch_input import read_given, read_groups
from focalibrate.metrics._sketch_rows import Given, row_terms
from focalibrate.metrics.classwise import ClasswiseTable
from focalibrate.metrics.corp import Corp, corp_of_table
from focalibrate.metrics.reliability_table import ReliabilityTable

if TYPE_CHECKING:
    from focalibrate.metrics.bounds import BoundOptions, ErrorBounds
    from focalibrate.metrics.sketch_evaluation import SketchEvaluation

N_CELLS = 4096
MAX_CLASSWISE = 20_000
"""Up to this many classes, sums by class are kept: above 1,024 classes 480 bytes per class."""


@dataclass(frozen=True, eq=False)
class Sketch:
    r"""A summary of predictions whose size does not grow with them, and which can be added.

    Rows are gathered in about 4,100 cells that are equally wide in log-odds of the
    confidence; each keeps the number of rows and of hits, and the sum of confidences of both.
    Beside them: coarser cells of the probability of every class, the sums of log loss, Brier score
    and error with their squares and cubes, and the cells of every group. ``+`` merges the sketches
    of batches, files, workers and days; sums by class that one of them lacks are left out.

    For two classes, cells of the probability of class 1 are kept too.

    Attributes:
        n_classes: number of classes K.
        n_bins: bins of the binned errors.
        top: sums over the cells of the top label, shape ``[F, C]``: weight, confidence, hits,
            confidence of the hits; with weights also rows, squared weights, and squared weights
            of the hits.
        positive: the same for the probability of class 1; None unless there are two classes.
        classes: sums by class and cell ``[F, K, C]``; None for more than 20,000 classes, or where
            they were not wanted. Up to 128 classes have 512 cells equally wide in log-odds, 1,024
            classes 64; more have the `n_bins` bins.
        scores: sums of log loss, Brier score and error ``[3, 8]``, of their squares and cubes, and
            of these times powers of the weights: `MOMENTS`.
        totals: rows, sums of weights, of their squares and cubes, weight of confident rows, and of
            those that are right, ``[6]``.
        n_zeros: rows with probability 0 at their label, which `scores` leave out.
        is_whole: every weight so far was a whole number, that is, counts repeated rows.
        groups: the cells of every group, by column.

    Numerics:
        Counts are exact up to 2**53, so in any order and in batches of any size they are the
        same. Sums are float64: their order changes the last bits, about 1e-16 of them per
        merge. See `evaluate` for what follows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> logits = 2 * rng.normal(size=(3000, 5))
        >>> labels = (logits / 1.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        >>> days = [Sketch.of(logits=logits[i::3], labels=labels[i::3]) for i in range(3)]
        >>> week = days[0] + days[1] + days[2]
        >>> week.n, week.evaluate().assessment.direction
        (3000, 'overconfident')
    """

    n_classes: int
    n_bins: int
    top: Floats = field(repr=False)
    positive: Floats | None = field(repr=False)
    classes: Floats | None = field(repr=False)
    scores: Floats = field(repr=False)
    totals: Floats = field(repr=False)
    n_zeros: int
    is_whole: bool
    groups: Mapping[str, GroupColumn] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        probs: Array | None = None,
        labels: Array | None = None,
        *,
        log_probs: Array | None = None,
        logits: Array | None = None,
        sample_weight: Array | None = None,
        groups: Array | Mapping[str, Array] | None = None,
        n_bins: int = 15,
    ) -> Self:
        """Return the sketch of some rows.

        Args:
            probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
            labels: class indices ``[N]``.
            log_probs: their logarithms ``[N, K]`` instead.
            logits: scores before the softmax ``[N, K]`` instead; the fastest.
            sample_weight: weights ``[N]``. Whole numbers count repeated rows.
            groups: which group each row belongs to ``[N]``, or several such columns by name.
            n_bins: bins of ECE, MCE and classwise ECE, which are exact for this number.
        """
        check_n_bins(n_bins)
        given, scores, y = read_given(probs, log_probs, logits, labels)
        n = len(y)
        w = read_weights(sample_weight, n)
        columns = read_groups(groups, n)
        if w is not None and not w.all():
            kept = w > 0
            scores, y, w = scores[kept], y[kept], w[kept]
            columns = {name: values[kept] for name, values in columns.items()}
        return cls.of_rows(scores, y, given=given, weights=w, groups=columns, n_bins=n_bins)

    @classmethod
    def of_rows(
        cls,
        scores: NDArray[Any],
        labels: NDArray[Any],
        *,
        given: Given,
        weights: Floats | None = None,
        groups: Mapping[str, NDArray[Any]] | None = None,
        n_bins: int = 15,
        classwise: bool = True,
    ) -> Self:
        """Return the sketch of NumPy rows that are known to be good; nothing is checked."""
        k = scores.shape[1]
        rows = row_terms(
            scores,
            labels,
            given=given,
            weights=weights,
            n_bins=n_bins,
            classwise=classwise and k <= MAX_CLASSWISE,
        )
        return cls.of_terms(
            n_classes=k,
            confidence=rows.confidence,
            correct=rows.correct,
            nll=rows.nll,
            brier=rows.brier,
            positive=None if rows.positive is None else (rows.positive, labels == 1),
            classes=rows.classes,
            weights=weights,
            groups=groups,
            n_bins=n_bins,
        )

    @classmethod
    def of_terms(
        cls,
        *,
        n_classes: int,
        confidence: Floats,
        correct: NDArray[np.bool_],
        nll: Floats,
        brier: Floats,
        positive: tuple[Floats, NDArray[np.bool_]] | None,
        classes: Floats | None = None,
        weights: Floats | None = None,
        groups: Mapping[str, NDArray[Any]] | None = None,
        n_bins: int = 15,
    ) -> Self:
        """Return the sketch of rows whose terms are known, in float64; nothing is checked.

        Args:
            n_classes: number of classes.
            confidence: probability of the predicted class ``[N]``.
            correct: whether that is the label ``[N]``.
            nll: log loss ``[N]``, infinite for an impossible label.
            brier: Brier score ``[N]``.
            positive: for two classes, the probability of class 1 and whether it is the label.
            classes: sums by class and cell.
            weights: ``[N]``, all above 0.
            groups: columns of groups ``[N]`` by name.
            n_bins: bins of the binned errors.
        """
        w, cell_of, n_cells = weights, fine_index(N_CELLS, n_bins), n_cells_of(n_bins)
        event = confidence, correct
        cell = cell_of(confidence)
        top, of_positive = cell_sums(cell, *event, w, n_cells), None
        if positive is not None:
            event, cell = positive, cell_of(positive[0])
            of_positive = cell_sums(cell, *event, w, n_cells)
        values = row_values(*event, w) if groups else np.empty((0, 0))
        scores, n_zeros = score_sums(nll, brier, correct, w)
        return cls(
            n_classes=n_classes,
            n_bins=n_bins,
            top=top,
            positive=of_positive,
            classes=classes,
            scores=scores,
            totals=total_sums(confidence, correct, w),
            n_zeros=n_zeros,
            is_whole=w is None or is_whole(w),
            groups={
                name: GroupColumn.of(name, column, cell, values, n_cells)
                for name, column in (groups or {}).items()
            },
        )

    def __add__(self, other: Self) -> Self:
        self._check_like(other)
        classes = None
        if self.classes is not None and other.classes is not None:
            classes = added_classes(self.classes, other.classes)
        return type(self)(
            n_classes=self.n_classes,
            n_bins=self.n_bins,
            top=added(self.top, other.top),
            positive=None
            if self.positive is None or other.positive is None
            else added(self.positive, other.positive),
            classes=classes,
            scores=self.scores + other.scores,
            totals=self.totals + other.totals,
            n_zeros=self.n_zeros + other.n_zeros,
            is_whole=self.is_whole and other.is_whole,
            groups={
                name: column.merged(other.groups[name], name, self.top.shape[1])
                for name, column in self.groups.items()
            },
        )

    def merge(self, *others: Self) -> Self:
        """Return this sketch and `others` added from left to right."""
        return reduce(add, others, self)

    @classmethod
    def merged(cls, sketches: Iterable[Self]) -> Self:
        """Return all the sketches added in the order given; there must be at least one.

        Two are held at a time: of a generator, memory does not grow with their number.
        """
        parts = iter(sketches)
        first = next(parts, None)
        if first is None:
            raise ValueError("`sketches` must be at least one to merge, got none.")
        return reduce(add, parts, first)

    def _check_like(self, other: Self) -> None:
        mine, theirs = (
            {"classes": s.n_classes, "bins": s.n_bins, "group columns": tuple(sorted(s.groups))}
            for s in (self, other)
        )
        for what, value in mine.items():
            if value != theirs[what]:
                raise ValueError(
                    f"sketches must have the same {what} to be merged, got {value} and "
                    f"{theirs[what]}. Build both with the same options."
                )

    @property
    def n(self) -> int:
        """Number of rows, repeated ones included where weights are whole."""
        return round(float(self.totals[1 if self.is_whole else 0]))

    @property
    def edges(self) -> Floats:
        """Edges of the cells, shape ``[C + 1]``."""
        return fine_edges(N_CELLS, self.n_bins)

    @property
    def cells(self) -> ReliabilityTable:
        """The cells of the top label as a table."""
        return table_of_sums(self.top, self.edges, is_whole=self.is_whole)

    @property
    def positive_cells(self) -> ReliabilityTable:
        """The cells of the probability of class 1 of two classes, as a table."""
        if self.positive is None:
            raise ValueError(
                f"cells of class 1 are kept for two classes, not for {self.n_classes}."
            )
        return table_of_sums(self.positive, self.edges, is_whole=self.is_whole)

    @property
    def table(self) -> ReliabilityTable:
        """The reliability table of `n_bins` equally wide bins; exact, no cell crosses a bin."""
        limits = np.arange(self.n_bins + 1) / self.n_bins
        starts = np.searchsorted(self.edges, limits)[:-1]
        sums = np.add.reduceat(self.top, starts, axis=1)
        return table_of_sums(sums, limits, is_whole=self.is_whole)

    @property
    def classwise_table(self) -> ClasswiseTable | None:
        """The table of every class, None where sums by class were not kept."""
        if self.classes is None:
            return None
        count, total, label = by_bin(self.classes[:3], self.n_classes, self.n_bins)
        return ClasswiseTable(count, total, label)

    def class_cells(self, event: int) -> ReliabilityTable:
        """Return the cells of the probability of one class, as a table."""
        check_count(event, name="event", minimum=0)
        if event >= self.n_classes:
            raise ValueError(f"`event` must be a class below {self.n_classes}, got {event}.")
        if self.positive is not None and event == 1:
            return self.positive_cells
        if self.classes is None:
            raise ValueError(
                f"sums by class are kept for up to {MAX_CLASSWISE:,} classes, where they are "
                f"wanted; this sketch of {self.n_classes:,} classes has none."
            )
        return table_of_class(self.classes, event, self.n_bins, is_whole=self.is_whole)

    def corp(
        self,
        *,
        event: int | Literal["top label"] = "top label",
        n_draws: int = 199,
        seed: int | np.random.Generator = 0,
    ) -> Corp:
        """Return the isotonic reliability curve of an event, and the decomposition of its scores.

        On cells; see `focalibrate.metrics.corp_of_table`. Those of a class are coarser than those
        of the top label: see `classes`.

        Args:
            event: ``"top label"`` (the prediction is right), or a class.
            n_draws: outcomes drawn for the band; 0 for none.
            seed: random seed of the draws, or a `numpy.random.Generator`.
        """
        check_count(n_draws, name="n_draws", minimum=0)
        if event == "top label":
            return corp_of_table(self.cells, n_draws=n_draws, seed=seed)
        table, name = self.class_cells(event), f"class {event}"
        return corp_of_table(table, event=name, n_draws=n_draws, seed=seed)

    def evaluate(
        self, *, seed: int | np.random.Generator = 0, n_draws: int = 999
    ) -> "SketchEvaluation":
        """Return scores, calibration errors and the verdict; see `SketchEvaluation`."""
        from focalibrate.metrics.sketch_evaluation import evaluate_sketch

        return evaluate_sketch(self, seed=seed, n_draws=n_draws)

    def bounds(
        self, *, group: tuple[str, int] | None = None, **options: Unpack["BoundOptions"]
    ) -> "ErrorBounds":
        """Return bounds of the calibration error, as `calibration_bounds` does of rows.

        Args:
            group: of this column, the group of this position among its names; None: all rows.
            options: ``error``, ``limit``, ``alpha``, ``alpha_high`` and ``seed``.
        """
        from focalibrate.metrics.sketch_evaluation import bounds_of_sketch

        return bounds_of_sketch(self, group, options)


def n_cells_of(n_bins: int) -> int:
    """Return how many cells a sketch has; those that a bin's edge cuts are two."""
    return len(fine_edges(N_CELLS, n_bins)) - 1
