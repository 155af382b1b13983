"""Calibration methods side by side, evaluated on rows that none was fitted on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, to_numpy
from focalibrate._check import check_choice, check_count, check_logits, check_n_bins
from focalibrate.calibrate import METHODS, Calibrator
from focalibrate.calibrate.choice import CrossFit, FitSettings, Fitted, check_alpha, cross_fit
from focalibrate.calibrate.methods import AVERAGE, MODEL
from focalibrate.calibrate.rows import Folds, Rows, fold_count, random_folds, read_given
from focalibrate.comparison.judge import Judged, score_rows
from focalibrate.comparison.paired import cluster_numbers
from focalibrate.comparison.result import Comparison, MethodResult, Scores, scores_of_methods
from focalibrate.comparison.selection import Selection, selected

Criterion = Literal["adaptive_ece", "ece"]


def compare_methods(
    val_logits: Array,
    val_labels: Array,
    test_logits: Array | None = None,
    test_labels: Array | None = None,
    *,
    methods: Sequence[str] | None = None,
    also: str | None = None,
    trained_gamma: float | None = None,
    trained_alpha: float | None = None,
    sample_weight: Array | None = None,
    test_weight: Array | None = None,
    cluster: Array | None = None,
    test_cluster: Array | None = None,
    criterion: Criterion = "adaptive_ece",
    n_bins: int = 15,
    n_folds: int | None = None,
    n_resamples: int = 300,
    seed: int = 0,
    zero_mix: float = 0.0,
    options: bool = False,
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
            made from. Default: these, and those marked as default, as far as they apply and are
            fast enough for this many rows and classes (`Comparison.left_out` names the others).
        also: a method that is compared in any case, besides `methods`.
        trained_gamma: exponent of the focal loss the model was trained with.
        trained_alpha: its weight of class 1 of two, if it had one.
        sample_weight: weights of the validation rows ``[N]``; a whole number counts copies of a
            row, rows of weight 0 are dropped.
        test_weight: the same of the test rows.
        cluster: names of the clusters of the validation rows ``[N]``, such as the tries at one
            question: no fold splits one, and intervals and choice count clusters, not rows.
        test_cluster: the same of the test rows.
        criterion: which error the methods marked (ECE) minimise.
        n_bins: bins of the binned metrics and of that criterion.
        n_folds: folds of the cross-validation. Default: 5, or 3 for more than 60,000 logits.
        n_resamples: bootstrap resamples behind the intervals of log loss, Brier score and error.
        seed: random seed of the folds and the resamples.
        zero_mix: weight of the uniform distribution that was mixed into probabilities with
            zeros (`focalibrate.calibrate.zero_mix_for`).
        options: each row has options of its own, -inf after the last: only methods that treat
            them alike are compared.
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
        >>> methods = ["identity", "temperature"]
        >>> found = compare_methods(3 * truth, labels, methods=methods, n_resamples=50)
        >>> [row.method for row in found.rows]
        ['identity', 'temperature']
        >>> found.row("temperature").to_raw["nll"].high < 0
        True
    """
    check_count(n_resamples, name="n_resamples")
    val, test = _checked_rows(
        (val_logits, val_labels, sample_weight), (test_logits, test_labels, test_weight), zero_mix
    )
    val = replace(val, options=options)
    codes = _codes(cluster, sample_weight)
    fits = fit_methods(
        val,
        cluster=codes,
        methods=methods,
        also=also,
        trained_gamma=trained_gamma,
        trained_alpha=trained_alpha,
        criterion=criterion,
        n_bins=n_bins,
        n_folds=n_folds,
        seed=seed,
        is_tested=test is not None,
        progress=progress,
    )
    rows = val if test is None else test
    scores: dict[str, Scores] = {}
    changed: dict[str, int] = {}
    for name, fitted in fits.crossed.fits.items():
        parts = fitted.held_out(rows.logits, fits.folds)
        scores[name] = score_rows(parts, rows.labels, n_bins=n_bins, weights=rows.weights)
        changed[name] = _n_changed(fitted, rows)
    return _compared(
        fits,
        scores,
        changed,
        rows.weights,
        rows.n_rows,
        cluster=codes if test is None else _codes(test_cluster, test_weight),
        n_resamples=n_resamples,
        seed=seed,
    )


