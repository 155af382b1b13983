"""What a comparison of methods found, and scores of fitted methods from batches of rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import METHODS, Calibrator
from focalibrate.calibrate.choice import FitSettings, Fitted
from focalibrate.calibrate.rows import BLOCK_ENTRIES, available_cores
from focalibrate.comparison.paired import Score
from focalibrate.metrics import Cells, Sketch
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.rows import row_chunks
from focalibrate.metrics.sketch import row_terms
from focalibrate.metrics.smooth import smooth_ece_of_rows

MEANS: tuple[MetricName, ...] = ("nll", "brier", "error")
"""Scores that are means over examples: they have intervals and paired differences."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one method, by unit: a row, or a random group of rows where there are many.

    Means of random groups, weighted by their size, are as independent as rows are: means,
    standard errors and bootstraps over them are those over rows, in memory that does not grow.
    """

    nll: Floats
    """mean log loss of each unit ``[U]``"""
    brier: Floats
    confidence: Floats
    correct: Floats
    """share of right predictions of each unit ``[U]``"""
    second: Floats
    """share of predictions of the second class of each unit ``[U]``"""
    calibration: dict[MetricName, float]
    """ECE and its relatives, of all rows"""
    n_zeros: int
    """examples with probability 0 at their true class"""
    table: Cells = field(repr=False)
    """reliability table of all rows"""
    sketch: Sketch = field(repr=False)
    """of all rows"""
    are_rows: bool = True
    """whether every unit is one row"""
    n_changed: int = 0
    """rows whose predicted class the calibrator to deploy changes"""

    @property
    def positive(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Of two classes and units that are rows: P(second class), and whether it is true."""
        is_second = self.second > 0.5
        probability = np.where(is_second, self.confidence, 1.0 - self.confidence)
        return probability, (self.correct > 0.5) == is_second

    def means(self) -> Floats:
        """Return what `MEANS` average, ``[U, 3]``."""
        return np.stack([self.nll, self.brier, 1.0 - self.correct], axis=1)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One method: its calibrator, fitted on all rows, and its scores on held-out rows."""

    method: str
    label: str
    """the name that is shown"""
    fitted: Fitted
    """on all validation rows, and without each fold unless there is a test set"""
    scores: dict[MetricName, Score]
    """log loss, Brier score and error with 95 % intervals; calibration errors without"""
    to_raw: dict[MetricName, Score]
    """difference to the uncalibrated model, paired by row; negative is better"""
    to_temperature: dict[MetricName, Score] | None
    """difference to temperature scaling by log loss, if that was compared"""
    n_predictions_changed: int
    """by `calibrator`, on the rows evaluated"""
    units: Scores
    """per row, or random group of rows, on held-out rows"""
    why_not: str = ""
    """why the method cannot be chosen; empty if it can be"""

    @property
    def complexity(self) -> int:
        """Lower is simpler."""
        return METHODS[self.method].complexity

    @property
    def calibrator(self) -> Calibrator:
        """The one fitted on all validation rows, to deploy."""
        return self.fitted.whole

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fit on all validation rows warned of."""
        return self.fitted.notes


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side on the same examples."""

    rows: tuple[MethodResult, ...]
    skipped: tuple[tuple[str, str], ...]
    """methods that could not be fitted, and why"""
    left_out: tuple[tuple[str, str], ...]
    """default methods that were not tried, and why; name them in `methods` to include them"""
    settings: FitSettings
    """what the fits were told"""
    n_fitted: int
    n_judged: int
    n_classes: int
    n_resamples: int
    seed: int
    folds: tuple[NDArray[np.intp], ...] = ()
    """the rows that each fold holds out; empty where there is a test set"""
    weights: NDArray[np.float64] | None = None
    """of the rows evaluated ``[N]``"""
    cluster: NDArray[np.intp] | None = None
    """number of the cluster of each row evaluated ``[N]``; None where rows are independent"""
    sole_member: str | None = None
    """the only method with a weight in the average, which then has no row of its own"""

    @property
    def judged_on(self) -> Literal["test", "cross-fit"]:
        """Whether the rows that were fitted on were cross-validated."""
        return "cross-fit" if self.folds else "test"

    @property
    def n_folds(self) -> int:
        """Number of folds, 0 where there is a test set."""
        return len(self.folds)

    def row(self, method: str) -> MethodResult:
        """Return the row of `method`."""
        for row in self.rows:
            if row.method == method:
                return row
        known = ", ".join(row.method for row in self.rows)
        raise ValueError(f"`method` must be one of those compared, {known}; got {method!r}.")

    @cached_property
    def fold_of_row(self) -> NDArray[np.intp]:
        """The fold that holds out each row ``[N]``; all 0 where there is a test set."""
        found = np.zeros(self.n_judged, dtype=np.intp)
        for number, rows in enumerate(self.folds):
            found[rows] = number
        return found

    def held_out_probs(
        self, method: str, logits: NDArray[Any], index: Any = slice(None)
    ) -> NDArray[Any]:
        """Return the probabilities that `method` was judged by, from its kept calibrators.

        The probabilities of a row come from a calibrator that was not fitted on it.

        Args:
            method: a method of this comparison.
            logits: all the rows judged, or those that are kept of them, ``[N, K]``.
            index: which of them to return; default: all.
        """
        rows = logits[index]
        fold = self.fold_of_row[: len(logits)][index]
        folds = tuple(np.flatnonzero(fold == number) for number in range(self.n_folds))
        probs = np.empty(rows.shape, dtype=np.result_type(rows.dtype, np.float32))
        for at, log_probs in self.row(method).fitted.held_out(rows, folds):
            probs[at] = np.exp(log_probs)
        return probs


N_UNITS = 20_000
"""Random groups of rows whose sums are kept where there are more rows: as many as a bootstrap of
rows resamples."""


@dataclass(frozen=True)
class Batch:
    """Some rows to evaluate on.

    Attributes:
        logits: ``[n, K]``, in float16 too.
        labels: class indices ``[n]``.
        unit: which sum each row is part of ``[n]``: its own, or a random group of rows, below
            `N_UNITS`, that follows from the row and not from the batch.
        weights: ``[n]``, or None.
        groups: columns to group the verdicts by.
    """

    logits: NDArray[Any]
    labels: NDArray[np.intp]
    unit: NDArray[np.intp]
    weights: Floats | None = None
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def _look(
    log_probs: NDArray[Any],
    labels: NDArray[np.intp],
    weights: Floats | None,
    n_bins: int,
    groups: Mapping[str, NDArray[Any]] | None = None,
) -> tuple[Floats, Sketch]:
    """Return what `Sums` adds up of each row ``[5, n]``, and a sketch."""
    terms = row_terms(log_probs, labels, given="log_probs", weights=weights, n_bins=n_bins)
    second = np.zeros(len(labels)) if terms.positive is None else terms.positive[0] > 0.5
    values = np.array([terms.nll, terms.brier, terms.correct, terms.confidence, second])
    return values, Sketch.of_terms(terms, groups=groups, n_bins=n_bins)


class Sums:
    """Sums over the rows seen so far, for one method; those of several workers are merged.

    Attributes:
        sums: of log loss, Brier score, hits, confidence and predictions of class 1, by unit
            ``[5, U]``.
        mass: weight of each unit ``[U]``.
        n_rows: rows.
        n_zeros: rows with an infinite log loss.
        n_changed: rows whose predicted class the method changed.
        sketch: of all rows; None before the first.
    """

    def __init__(self, n_units: int) -> None:
        self.sums, self.mass = np.zeros((5, n_units)), np.zeros(n_units)
        self.n_rows = self.n_zeros = self.n_changed = 0
        self.sketch: Sketch | None = None

    def add(self, values: Floats, sketch: Sketch, unit: Any, weights: Floats | None) -> None:
        """Add a few rows of these units."""
        np.add.at(self.mass, unit, 1.0 if weights is None else weights)
        for sums, column in zip(self.sums, values, strict=True):
            np.add.at(sums, unit, column if weights is None else column * weights)
        self.n_rows += values.shape[1]
        self.n_zeros += int(np.isinf(values[0]).sum())
        self.sketch = sketch if self.sketch is None else self.sketch + sketch

    def merge(self, other: "Sums") -> None:
        """Add the sums over other rows."""
        self.sums += other.sums
        self.mass += other.mass
        self.n_rows += other.n_rows
        self.n_zeros += other.n_zeros
        self.n_changed += other.n_changed
        if other.sketch is not None:
            self.sketch = other.sketch if self.sketch is None else self.sketch + other.sketch

    def scores(self, n_bins: int, *, by_row: bool) -> Scores:
        """Return the scores.

        Args:
            n_bins: bins of the binned errors.
            by_row: whether every unit is one row; then all calibration errors are exact, else
                adaptive and smooth ECE are within the bounds of `focalibrate.metrics.Sketch`.
        """
        if self.sketch is None:
            raise ValueError("`batches` must hold at least one row, got none.")
        mass, filled = self.mass, self.mass > 0
        nll, brier, correct, confidence, second = self.sums[:, filled] / mass[filled]
        found: dict[MetricName, float]
        if by_row:
            weights = None if (mass == 1.0).all() else mass[filled]
            hits, classes = correct > 0.5, self.sketch.classes
            table = Cells.of(confidence, hits, bins=n_bins, sample_weight=weights)
            found = {
                "ece": table.ece(),
                "adaptive_ece": Cells.of_equal_mass(confidence, hits, n_bins, weights).ece(),
                "smooth_ece": smooth_ece_of_rows(confidence, hits, weights),
                "mce": table.ece("max"),
            }
            if classes is not None:
                found["classwise_ece"] = float(classes.binned(n_bins).ece().mean())
        else:
            table = self.sketch.table
            found = self.sketch.errors()
        return Scores(
            nll=nll,
            brier=brier,
            confidence=confidence,
            correct=correct,
            second=second,
            calibration=found,
            n_zeros=self.n_zeros,
            table=table,
            sketch=self.sketch,
            are_rows=by_row,
            n_changed=self.n_changed,
        )


def score_rows(
    parts: Iterable[tuple[Any, NDArray[Any] | Callable[[], NDArray[Any]]]],
    labels: NDArray[np.intp],
    *,
    n_bins: int,
    weights: Floats | None = None,
    probs_out: NDArray[Any] | None = None,
    n_threads: int = 1,
) -> Scores:
    """Return the scores of rows, each its own unit, from log-probabilities that come in parts.

    Args:
        parts: pairs of which rows (indices or a slice) and their log-probabilities ``[n, K]``,
            or a function that computes these.
        labels: class indices of all rows ``[N]``.
        n_bins: bins of the binned errors.
        weights: one number per row.
        probs_out: array ``[N, K]`` to write the probabilities to, where they are needed again.
        n_threads: parts computed at once; the result does not depend on it.
    """

    def look(part: tuple[Any, NDArray[Any] | Callable[[], NDArray[Any]]]) -> tuple[Any, ...]:
        index, given = part
        log_probs = given() if callable(given) else given
        if probs_out is not None:
            probs_out[index] = np.exp(log_probs)
        some = None if weights is None else weights[index]
        values, sketch = _look(log_probs, labels[index], some, n_bins)
        return values, sketch, index, some

    sums = Sums(len(labels))
    with ThreadPoolExecutor(n_threads) as threads:
        for seen in map(look, parts) if n_threads == 1 else threads.map(look, parts):
            sums.add(*seen)
    return sums.scores(n_bins, by_row=True)


def judge(
    fitted: Mapping[str, Calibrator], batches: Iterable[Batch], *, n_bins: int
) -> dict[str, Sums]:
    """Return the sums over the rows of `batches`, in one pass for all methods.

    Memory does not depend on the number of rows.

    Args:
        fitted: the calibrator of each method, that of the uncalibrated model first.
        batches: the rows.
        n_bins: bins of the binned errors.
    """
    found = {method: Sums(N_UNITS) for method in fitted}
    with ThreadPoolExecutor(available_cores()) as threads:
        for part in (part for batch in _ahead(batches) for part in _small(batch)):
            raw = part.logits.argmax(axis=1)

            def add(method: str, part: Batch = part, raw: NDArray[np.intp] = raw) -> None:
                log_probs = np.asarray(fitted[method].log_probs_of(part.logits))
                groups = part.groups if method == "identity" else None
                values, sketch = _look(log_probs, part.labels, part.weights, n_bins, groups)
                found[method].add(values, sketch, part.unit, part.weights)
                found[method].n_changed += int((log_probs.argmax(axis=1) != raw).sum())

            for added in [threads.submit(add, method) for method in fitted]:
                added.result()
    return found


def _ahead(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches; the next one is read in a thread while one is worked on."""
    source = iter(batches)
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, source, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, source, None)
            yield batch


def _small(batch: Batch) -> Iterator[Batch]:
    """Yield parts small enough for a method's copies of them to need little memory."""
    for part in row_chunks(len(batch.labels), batch.logits.shape[1], 4 * BLOCK_ENTRIES):
        logits = batch.logits[part]
        yield Batch(
            logits.astype(np.float32) if logits.dtype == np.float16 else logits,
            batch.labels[part],
            batch.unit[part],
            None if batch.weights is None else batch.weights[part],
            {name: values[part] for name, values in batch.groups.items()},
        )
