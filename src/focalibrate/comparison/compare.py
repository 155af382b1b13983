"""Calibration methods side by side, evaluated on rows that none was fitted on."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_choice, check_count, check_n_bins
from focalibrate.calibrate import (
    METHODS,
    Method,
    Parts,
    RowIndex,
    ScoredRows,
    available_cores,
    collected_warnings,
    fit_parts,
    read_scores,
    share_temperatures,
)
from focalibrate.calibrate.auto import model_losses
from focalibrate.calibrate.folds import fold_count, stratified_folds
from focalibrate.calibrate.rule import candidates, pool_members
from focalibrate.comparison.fitted import Fitted, own_model
from focalibrate.comparison.pooling import pool_of
from focalibrate.comparison.result import Comparison, MethodResult, scores_of_methods
from focalibrate.comparison.row_scores import BLOCK_ENTRIES, RowScores, score_rows
from focalibrate.comparison.selection import selected

MAX_THREADS = 4
"""Methods fitted at once; each needs memory of its own."""
FEW_ENTRIES = 20_000
"""Fewer logits than this (rows times classes) are fitted without threads."""


def compare(
    val_logits: Array,
    val_labels: Array,
    test_logits: Array | None = None,
    test_labels: Array | None = None,
    *,
    methods: Sequence[str] | None = None,
    also: str | None = None,
    trained_gamma: float | None = None,
    sample_weight: Array | None = None,
    test_weight: Array | None = None,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    n_bins: int = 15,
    n_folds: int | None = None,
    n_resamples: int = 300,
    seed: int = 0,
    zero_mix: float = 0.0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Fit every method on validation rows and evaluate it on held-out ones.

    Args:
        val_logits: real array ``[N, K]``, any library.
        val_labels: class indices ``[N]``.
        test_logits: rows to evaluate on. Without them the validation rows are cross-validated:
            each of `n_folds` parts is evaluated by calibrators fitted on the others, so that no
            example is used both to fit and to evaluate.
        test_labels: class indices of `test_logits`.
        methods: names of `METHODS`; ``"auto"`` means those that the automatic choice is
            made from. Default: those marked as default that apply and are fast
            enough for this many rows and classes (`Comparison.left_out` names the others), and
            a pool of them; those that need the training exponent only where `trained_gamma` is
            given.
        also: a method that is compared in any case, besides `methods`.
        trained_gamma: exponent of the focal loss the model was trained with.
        sample_weight: weights of the validation rows ``[N]``; a whole number counts copies of a
            row, rows of weight 0 are dropped.
        test_weight: the same of the test rows.
        criterion: which error the methods marked (ECE) minimise.
        n_bins: bins of the binned metrics and of that criterion.
        n_folds: folds of the cross-validation. Default: 5, or 3 for more than 60,000 logits.
        n_resamples: bootstrap resamples behind the intervals of log loss, Brier score and error.
        seed: random seed of the folds and the resamples.
        zero_mix: weight of the uniform distribution that was mixed into probabilities with
            zeros (`focalibrate.calibrate.zero_mix_for`). The uncalibrated model is evaluated
            without it.
        progress: called with the label of each method as its fit begins.

    Returns:
        `Comparison`, one row per method. Each calibrator is the one fitted on all validation
        rows, to deploy.

    Numerics:
        Probabilities are computed in blocks and reduced to a few numbers per row, so that memory
        stays small for many classes.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = compare(3 * truth, labels, methods=["identity", "temperature"], n_resamples=50)
        >>> [row.method for row in found.rows]
        ['identity', 'temperature']
        >>> found.row("temperature").to_raw["nll"].high < 0
        True
    """
    check_choice(criterion, ("adaptive_ece", "ece"), name="criterion")
    check_n_bins(n_bins)
    if n_folds is not None:
        check_count(n_folds, name="n_folds", minimum=2)
    check_count(n_resamples, name="n_resamples")
    val, test = _checked_rows(
        (val_logits, val_labels, sample_weight), (test_logits, test_labels, test_weight), zero_mix
    )
    folds = _folds(val, n_folds, seed) if test is None else ()
    names, left_out = selected(methods, trained_gamma, rows=val, n_fits=1 + len(folds), also=also)
    shared = _Shared(trained_gamma, criterion, n_bins)
    rows = val if test is None else test
    parts = _parts(val, folds)
    fits: dict[str, Fitted] = {}
    members = pool_members(val, trained_gamma)
    pool_scores: RowScores | None = None

    def judge(name: str) -> tuple[str, Fitted, RowScores]:
        nonlocal pool_scores
        if progress is not None:
            progress(METHODS[name].label)
        if name == "pool" and folds:
            pool = pool_of(fits, val, folds, members)
            pool_scores = _whole_scores(pool.log_probs, rows, n_bins)
            fits[name] = pool.fitted
        else:
            fits[name] = _fit(name, parts, shared)
        is_mixed = name == "identity" and rows.zero_mix > 0
        shown = own_model(rows.zero_mix, len(folds)) if is_mixed else fits[name]
        held_out = shown.parts(rows.logits, folds)
        scores = score_rows(held_out, rows.labels, n_bins=n_bins, weights=rows.weights)
        return name, shown, scores

    judged, skipped = _each(judge, names, parts, is_strict=methods is not None)
    return Comparison(
        rows=_results(judged, rows.weights, n_resamples=n_resamples, seed=seed),
        skipped=tuple(skipped),
        left_out=left_out,
        judged_on="cross-fit" if test is None else "test",
        criterion=criterion,
        trained_gamma=trained_gamma,
        n_fitted=val.n_rows,
        n_judged=rows.n_rows,
        n_classes=val.n_classes,
        n_bins=n_bins,
        n_resamples=n_resamples,
        seed=seed,
        folds=folds,
        weights=rows.weights,
        candidates=None if methods is not None else (*candidates(val, trained_gamma), "pool"),
        pool_scores=pool_scores,
        model_nll=model_losses(rows),
    )


