"""Sketch: a mergeable summary of predictions, from which calibration is evaluated."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_count, check_n_bins
from focalibrate.metrics.assessment import Assessment, TestedClass, assess_cells
from focalibrate.metrics.binning import (
    FineIndex,
    Ints,
    equal_mass_ends,
    equal_width_edges,
    index_of,
    log_odds_edges,
)
from focalibrate.metrics.cells import FIELDS, Cells, ClassCells, row_sums
from focalibrate.metrics.corp import Corp, corp_of_cells
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.groups import GroupAssessment, assess_members
from focalibrate.metrics.interval import Interval, Moments, counts_rows
from focalibrate.metrics.noise_floor import classwise_floor
from focalibrate.metrics.null import generator
from focalibrate.metrics.residuals import Residuals
from focalibrate.metrics.rows import (
    COLUMN_LOOP_MAX,
    Event,
    EventKind,
    Given,
    most_frequent,
    read,
    read_groups,
    read_weights,
    renumbered,
    row_chunks,
    top_label,
    top_of_columns,
)
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.metrics.smooth import GRID, MIN_WIDTHS

SCORES: Mapping[str, float] = {"nll": math.inf, "brier": 2.0, "error": 1.0}
"""the scores, and what none of them exceeds"""
CONFIDENT = 0.99
"""Least confidence that counts as confident (S99)."""
N_CELLS = 4096
MAX_CLASSWISE = 20_000
"""Up to this many classes, sums by class are kept: above 1,024 classes 600 bytes per class."""
MOST_CLASS_CELLS = 512
"""of one class: 1/16 wide in log-odds"""
LEAST_CLASS_CELLS = 64
"""of one class; if there is not room for this many, there are only bins"""
ALL_CLASS_CELLS = 1 << 16
"""of all classes together, about: 40 bytes each"""
SMALLEST = 1.0 / 128.0
"""Probabilities of a class below share a cell; with more than 32 classes, below 1 / (4 K)."""
MAX_GROUPS = 10_000
"""A column with more values than this holds names of rows rather than of groups."""
MAX_CLUSTERS = 100_000
"""More clusters than this are not kept by a sketch."""
MAX_CLUSTERED_ROWS = 2_000_000
"""With clusters, outcomes are drawn row by row: more rows would take minutes."""
CLUSTER_CELLS = 64
"""of the sums of a cluster, equally wide in log-odds"""


@lru_cache(maxsize=8)
def fine_index(n_bins: int) -> FineIndex:
    """Return the cells of the top label: the edges of bins and of log-odds, each once."""
    return FineIndex(np.union1d(log_odds_edges(N_CELLS), equal_width_edges(n_bins)))


@lru_cache(maxsize=8)
def class_index(n_classes: int, n_bins: int) -> FineIndex:
    """Return the cells of a class, with those of `n_bins` equally wide bins among their edges.

    Example:
        >>> [len(class_index(k, 15).edges) for k in (2, 128, 1000, 1025)]
        [349, 371, 64, 16]
    """
    edges, room = equal_width_edges(n_bins), ALL_CLASS_CELLS // n_classes
    if room >= LEAST_CLASS_CELLS:
        fine = log_odds_edges(min(MOST_CLASS_CELLS, 1 << (room.bit_length() - 1)))
        edges = np.union1d(edges, fine[fine >= min(SMALLEST, 0.25 / n_classes)])
    return FineIndex(edges)


@dataclass(frozen=True, eq=False)
class RowTerms:
    """Rows as a sketch sums them, in float64."""

    n_classes: int
    confidence: Floats
    """of the predicted class"""
    correct: NDArray[np.bool_]
    nll: Floats
    """infinite for an impossible label"""
    brier: Floats
    positive: tuple[Floats, NDArray[np.bool_]] | None
    """of two classes: P(class 1), and whether it is the label"""
    classes: Cells | None
    """of every class, where they are wanted"""
    weights: Floats | None
    """all above 0"""
    copies: bool | None
    """whether weights count rows; None: where all are whole"""


def row_terms(
    scores: NDArray[Any],
    labels: Ints,
    *,
    given: Given,
    weights: Floats | None = None,
    copies: bool | None = False,
    n_bins: int = 15,
    classwise: bool = True,
) -> RowTerms:
    """Return the terms of checked scores ``[N, K]`` and labels ``[N]``.

    Numerics:
        Exponentials are taken in the dtype of the scores, everything after in float64. Logits
        in float32 give odds that are right to 1e-6 of themselves. The Brier score of a row is
        formed without cancellation, also where the label's probability is almost 1.
    """
    n, k = scores.shape
    confidence, nll, brier = np.empty((3, n))
    correct = np.empty(n, dtype=np.bool_)
    positive = np.empty(n) if k == 2 else None
    classes = None
    if classwise and k <= MAX_CLASSWISE:
        classes = ClassCells(k, class_index(k, n_bins), is_counted=counts_rows(weights, copies))
    axis = 0 if k <= COLUMN_LOOP_MAX else 1
    for part in row_chunks(n, k):
        chunk, y = scores[part], labels[part]
        at = (y, np.arange(len(y))) if axis == 0 else (np.arange(len(y)), y)
        table = np.ascontiguousarray(chunk.T) if axis == 0 else chunk
        probs, nll[part] = _probs_and_nll(table, at, given, axis)
        top, correct[part] = top_of_columns(probs, y) if axis == 0 else top_label(probs, y)
        confidence[part] = np.minimum(top, 1.0)
        if positive is not None:
            positive[part] = np.clip(probs[1], 0.0, 1.0)
        if classes is not None:
            classes.add(probs, y, None if weights is None else weights[part], axis)
        off = probs.copy()
        off[at] -= 1.0  # `squares - 2 p + 1` would cancel where p is almost 1
        brier[part] = np.einsum("kn,kn->n" if axis == 0 else "nk,nk->n", off, off)
    of_positive = None if positive is None else (positive, labels == 1)
    of_classes = None if classes is None else classes.result()
    return RowTerms(k, confidence, correct, nll, brier, of_positive, of_classes, weights, copies)


def _probs_and_nll(
    table: NDArray[Any], at: tuple[Any, Any], given: Given, axis: int
) -> tuple[Floats, Floats]:
    if given == "probs":
        probs = table.astype(np.float64, copy=False)
        with np.errstate(divide="ignore"):
            return probs, -np.log(probs[at])
    if given == "log_probs":
        return np.exp(table).astype(np.float64, copy=False), -table[at].astype(np.float64)
    shifted = table - table.max(axis=axis, keepdims=True)
    probs = np.exp(shifted).astype(np.float64, copy=False)
    total = probs.sum(axis=axis, keepdims=True)
    probs /= total
    return probs, np.log(total.reshape(-1)) - shifted[at].astype(np.float64)


@dataclass(frozen=True, eq=False)
class NamedCells:
    """The cells of many named events, groups or clusters; only filled cells are stored."""

    names: tuple[str, ...]
    """sorted as text"""
    at: Ints
    """position of the name times number of cells plus cell, ascending, shape ``[M]``"""
    sums: Floats
    """as in `Cells`, shape ``[8, M]``"""
    edges: Floats
    is_counted: bool = True

    @classmethod
    def of(
        cls,
        values: NDArray[Any],
        cell: Ints,
        probability: Floats,
        outcome: NDArray[Any],
        edges: Floats,
        weights: Floats | None,
        *,
        copies: bool | None = None,
    ) -> "NamedCells":
        """Return the sums of rows by the names `values` ``[N]`` and by `cell`."""
        found, name = np.unique(values.astype(str), return_inverse=True)
        at, compact = np.unique(name.reshape(-1) * (len(edges) - 1) + cell, return_inverse=True)
        sums = row_sums(compact.reshape(-1), probability, outcome, weights, len(at))
        return cls(tuple(found.tolist()), at, sums, edges, counts_rows(weights, copies))

    def __add__(self, other: "NamedCells") -> "NamedCells":
        names = sorted({*self.names, *other.names})
        place = {text: i for i, text in enumerate(names)}
        n_cells, sides = len(self.edges) - 1, (self, other)
        places = []
        for side in sides:
            moved = np.array([place[text] for text in side.names], dtype=np.intp)
            name, cell = np.divmod(side.at, n_cells)
            places.append(moved[name] * n_cells + cell)
        at = np.union1d(*places)
        sums = np.zeros((len(FIELDS), len(at)))
        for side, side_at in zip(sides, places, strict=True):
            sums[:, np.searchsorted(at, side_at)] += side.sums
        is_counted = self.is_counted and other.is_counted
        return NamedCells(tuple(names), at, sums, self.edges, is_counted)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> Cells:
        """Return the cells of one name."""
        n_cells = len(self.edges) - 1
        low, high = np.searchsorted(self.at, [number * n_cells, (number + 1) * n_cells])
        sums = np.zeros((len(self.sums), n_cells))
        sums[:, self.at[low:high] - number * n_cells] = self.sums[:, low:high]
        return Cells(sums, self.edges, self.is_counted)

    def in_order(self) -> list[int]:
        """Return the positions of the names, by value where all are numbers, else by name."""
        try:
            values = [float(name) for name in self.names]
        except ValueError:
            return list(range(len(self.names)))
        return sorted(range(len(values)), key=lambda i: (values[i] != values[i], values[i]))


@dataclass(frozen=True, eq=False)
class Sketch:
    r"""A summary of predictions whose size does not grow with them, and which can be added.

    Rows are gathered in about 4,100 `Cells` that are equally wide in log-odds of the confidence.
    Beside them: coarser cells of the probability of every class, the `Moments` of log loss, Brier
    score and error, and the cells of every group and cluster. ``+`` merges the sketches of
    batches, files, workers and days; sums by class that one of them lacks are left out.

    Attributes:
        n_classes: number of classes K.
        n_bins: bins of the binned errors.
        top: cells of the top label.
        positive: the same for the probability of class 1; None unless there are two classes.
        classes: cells of every class; None for more than 20,000 classes, or where they were not
            wanted. Up to 128 classes have 512 cells equally wide in log-odds, 1,024 classes 64;
            more have the `n_bins` bins.
        scores: of log loss ``"nll"``, Brier score ``"brier"`` and ``"error"``.
        confident: weight of the rows with a confidence of at least 0.99, and of those that are
            right, ``[2]``.
        groups: the cells of every group, by column.
        clusters: of P(class 1) for two classes, else of the top label, in 64 cells per cluster;
            None where rows have no clusters.

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
    top: Cells = field(repr=False)
    positive: Cells | None = field(repr=False)
    classes: Cells | None = field(repr=False)
    scores: Mapping[str, Moments] = field(repr=False)
    confident: Floats = field(repr=False)
    groups: Mapping[str, NamedCells] = field(default_factory=dict, repr=False)
    clusters: NamedCells | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, column in self.groups.items():
            if len(column) > MAX_GROUPS:
                raise ValueError(
                    f"`groups`: column {name!r} has more than {MAX_GROUPS:,} distinct values, "
                    f"such as {column.names[0]!r} and {column.names[1]!r}. Group by a column with "
                    "fewer, or cut numbers into ranges first."
                )
        if self.clusters is not None and len(self.clusters) > MAX_CLUSTERS:
            raise ValueError(
                f"`cluster` has more than {MAX_CLUSTERS:,} distinct values, which a sketch cannot "
                "keep. Evaluate the rows themselves, or use a coarser cluster."
            )

    @classmethod
    def of(
        cls,
        probs: Array | None = None,
        labels: Array | None = None,
        *,
        log_probs: Array | None = None,
        logits: Array | None = None,
        sample_weight: Array | None = None,
        copies: bool = False,
        groups: Array | Mapping[str, Array] | None = None,
        cluster: Array | None = None,
        n_bins: int = 15,
    ) -> Self:
        """Return the sketch of some rows.

        Args:
            probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
            labels: class indices ``[N]``.
            log_probs: their logarithms ``[N, K]`` instead.
            logits: scores before the softmax ``[N, K]`` instead; the fastest.
            sample_weight: weights ``[N]``, how much each row counts.
            copies: whether weights are numbers of identical, independent rows instead.
            groups: which group each row belongs to ``[N]``, or several such columns by name.
            cluster: which rows belong together ``[N]``: tries of one question, boxes of one
                image. At most 100,000, and not together with groups.
            n_bins: bins of ECE, MCE and classwise ECE, which are exact for this number.
        """
        check_n_bins(n_bins)
        arrays: dict[Given, Array | None]
        arrays = {"probs": probs, "log_probs": log_probs, "logits": logits}
        named = {name: value for name, value in arrays.items() if value is not None}
        if len(named) != 1 or labels is None:
            raise ValueError(
                "`Sketch.of` takes `labels` and exactly one of `probs`, `log_probs` and `logits`, "
                f"got {', '.join(named) or 'none of them'}"
                f"{'' if labels is not None else ', no `labels`'}."
            )
        ((given, found),) = named.items()
        is_binary = given == "probs" and np.ndim(found) == 1
        scores, y = read(found, labels, given=given, binary=is_binary)
        w = read_weights(sample_weight, len(y))
        columns = read_groups(groups, len(y))
        clustered = {} if cluster is None else {"cluster": cluster}
        clusters = read_groups(clustered, len(y)).get("cluster")
        if w is not None and not w.all():
            kept = w > 0
            scores, y, w = scores[kept], y[kept], w[kept]
            columns = {name: values[kept] for name, values in columns.items()}
            clusters = None if clusters is None else clusters[kept]
        terms = row_terms(scores, y, given=given, weights=w, copies=copies, n_bins=n_bins)
        return cls.of_terms(terms, groups=columns, clusters=clusters, n_bins=n_bins)

    @classmethod
    def of_terms(
        cls,
        terms: RowTerms,
        *,
        groups: Mapping[str, NDArray[Any]] | None = None,
        clusters: NDArray[Any] | None = None,
        n_bins: int = 15,
    ) -> Self:
        """Return the sketch of rows whose terms are known; nothing is checked."""
        if groups and clusters is not None:
            raise ValueError(
                "a sketch keeps sums by group or by cluster, not by both. Pass `groups` or "
                "`cluster`, or assess the rows themselves with `assess_groups`."
            )
        w, copies, cell_of = terms.weights, terms.copies, fine_index(n_bins)
        edges, event = cell_of.edges, (terms.confidence, terms.correct)
        cell = cell_of(terms.confidence)
        top, positive = Cells.of_index(cell, *event, edges, w, copies=copies), None
        if terms.positive is not None:
            event, cell = terms.positive, cell_of(terms.positive[0])
            positive = Cells.of_index(cell, *event, edges, w, copies=copies)
        columns = {
            name: NamedCells.of(column, cell, *event, edges, w, copies=copies)
            for name, column in (groups or {}).items()
        }
        by_cluster = None
        if clusters is not None:
            coarse = log_odds_edges(CLUSTER_CELLS)
            wide = index_of(event[0], coarse)
            by_cluster = NamedCells.of(clusters, wide, *event, coarse, w, copies=copies)
        is_sure = terms.confidence >= CONFIDENT
        sure = np.bincount(terms.correct[is_sure], None if w is None else w[is_sure], minlength=2)
        error = (~terms.correct).astype(np.float64)
        scores = {"nll": terms.nll, "brier": terms.brier, "error": error}
        return cls(
            n_classes=terms.n_classes,
            n_bins=n_bins,
            top=top,
            positive=positive,
            classes=terms.classes,
            scores={name: Moments.of(x, w, copies=copies) for name, x in scores.items()},
            confident=np.array([sure.sum(), sure[1]], dtype=np.float64),
            groups=columns,
            clusters=by_cluster,
        )

    def __add__(self, other: Self) -> Self:
        self._check_like(other)
        return type(self)(
            n_classes=self.n_classes,
            n_bins=self.n_bins,
            top=self.top + other.top,
            positive=_sum(self.positive, other.positive),
            classes=_sum(self.classes, other.classes),
            scores={name: x + other.scores[name] for name, x in self.scores.items()},
            confident=self.confident + other.confident,
            groups={name: column + other.groups[name] for name, column in self.groups.items()},
            clusters=_sum(self.clusters, other.clusters),
        )

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
        kinds = ("classes", "bins", "group columns", "kind of rows (with clusters or without)")
        mine, theirs = (
            (s.n_classes, s.n_bins, tuple(sorted(s.groups)), s.clusters is not None)
            for s in (self, other)
        )
        for what, own, found in zip(kinds, mine, theirs, strict=True):
            if own != found:
                raise ValueError(
                    f"sketches must have the same {what} to be merged, got {own} and {found}. "
                    "Build both with the same options."
                )

    @property
    def n(self) -> int:
        """Number of rows, repeated ones included where weights are whole."""
        return self.scores["error"].n

    @property
    def n_zeros(self) -> int:
        """Rows with probability 0 at their label: with any, the log loss is infinite."""
        return self.scores["nll"].n_infinite

    @property
    def event_cells(self) -> Cells:
        """The cells that the verdict is about: of class 1 of two classes, else the top label."""
        return self.top if self.positive is None else self.positive

    @property
    def _event(self) -> EventKind:
        return "top label" if self.positive is None else "positive class"

    def event_rows(self) -> Residuals:
        """Return fine cells for inference, in order of probability.

        With clusters, a cell is one row of a cluster, at the mean of its rows in a cell.
        """
        if self.clusters is None:
            return self.event_cells.residuals()
        named = self.clusters
        cells = Cells(named.sums, named.edges, named.is_counted)
        size = np.rint(cells.rows).astype(np.intp)
        if size.sum() > MAX_CLUSTERED_ROWS:
            raise ValueError(
                f"the sketch holds {size.sum():,} rows in clusters, whose outcomes must be drawn "
                f"row by row: at most {MAX_CLUSTERED_ROWS:,}. Sketch a sample of the clusters."
            )
        n_right = np.rint(cells.accuracy * size).astype(np.intp)
        within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        return Residuals.of_rows(
            np.repeat(np.clip(cells.confidence, 0.0, 1.0), size),
            within < np.repeat(n_right, size),
            np.repeat(cells.weight / size, size),
            copies=named.is_counted,
            code=renumbered(np.repeat(named.at // (len(named.edges) - 1), size)),
        )

    @property
    def table(self) -> Cells:
        """The cells of `n_bins` equally wide bins; exact, no cell crosses a bin."""
        return self.top.binned(self.n_bins)

    def cells(self, event: Event = "top label") -> Cells:
        """Return the cells of an event: the prediction is right, or the label is this class."""
        if event == "top label":
            return self.top
        check_count(event, name="event", minimum=0)
        if event >= self.n_classes:
            raise ValueError(f"`event` must be a class below {self.n_classes}, got {event}.")
        if self.positive is not None and event == 1:
            return self.positive
        if self.classes is None:
            raise ValueError(
                f"sums by class are kept for up to {MAX_CLASSWISE:,} classes, where they are "
                f"wanted; this sketch of {self.n_classes:,} classes has none."
            )
        return self.classes[event]

    def corp(
        self,
        *,
        event: Event = "top label",
        n_draws: int = 199,
        seed: int | np.random.Generator = 0,
    ) -> Corp:
        """Return the isotonic reliability curve of an event, and the decomposition of its scores.

        On cells; see `focalibrate.metrics.corp.corp_of_cells`. Those of a class are coarser than
        those of the top label: see `classes`.

        Args:
            event: ``"top label"`` (the prediction is right), or a class.
            n_draws: outcomes drawn for the band; 0 for none.
            seed: random seed of the draws, or a `numpy.random.Generator`.
        """
        return corp_of_cells(self.cells(event), event=event, n_draws=n_draws, seed=seed)

    def errors(self) -> dict[MetricName, float]:
        """Return the calibration errors; see `evaluate` for how exact they are."""
        table = self.table
        found: dict[MetricName, float] = {
            "ece": table.ece(),
            "adaptive_ece": self.top.equal_mass(self.n_bins).ece(),
        }
        if self.classes is not None:
            found["classwise_ece"] = float(self.classes.binned(self.n_bins).ece().mean())
        return found | {"smooth_ece": self.top.smooth_ece(), "mce": table.ece("max")}

    def evaluate(
        self,
        *,
        seed: int | np.random.Generator = 0,
        n_draws: int = 1999,
        class_names: Sequence[str] | None = None,
    ) -> "SketchEvaluation":
        r"""Return scores, calibration errors and the verdict, as the metrics and `assess` do.

        Exact, up to the last bits of a sum: number of rows, ECE, MCE, classwise ECE, log loss,
        Brier score, error, gap, S99 and the reliability table. Within `error_bound`:

        - **adaptive ECE**: twice the hits and the confidence that can lie on the wrong side of
          each bin's boundary, over :math:`N`. At most :math:`\sum_c \frac{m_c}{2N}(1 + w_c)`
          over the cells that a boundary cuts, with :math:`m_c` rows in a width of :math:`w_c`.
        - **smooth ECE**: the hits and the misses of a cell are each placed at their mean, so
          only the curvature of the kernel is missed. With :math:`R_c` the sum of the absolute
          residuals in a cell, the value :math:`\sigma` is within

          .. math:: \frac1N \sum_c \frac{w_c^2}{4}\left(\frac{2 R_c}{\sqrt{2\pi e}\,\sigma^2}
                    + \sqrt{\frac2\pi}\,\frac{m_c}{\sigma}\right)

        The test, the RMS error and the noise floors take the rows of a cell as tied at their mean:
        cells are at most 0.2 points wide.

        Args:
            seed: random seed of the draws, or a `numpy.random.Generator`.
            n_draws: outcomes drawn from the predictions, as in `assess`.
            class_names: names of the classes, for the sentences.
        """
        check_count(n_draws, name="n_draws", minimum=19)
        top, rng, errors, classwise = self.top, generator(seed), self.errors(), None
        if self.classes is not None:
            classwise = classwise_floor(self.classes.binned(self.n_bins))
        bound: dict[MetricName, float] = dict.fromkeys(errors, 0.0)
        bound["adaptive_ece"] = _adaptive_bound(top, self.n_bins)
        bound["smooth_ece"] = _smooth_bound(top, errors["smooth_ece"])
        assessment = assess_cells(
            self.event_rows(),
            event=self._event,
            class_name=class_names[1] if class_names and self.n_classes == 2 else None,
            n_classes=self.n_classes,
            classes=_classes(self),
            class_names=class_names,
            classwise=classwise,
            rng=rng,
            n_draws=n_draws,
        )
        members = [
            (name, column.names[i], column[i].residuals())
            for name, column in self.groups.items()
            for i in column.in_order()
        ]
        return SketchEvaluation(
            errors=errors,
            error_bound=bound,
            scores={
                name: self.scores[name].interval(most=most)  # type: ignore[misc]
                for name, most in SCORES.items()
            },
            assessment=assessment,
            groups=assess_members(members, event=self._event, rng=rng),
        )


def _sum(first: Any, second: Any) -> Any:
    return None if first is None or second is None else first + second


GRID_ERROR = 1e-5
"""of `smooth_ece` itself, whose grid is fixed"""


@dataclass(frozen=True, eq=False)
class SketchEvaluation:
    """The scores of a sketched model, whether it is calibrated, and what the cells cost."""

    errors: Mapping[MetricName, float]
    """ECE, adaptive ECE, classwise ECE (absent above 20,000 classes), smooth ECE, MCE"""
    error_bound: Mapping[MetricName, float]
    """how far each of them can be from the value on rows; 0 where it is the same"""
    scores: Mapping[MetricName, Interval]
    """log loss, Brier score and error with normal 95 % intervals"""
    assessment: Assessment
    groups: tuple[GroupAssessment, ...]
    """a verdict per group, where the sketch has groups"""


def confident_of(sketch: Sketch) -> ConfidentFraction:
    """Return the share of confident rows and their accuracy."""
    sure, right = sketch.confident.tolist()
    mass = sketch.scores["error"].weight
    return ConfidentFraction(sure / mass, right / sure if sure else math.nan)


def _classes(sketch: Sketch) -> list[TestedClass]:
    """Return the cells of the 20 most frequent classes of more than two, where they were kept."""
    if sketch.classes is None or sketch.positive is not None:
        return []
    largest = most_frequent(sketch.classes.probability.sum(axis=1))
    return [(k, sketch.classes[k].residuals()) for k in largest]


def _smooth_bound(top: Cells, value: float) -> float:
    square = np.diff(top.edges) ** 2 / 4.0
    absolute = (top.outcome - top.hits) + (top.probability - top.hits)
    sigma = max(value, MIN_WIDTHS / GRID)
    curved = 2.0 / math.sqrt(2.0 * math.pi * math.e) * float(absolute @ square) / sigma**2
    moved = math.sqrt(2.0 / math.pi) * float(top.weight @ square) / sigma
    return (curved + moved) / float(top.weight.sum()) + GRID_ERROR


def _adaptive_bound(cells: Cells, n_bins: int) -> float:
    filled = cells.weight > 0
    count, hits, width = (x[filled] for x in (cells.weight, cells.outcome, np.diff(cells.edges)))
    end = np.cumsum(count)
    total = float(end[-1])
    border = equal_mass_ends(count, total, n_bins)[:-1]
    cell = np.searchsorted(end, border)
    m, h = count[cell], hits[cell]
    below = np.clip(border - (end[cell] - m), 0.0, m)
    shared = below * h / m
    most = np.minimum(below, h) - shared
    least = shared - np.maximum(0.0, h - (m - below))
    moved = np.maximum(most, least) + width[cell] * below * (m - below) / m
    return 2.0 * float(moved.sum()) / total
