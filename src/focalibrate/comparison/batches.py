"""Evaluate fitted methods on any number of rows, in one pass for all of them."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator, TopScorer, TopTerms, available_cores, form_of
from focalibrate.comparison.grouped_scores import GroupedScores
from focalibrate.comparison.result import Comparison, MethodResult, scores_of_methods
from focalibrate.comparison.row_scores import BLOCK_ENTRIES
from focalibrate.metrics import Sketch
from focalibrate.metrics.sketch import MAX_CLASSWISE

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


class _Sums:
    """Sums over the rows seen so far, for one method."""

    def __init__(self, row: MethodResult) -> None:
        self.row = row
        self.sums = np.zeros((4, N_GROUPS))  # log loss, Brier score, hits, confidence
        self.n_zeros = 0
        self.n_changed = 0
        self.sketch: Sketch | None = None

    def add(
        self,
        batch: JudgedBatch,
        raw: NDArray[np.intp] | None,
        n_bins: int,
        groups: Mapping[str, NDArray[Any]] | None,
    ) -> NDArray[np.intp]:
        """Add a batch and return its predictions; `raw` are those of the uncalibrated model."""
        log_probs = np.asarray(self.calibrator(batch.fold).log_probs(batch.logits))
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

    def calibrator(self, fold: int | None) -> Calibrator:
        """Return the calibrator that evaluates the rows of a fold."""
        return self.row.calibrator if fold is None else self.row.fold_calibrators[fold]

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

    def scores(self, mass: Floats, seed: int) -> GroupedScores:
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


def judge_batches(comparison: Comparison, batches: Iterable[JudgedBatch]) -> Comparison:
    """Return the comparison with every method evaluated on the rows of `batches` instead.

    One pass over the rows for all methods; memory does not depend on their number.

    Args:
        comparison: methods fitted on other rows, with a test set: nothing is refitted.
        batches: the rows.

    Returns:
        The comparison with `GroupedScores` in place of scores per row. Binned errors are exact,
        adaptive and smooth ECE within the bounds of `focalibrate.metrics.Sketch`. With more than
        20,000 classes, temperature and focal temperature are evaluated by a `TopScorer`.
    """
    if comparison.folds:
        raise ValueError("`comparison` must have a test set, but is cross-validated.")
    sums = {row.method: _Sums(row) for row in comparison.rows}
    mass = np.zeros(N_GROUPS)
    n_rows = 0

    def grouped(method: str, batch: JudgedBatch) -> Mapping[str, NDArray[Any]] | None:
        return batch.groups if method == "identity" and batch.groups else None

    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(available_cores()))
        scorers: dict[int | None, tuple[TopScorer, list[str]]] = {}
        for batch in _ahead(batches):
            n_rows += len(batch.labels)
            mass += np.bincount(batch.group, batch.weights, minlength=N_GROUPS)
            if batch.fold not in scorers:
                scorers[batch.fold] = _scorer(sums, batch.fold, comparison.n_classes)
                stack.enter_context(scorers[batch.fold][0])
            scorer, wide = scorers[batch.fold]
            found_terms = scorer.terms(batch.logits, batch.labels, batch.rows) if wide else []
            for method, terms in zip(wide, found_terms, strict=True):
                sums[method].add_terms(batch, terms, comparison.n_bins, grouped(method, batch))
            rest = [method for method in sums if method not in wide]
            for part in _small(batch) if rest else ():

                def add(
                    method: str, raw: NDArray[np.intp] | None = None, part: JudgedBatch = part
                ) -> NDArray[np.intp]:
                    groups = grouped(method, part)
                    return sums[method].add(part, raw, comparison.n_bins, groups)

                raw = part.logits.argmax(axis=1) if wide else add(rest[0])
                others = rest if wide else rest[1:]
                for added in [threads.submit(add, method, raw) for method in others]:
                    added.result()
    scores = {method: found.scores(mass, comparison.seed) for method, found in sums.items()}
    # Relative to their mean: whole numbers would be read as copies of one row, and the standard
    # errors of group means would be too small by the root of the rows in a group.
    weights = mass[mass > 0] / mass[mass > 0].mean()
    return replace(
        comparison,
        model_nll=None,
        pool_scores=None,
        rows=_results(comparison, scores, sums, weights),
        n_judged=n_rows,
        weights=weights,
    )


def _ahead(batches: Iterable[JudgedBatch]) -> Iterator[JudgedBatch]:
    """Yield the batches; the next one is read in a thread while one is worked on."""
    source = iter(batches)
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, source, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, source, None)
            yield batch


def _scorer(
    sums: Mapping[str, _Sums], fold: int | None, n_classes: int
) -> tuple[TopScorer, list[str]]:
    """Return a scorer and the methods that it is for: none where there are few classes."""
    wide = [m for m, found in sums.items() if form_of(found.calibrator(fold)) is not None]
    scorer = TopScorer([sums[method].calibrator(fold) for method in wide])
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


def _results(
    comparison: Comparison,
    scores: Mapping[str, GroupedScores],
    sums: Mapping[str, _Sums],
    weights: Floats,
) -> tuple[MethodResult, ...]:
    found = scores_of_methods(
        scores, weights, n_resamples=comparison.n_resamples, seed=comparison.seed
    )
    return tuple(
        replace(row, n_predictions_changed=sums[row.method].n_changed, **found[row.method])
        for row in comparison.rows
    )