@dataclass(frozen=True, eq=False)
class MethodFits:
    """Methods fitted, to be evaluated."""

    crossed: CrossFit
    selection: Selection
    settings: FitSettings
    criterion: Criterion
    n_rows: int
    n_classes: int
    folds: Folds
    """the rows that each fold holds out; empty where other rows are evaluated on"""

    @property
    def calibrators(self) -> dict[str, Calibrator]:
        """The calibrator of each method, fitted on all rows."""
        return {name: fitted.whole for name, fitted in self.crossed.fits.items()}


def fit_methods(
    rows: Rows,
    *,
    cluster: NDArray[np.intp] | None = None,
    methods: Sequence[str] | None = None,
    also: str | None = None,
    trained_gamma: float | None = None,
    trained_alpha: float | None = None,
    criterion: Criterion = "adaptive_ece",
    n_bins: int = 15,
    n_folds: int | None = None,
    seed: int = 0,
    is_tested: bool,
    progress: Callable[[str], None] | None = None,
) -> MethodFits:
    """Fit every method on `rows`.

    Args:
        rows: the rows.
        cluster: number of the cluster of each row, which no fold splits.
        methods: see `compare_methods`, for the other arguments too.
        also: a method that is fitted in any case.
        trained_gamma: exponent of the focal loss the model was trained with.
        trained_alpha: its weight of class 1 of two, if it had one.
        criterion: which error the methods marked (ECE) minimise.
        n_bins: bins of that criterion.
        n_folds: folds of the cross-validation.
        seed: random seed of the folds.
        is_tested: whether other rows are evaluated on: then only the members of an average are
            fitted without each fold.
        progress: called with the label of each method as its fit begins.
    """
    check_choice(criterion, ("adaptive_ece", "ece"), name="criterion")
    check_n_bins(n_bins)
    if n_folds is not None:
        check_count(n_folds, name="n_folds", minimum=2)
    folds = _folds(rows, n_folds, seed, cluster)
    chosen = selected(methods, trained_gamma, rows=rows, n_fits=1 + len(folds), also=also)
    check_alpha(trained_alpha, trained_gamma, n_classes=rows.n_classes)
    settings = FitSettings(trained_gamma, criterion, n_bins, trained_alpha)

    def fit(names: Sequence[str], folds: Folds) -> CrossFit:
        return cross_fit(
            rows,
            names,
            folds,
            settings=settings,
            members=chosen.members,
            strict=[name for name in names if name == MODEL or name in chosen.asked],
            progress=progress,
        )

    averaged = (*chosen.members, AVERAGE) if AVERAGE in chosen.names else ()
    if not is_tested:
        crossed = fit(chosen.names, folds)
    else:
        first = fit([n for n in chosen.names if n in averaged], folds)
        alone = fit([n for n in chosen.names if n not in averaged], ())
        fits = first.fits | alone.fits
        fits = {name: fits[name] for name in chosen.names if name in fits}
        crossed = CrossFit(fits, first.losses, first.failed + alone.failed, first.sole_member)
    held_out = () if is_tested else folds
    return MethodFits(crossed, chosen, settings, criterion, rows.n_rows, rows.n_classes, held_out)


def compare_judged(
    fits: MethodFits, judged: Judged, *, n_resamples: int = 300, seed: int = 0
) -> Comparison:
    """Return the comparison of methods by sums over any number of other rows.

    Args:
        fits: the methods, fitted with `is_tested`.
        judged: what `focalibrate.comparison.judge` returned for their calibrators.
        n_resamples: bootstrap resamples behind the intervals.
        seed: random seed of the resamples.
    """
    mass, n_bins = judged.mass, fits.settings.n_bins
    scores = {
        name: sums.scores(mass, n_bins, by_row=False, seed=seed)
        for name, sums in judged.methods.items()
    }
    # Relative to their mean: whole numbers would be read as copies of one row, and the standard
    # errors of means of units would be too small by the root of the rows in a unit.
    weights = mass[mass > 0] / mass[mass > 0].mean()
    changed = {name: sums.n_changed for name, sums in judged.methods.items()}
    return _compared(
        fits, scores, changed, weights, judged.n_rows, n_resamples=n_resamples, seed=seed
    )


