"""Scores of fitted methods on any number of rows, from one pass over batches of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.rows import BLOCK_ENTRIES, available_cores
from focalibrate.comparison.result import Scores
from focalibrate.metrics import Cells, Sketch
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.sketch import row_terms
from focalibrate.metrics.smooth import smooth_ece_of_rows

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
    step = max(1, 4 * BLOCK_ENTRIES // batch.logits.shape[1])
    for start in range(0, len(batch.labels), step):
        part = slice(start, start + step)
        logits = batch.logits[part]
        yield Batch(
            logits.astype(np.float32) if logits.dtype == np.float16 else logits,
            batch.labels[part],
            batch.unit[part],
            None if batch.weights is None else batch.weights[part],
            {name: values[part] for name, values in batch.groups.items()},
        )