_Given = tuple[Array | None, Array | None, Array | None]
"""logits, labels and weights"""


def _checked_rows(
    val: _Given, test: _Given, zero_mix: float
) -> tuple[ScoredRows, ScoredRows | None]:
    """Return the rows to fit on, and those to evaluate on if they are given."""
    rows = replace(_rows(val, "val"), zero_mix=zero_mix)
    if (test[0] is None) != (test[1] is None):
        raise ValueError(
            "`test_logits` and `test_labels` must be given together. Leave both out to "
            "cross-validate."
        )
    if test[0] is None:
        return rows, None
    test_rows = replace(_rows(test, "test"), zero_mix=zero_mix)
    if test_rows.n_classes != rows.n_classes:
        raise ValueError(
            f"`test_logits` must have the {rows.n_classes} classes of `val_logits`, got "
            f"{test_rows.n_classes}."
        )
    return rows, test_rows


def _rows(given: _Given, which: str) -> ScoredRows:
    logits, labels, weights = given
    try:
        return read_scores(logits, labels, sample_weight=weights)
    except ValueError as error:
        raise ValueError(f"{which}: {error}") from error


def _whole_scores(log_probs: NDArray[Any], rows: ScoredRows, n_bins: int) -> RowScores:
    step = max(1, BLOCK_ENTRIES // rows.n_classes)
    blocks = [slice(start, start + step) for start in range(0, rows.n_rows, step)]
    parts = ((block, log_probs[block]) for block in blocks)
    return score_rows(parts, rows.labels, n_bins=n_bins, weights=rows.weights)


def _folds(rows: ScoredRows, n_folds: int | None, seed: int) -> tuple[NDArray[np.intp], ...]:
    n = max(2, fold_count(rows)) if n_folds is None else n_folds
    if rows.n_rows < n:
        raise ValueError(
            f"`val_logits` must have at least {n} rows to cross-validate, got {rows.n_rows}. "
            "Pass more rows, a test set, or fewer `n_folds`."
        )
    return stratified_folds(rows, n, seed)


@dataclass(frozen=True)
class _Shared:
    """Options that every fit may need."""

    trained_gamma: float | None
    criterion: str
    n_bins: int

    def options(self, method: Method) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if method.needs_gamma:
            options["gamma"] = self.trained_gamma
        if method.is_by_ece:
            options |= {"criterion": self.criterion, "n_bins": self.n_bins}
        return options


def _parts(rows: ScoredRows, folds: Sequence[NDArray[np.intp]]) -> Parts:
    """Return all rows, then the rows outside of each fold."""
    index: list[RowIndex] = [slice(None)]
    for fold in folds:
        is_kept = np.ones(rows.n_rows, dtype=bool)
        is_kept[fold] = False
        index.append(np.flatnonzero(is_kept))
    return Parts(rows, index)


_Judged = tuple[str, Fitted, RowScores]


def _each(
    judge: Callable[[str], _Judged], names: Sequence[str], parts: Parts, *, is_strict: bool
) -> tuple[list[_Judged], list[tuple[str, str]]]:
    """Return what `judge` returns for each method, and why some could not be judged.

    Methods run side by side on a few threads; none depends on another but the pool, which comes
    last. The results do not depend on the number of threads.
    """
    n_threads = min(available_cores(), MAX_THREADS)
    if parts.rows.logits.size < FEW_ENTRIES:
        n_threads = 1
    with suppress(ValueError):  # each method raises it again
        share_temperatures(parts)
    found: list[_Judged] = []
    failed: list[tuple[str, str]] = []
    first = [name for name in names if name != "pool"]
    with ThreadPoolExecutor(n_threads) as threads:
        for some in (first, [name for name in names if name == "pool"]):
            for name, future in [(name, threads.submit(judge, name)) for name in some]:
                try:
                    found.append(future.result())
                except ValueError as error:  # such as a fold that lacks a class
                    if is_strict:
                        threads.shutdown(cancel_futures=True)
                        raise
                    failed.append((name, str(error)))
    return found, failed


def _fit(name: str, parts: Parts, shared: _Shared) -> Fitted:
    with collected_warnings() as messages:
        whole, *others = fit_parts(name, parts, **shared.options(METHODS[name]))
    # Messages begin with the calibrator's own description; tables name the method.
    own = f"{METHODS[name].label}: "
    return Fitted(whole, tuple(others), tuple(m.removeprefix(own) for m in messages))


def _results(
    judged: Sequence[tuple[str, Fitted, RowScores]],
    weights: NDArray[np.float64] | None,
    *,
    n_resamples: int,
    seed: int,
) -> tuple[MethodResult, ...]:
    by_method = {name: scores for name, _, scores in judged}
    found = scores_of_methods(by_method, weights, n_resamples=n_resamples, seed=seed)
    raw = judged[0][2]
    return tuple(
        MethodResult(
            method=name,
            label=METHODS[name].label,
            complexity=METHODS[name].complexity,
            calibrator=fitted.whole,
            fold_calibrators=fitted.without_fold,
            n_predictions_changed=int((scores.predictions != raw.predictions).sum()),
            notes=fitted.notes,
            **found[name],
        )
        for name, fitted, scores in judged
    )
