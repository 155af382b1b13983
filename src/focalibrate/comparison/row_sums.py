"""Sums over evaluated rows, for all methods at once; those of several workers are merged."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator, TopScorer, TopTerms, available_cores, form_of
from focalibrate.comparison.grouped_scores import GroupedScores
from focalibrate.comparison.row_scores import BLOCK_ENTRIES
from focalibrate.metrics import Sketch
from focalibrate.metrics.sketch import MAX_CLASSWISE

FittedMethods = Mapping[str, tuple[Calibrator, ...]]
"""Of each method: its calibrator, then those of the folds, if rows are evaluated by fold."""

N_GROUPS = 20_000
"""Random groups of rows whose sums are kept: as many as a bootstrap of rows resamples."""


@dataclass(frozen=True)
class JudgedBatch:
    """Some rows to evaluate on.

    Attributes:
        logits: ``[n, K]``, or more rows, of which `rows` are meant; in float16 too.
        labels: class indices ``[n]``.
        group: random group of each row ``[n]``, below `N_GROUPS`; it follows from the row, not
            from the batch.
        weights: ``[n]``, or None.
        groups: columns to group the verdicts by.
        fold: which of a method's `fold_calibrators` they are evaluated by; None: its calibrator.
        rows: positions in `logits` of the rows ``[n]``, or None for all.
    """

    logits: NDArray[Any]
    labels: NDArray[np.intp]
    group: NDArray[np.intp]
    weights: Floats | None = None
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    fold: int | None = None
    rows: NDArray[np.intp] | None = None


class MethodSums:
    """Sums over the rows seen so far, for one method.

    Attributes:
        sums: of log loss, Brier score, hits and confidence, by group ``[4, N_GROUPS]``.
        n_zeros: rows with an infinite log loss.
        n_changed: rows whose predicted class the method changed.
        sketch: of all rows; None before the first.
    """

    def __init__(self) -> None:
        self.sums = np.zeros((4, N_GROUPS))
        self.n_zeros = 0
        self.n_changed = 0
        self.sketch: Sketch | None = None

    def add(
        self,
        calibrator: Calibrator,
        batch: JudgedBatch,
        raw: NDArray[np.intp] | None,
        n_bins: int,
        groups: Mapping[str, NDArray[Any]] | None,
    ) -> NDArray[np.intp]:
        """Add a batch and return its predictions; `raw` are those of the uncalibrated model."""
        log_probs = np.asarray(calibrator.log_probs(batch.logits))
        probs = np.exp(log_probs)
        at = np.arange(len(batch.labels))
        top: NDArray[np.intp] = probs.argmax(axis=1)
        p_true = probs[at, batch.labels].astype(np.float64)
        squares = np.einsum("nk,nk->n", probs, probs, dtype=np.float64)
        nll = -log_probs[at, batch.labels].astype(np.float64)
        brier = np.maximum(squares - 2.0 * p_true + 1.0, 0.0)
        confidence = np.minimum(probs[at, top], 1.0).astype(np.float64)
        made = Sketch.of(
            log_probs=log_probs,
            labels=batch.labels,
            sample_weight=batch.weights,
            groups=groups,
            n_bins=n_bins,
        )
        self._add(batch, (nll, brier, top == batch.labels, confidence), made)
        if raw is not None:
            self.n_changed += int((top != raw).sum())
        return top

    def add_terms(
        self,
        batch: JudgedBatch,
        terms: TopTerms,
        n_bins: int,
        groups: Mapping[str, NDArray[Any]] | None,
    ) -> None:
        """Add a batch by what a `TopScorer` found; predictions are those of the model."""
        is_right = terms.top == batch.labels
        made = Sketch.of_terms(
            confidence=terms.confidence,
            correct=is_right,
            nll=terms.nll,
            brier=terms.brier,
            positive=None,
            n_classes=batch.logits.shape[1],
            weights=batch.weights,
            groups=groups,
            n_bins=n_bins,
        )
        self._add(batch, (terms.nll, terms.brier, is_right, terms.confidence), made)

    def _add(self, batch: JudgedBatch, rows: tuple[NDArray[Any], ...], made: Sketch) -> None:
        for sums, values in zip(self.sums, rows, strict=True):
            weighted = values if batch.weights is None else values * batch.weights
            sums += np.bincount(batch.group, weighted, minlength=N_GROUPS)
        self.n_zeros += int(np.isinf(rows[0]).sum())
        self.sketch = made if self.sketch is None else self.sketch + made

    def merge(self, other: "MethodSums") -> None:
        """Add the sums over other rows."""
        self.sums += other.sums
        self.n_zeros += other.n_zeros
        self.n_changed += other.n_changed
        if other.sketch is not None:
            self.sketch = other.sketch if self.sketch is None else self.sketch + other.sketch

    def scores(self, mass: Floats, seed: int) -> GroupedScores:
        """Return the scores; `mass` are the weights of the groups."""
        if self.sketch is None:
            raise ValueError("`batches` must hold at least one row, got none.")
        filled = mass > 0
        nll, brier, correct, confidence = self.sums[:, filled] / mass[filled]
        found = self.sketch.evaluate(seed=seed, n_draws=19).errors
        return GroupedScores(
            nll=nll,
            brier=brier,
            error=1.0 - correct,
            confidence=confidence,
            correct=correct,
            calibration=dict(found),
            n_zeros=self.n_zeros,
            sketch=self.sketch,
        )


@dataclass(eq=False)
class JudgedSums:
    """Sums over evaluated rows.

    Attributes:
        methods: by name.
        n_rows: rows.
        mass: weight of each group ``[N_GROUPS]``.
    """

    methods: dict[str, MethodSums]
    n_rows: int = 0
    mass: Floats = field(default_factory=lambda: np.zeros(N_GROUPS))

    def merge(self, other: "JudgedSums") -> None:
        """Add the sums over other rows."""
        self.n_rows += other.n_rows
        self.mass += other.mass
        for method, sums in self.methods.items():
            sums.merge(other.methods[method])


def judged_sums(
    fitted: FittedMethods, batches: Iterable[JudgedBatch], *, n_classes: int, n_bins: int
) -> JudgedSums:
    """Return the sums over the rows of `batches`, in one pass for all methods.

    Args:
        fitted: the calibrators of each method.
        batches: the rows.
        n_classes: number of classes.
        n_bins: bins of the binned errors.
    """
    found = JudgedSums({method: MethodSums() for method in fitted})

    def grouped(method: str, batch: JudgedBatch) -> Mapping[str, NDArray[Any]] | None:
        return batch.groups if method == "identity" and batch.groups else None

    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(available_cores()))
        scorers: dict[int | None, tuple[TopScorer, list[str]]] = {}
        for batch in _ahead(batches):
            found.n_rows += len(batch.labels)
            found.mass += np.bincount(batch.group, batch.weights, minlength=N_GROUPS)
            used = {method: _of_fold(those, batch.fold) for method, those in fitted.items()}
            if batch.fold not in scorers:
                scorers[batch.fold] = _scorer(used, n_classes)
                stack.enter_context(scorers[batch.fold][0])
            scorer, wide = scorers[batch.fold]
            found_terms = scorer.terms(batch.logits, batch.labels, batch.rows) if wide else []
            for method, terms in zip(wide, found_terms, strict=True):
                found.methods[method].add_terms(batch, terms, n_bins, grouped(method, batch))
            rest = [method for method in fitted if method not in wide]
            for part in _small(batch) if rest else ():

                def add(
                    method: str,
                    raw: NDArray[np.intp] | None = None,
                    part: JudgedBatch = part,
                    used: Mapping[str, Calibrator] = used,
                ) -> NDArray[np.intp]:
                    groups = grouped(method, part)
                    return found.methods[method].add(used[method], part, raw, n_bins, groups)

                raw = part.logits.argmax(axis=1) if wide else add(rest[0])
                others = rest if wide else rest[1:]
                for added in [threads.submit(add, method, raw) for method in others]:
                    added.result()
    return found


def _of_fold(calibrators: tuple[Calibrator, ...], fold: int | None) -> Calibrator:
    return calibrators[0 if fold is None else 1 + fold]


def _ahead(batches: Iterable[JudgedBatch]) -> Iterator[JudgedBatch]:
    """Yield the batches; the next one is read in a thread while one is worked on."""
    source = iter(batches)
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, source, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, source, None)
            yield batch


def _scorer(used: Mapping[str, Calibrator], n_classes: int) -> tuple[TopScorer, list[str]]:
    """Return a scorer and the methods that it is for: none where there are few classes."""
    wide = [method for method, calibrator in used.items() if form_of(calibrator) is not None]
    scorer = TopScorer([used[method] for method in wide])
    can_score = n_classes > MAX_CLASSWISE and scorer.can_score
    return scorer, wide if can_score else []


def _small(batch: JudgedBatch) -> Iterator[JudgedBatch]:
    """Yield parts small enough for a method's copies of them to need little memory."""
    step = max(1, 4 * BLOCK_ENTRIES // batch.logits.shape[1])
    for start in range(0, len(batch.labels), step):
        part = slice(start, start + step)
        logits = batch.logits[part if batch.rows is None else batch.rows[part]]
        yield JudgedBatch(
            logits.astype(np.float32) if logits.dtype == np.float16 else logits,
            batch.labels[part],
            batch.group[part],
            None if batch.weights is None else batch.weights[part],
            {name: values[part] for name, values in batch.groups.items()},
            batch.fold,
        )