def _compared(
    fits: MethodFits,
    scores: Mapping[str, Scores],
    changed: Mapping[str, int],
    weights: Floats | None,
    n_judged: int,
    *,
    cluster: NDArray[np.intp] | None = None,
    n_resamples: int,
    seed: int,
) -> Comparison:
    crossed, folds = fits.crossed, fits.folds
    if not scores:  # not even the model, whose log loss is infinite
        reasons = "; ".join(f"{name}: {reason}" for name, reason in crossed.failed)
        raise ValueError(
            f"No calibration method could be fitted, so there is no verdict. {reasons}"
        )
    found = scores_of_methods(scores, weights, cluster=cluster, n_resamples=n_resamples, seed=seed)
    rows = tuple(
        MethodResult(
            method=name,
            label=METHODS[name].label,
            complexity=METHODS[name].complexity,
            calibrator=fitted.whole,
            fold_calibrators=fitted.without_fold if folds else (),
            n_predictions_changed=changed[name],
            notes=fitted.notes,
            why_not=fits.selection.why_not(name, crossed.sole_member),
            **found[name],
        )
        for name, fitted in crossed.fits.items()
    )
    return Comparison(
        rows=rows,
        skipped=crossed.failed,
        left_out=fits.selection.left_out,
        judged_on="cross-fit" if folds else "test",
        criterion=fits.criterion,
        trained_gamma=fits.settings.trained_gamma,
        trained_alpha=fits.settings.trained_alpha,
        n_fitted=fits.n_rows,
        n_judged=n_judged,
        n_classes=fits.n_classes,
        n_bins=fits.settings.n_bins,
        n_resamples=n_resamples,
        seed=seed,
        folds=folds,
        weights=weights,
        cluster=cluster,
        sole_member=crossed.sole_member,
    )


def _n_changed(fitted: Fitted, rows: Rows) -> int:
    """Return how many predictions the calibrator to deploy changes, not those of the folds."""
    if fitted.whole.keeps_argmax:
        return 0
    return sum(
        int((log_probs.argmax(axis=1) != rows.logits[index].argmax(axis=1)).sum())
        for index, log_probs in fitted.held_out(rows.logits, ())
    )


_Given = tuple[Array | None, Array | None, Array | None]
"""logits, labels and weights"""


def _checked_rows(val: _Given, test: _Given, zero_mix: float) -> tuple[Rows, Rows | None]:
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
    check_logits(test_rows.logits, name="test_logits")
    return rows, test_rows


def _rows(given: _Given, which: str) -> Rows:
    logits, labels, weights = given
    try:
        return read_given(logits, labels, sample_weight=weights)
    except ValueError as error:
        raise ValueError(f"{which}: {error}") from error


def _codes(cluster: Array | None, weights: Array | None) -> NDArray[np.intp] | None:
    """Return the number of the cluster of each row that has a weight."""
    if cluster is None:
        return None
    names = np.asarray(to_numpy(cluster)).reshape(-1)
    if weights is not None:
        names = names[np.asarray(to_numpy(weights)).reshape(-1) > 0]
    return cluster_numbers(names)


def _folds(rows: Rows, n_folds: int | None, seed: int, cluster: NDArray[np.intp] | None) -> Folds:
    n = max(2, fold_count(rows)) if n_folds is None else n_folds
    if rows.n_rows < n:
        raise ValueError(
            f"`val_logits` must have at least {n} rows to cross-validate, got {rows.n_rows}. "
            "Pass more rows, a test set, or fewer `n_folds`."
        )
    if cluster is not None and len(cluster) != rows.n_rows:
        raise ValueError(
            f"`cluster` must name the cluster of each of {rows.n_rows} rows, got {len(cluster)}."
        )
    if cluster is not None and cluster.max() + 1 < n:
        raise ValueError(
            f"`cluster` must have at least {n} clusters to cross-validate, got "
            f"{cluster.max() + 1}. Pass a test set, or fewer `n_folds`."
        )
    return random_folds(rows, n, seed, cluster)
