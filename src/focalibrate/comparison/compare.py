"""Calibration methods side by side, evaluated on rows that none was fitted on."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_choice, check_count, check_n_bins
from focalibrate.calibrate import (
    METHODS,
    CalibrationWarning,
    Method,
    Part,
    ScoredRows,
    fit_parts,
    read_scores,
)
from focalibrate.comparison.fitted import Fitted
from focalibrate.comparison.paired import PairedMeans, Score
from focalibrate.comparison.pooling import pool_of
from focalibrate.comparison.result import Comparison, MethodResult
from focalibrate.comparison.row_scores import MEANS, RowScores, score_rows
from focalibrate.comparison.selection import selected
from focalibrate.metrics import MetricName


def compare(
    val_logits: Array,
    val_labels: Array,
    test_logits: Array | None = None,
    test_labels: Array | None = None,
    *,
    methods: Sequence[str] | None = None,
    trained_gamma: float | None = None,
    sample_weight: Array | None = None,
    test_weight: Array | None = None,
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece",
    n_bins: int = 15,
    n_folds: int = 5,
    n_resamples: int = 300,
    seed: int = 0,
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
        methods: names of `METHODS`. Default: those marked as default that apply and are fast
            enough for this many rows and classes (`Comparison.left_out` names the others), and
            a pool of them; those that need the training exponent only where `trained_gamma` is
            given.
        trained_gamma: exponent of the focal loss the model was trained with.
        sample_weight: weights of the validation rows ``[N]``; a whole number counts copies of a
            row, rows of weight 0 are dropped.
        test_weight: the same of the test rows.
        criterion: which error the methods marked (ECE) minimise.
        n_bins: bins of the binned metrics and of that criterion.
        n_folds: folds of the cross-validation.
        n_resamples: bootstrap resamples behind the intervals of log loss, Brier score and error.
        seed: random seed of the folds and the resamples.
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
    check_count(n_folds, name="n_folds", minimum=2)
    check_count(n_resamples, name="n_resamples")
    val = _rows(val_logits, val_labels, sample_weight, "val")
    if (test_logits is None) != (test_labels is None):
        raise ValueError(
            "`test_logits` and `test_labels` must be given together. Leave both out to "
            "cross-validate."
        )
    test = None if test_logits is None else _rows(test_logits, test_labels, test_weight, "test")
    if test is not None and test.n_classes != val.n_classes:
        raise ValueError(
            f"`test_logits` must have the {val.n_classes} classes of `val_logits`, got "
            f"{test.n_classes}."
        )
    folds = _folds(val.n_rows, n_folds, seed) if test is None else ()
    names, left_out = selected(methods, trained_gamma, rows=val, n_fits=1 + len(folds))
    shared = _Shared(trained_gamma, criterion, n_bins)
    rows = val if test is None else test
    fits: dict[str, Fitted] = {}
    judged, skipped = [], []
    for name in names:
        if progress is not None:
            progress(METHODS[name].label)
        try:
            if name == "pool" and folds:
                fits[name] = pool_of(fits, val, folds)
            else:
                fits[name] = _fit(name, val, folds, shared)
        except ValueError as error:  # such as a fold that lacks a class
            if methods is not None:
                raise
            skipped.append((name, str(error)))
            continue
        scores = score_rows(
            fits[name].parts(rows.logits, folds), rows.labels, n_bins=n_bins, weights=rows.weights
        )
        judged.append((name, fits[name], scores))
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
    )


def _rows(logits: Array, labels: Array | None, weights: Array | None, which: str) -> ScoredRows:
    try:
        return read_scores(logits, labels, sample_weight=weights)
    except ValueError as error:
        raise ValueError(f"{which}: {error}") from error


def _folds(n: int, n_folds: int, seed: int) -> tuple[NDArray[np.intp], ...]:
    if n < n_folds:
        raise ValueError(
            f"`val_logits` must have at least {n_folds} rows to cross-validate, got {n}. Pass "
            "a test set, or fewer `n_folds`."
        )
    order = np.random.default_rng(seed).permutation(n)
    return tuple(np.sort(part) for part in np.array_split(order, n_folds))


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


def _fit(
    name: str, rows: ScoredRows, folds: Sequence[NDArray[np.intp]], shared: _Shared
) -> Fitted:
    every = np.arange(rows.n_rows)
    parts: list[Part] = [slice(None)]
    parts += [np.setdiff1d(every, fold, assume_unique=True) for fold in folds]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        whole, *others = fit_parts(name, rows, parts, **shared.options(METHODS[name]))
    return Fitted(whole, tuple(others), tuple(str(w.message) for w in caught))


def _results(
    judged: Sequence[tuple[str, Fitted, RowScores]],
    weights: NDArray[np.float64] | None,
    *,
    n_resamples: int,
    seed: int,
) -> tuple[MethodResult, ...]:
    values = np.concatenate([scores.means() for _, _, scores in judged], axis=1)
    paired = PairedMeans.of(values, weights=weights, n_resamples=n_resamples, seed=seed)
    place = {name: len(MEANS) * i for i, (name, _, _) in enumerate(judged)}
    raw = judged[0][2]

    def differences(name: str, other: str) -> dict[MetricName, Score]:
        a, b = place[name], place[other]
        return {m: paired.difference(a + i, b + i) for i, m in enumerate(MEANS)}

    return tuple(
        MethodResult(
            method=name,
            label=METHODS[name].label,
            complexity=METHODS[name].complexity,
            calibrator=fitted.whole,
            fold_calibrators=fitted.without_fold,
            scores={m: Score(v) for m, v in scores.calibration.items()}
            | {m: paired.interval(place[name] + i).clipped(m) for i, m in enumerate(MEANS)},
            to_raw=differences(name, "identity"),
            to_temperature=differences(name, "temperature") if "temperature" in place else None,
            n_predictions_changed=int((scores.predictions != raw.predictions).sum()),
            row_scores=scores,
            notes=fitted.notes,
        )
        for name, fitted, scores in judged
    )
