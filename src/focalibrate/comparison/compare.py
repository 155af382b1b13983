"""Calibration methods side by side, evaluated on rows that none was fitted on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, to_numpy
from focalibrate._check import check_choice, check_count, check_logits, check_n_bins
from focalibrate.calibrate import METHODS, Calibrator
from focalibrate.calibrate.choice import (
    AUTO,
    CrossFit,
    FitSettings,
    Fitted,
    candidates_for,
    check_alpha,
    cross_fit,
)
from focalibrate.calibrate.methods import AVERAGE, MODEL
from focalibrate.calibrate.rows import (
    Folds,
    Rows,
    fold_count,
    in_threads,
    random_folds,
    read_given,
)
from focalibrate.comparison.judge import MEANS, Comparison, MethodResult, Scores, Sums, score_rows
from focalibrate.comparison.paired import PairedMeans, Score
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.rows import renumbered

Criterion = Literal["adaptive_ece", "ece"]
MEMBER = "used only as a member of the average"
SHOWN = "shown for comparison only"


def compare_methods(
    val_logits: Array | Rows,
    val_labels: Array | None = None,
    test_logits: Array | Rows | None = None,
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
    judged: Callable[[Mapping[str, Calibrator]], Mapping[str, Sums]] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Fit every method on validation rows and evaluate it on held-out ones.

    Args:
        val_logits: real array ``[N, K]``, any library, or `Rows` that were read before.
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
        judged: evaluates calibrators on other rows, any number of them, instead of a test set:
            what `focalibrate.comparison.judge` returns.
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
    check_choice(criterion, ("adaptive_ece", "ece"), name="criterion")
    check_n_bins(n_bins)
    if n_folds is not None:
        check_count(n_folds, name="n_folds", minimum=2)
    val = _rows("val", val_logits, val_labels, sample_weight)
    test = None
    if not isinstance(test_logits, Rows) and (test_logits is None) != (test_labels is None):
        raise ValueError(
            "`test_logits` and `test_labels` must be given together. Leave both out to "
            "cross-validate."
        )
    if test_logits is not None:
        test = _rows("test", test_logits, test_labels, test_weight)
        if test.n_classes != val.n_classes:
            raise ValueError(
                f"`test_logits` must have the {val.n_classes} classes of `val_logits`, got "
                f"{test.n_classes}."
            )
        check_logits(test.logits, name="test_logits")
    codes = _codes(cluster, sample_weight)
    is_tested = test is not None or judged is not None
    folds = _folds(val, n_folds, seed, codes)
    chosen = selected(methods, trained_gamma, rows=val, n_fits=1 + len(folds), also=also)
    check_alpha(trained_alpha, trained_gamma, n_classes=val.n_classes)
    settings = FitSettings(trained_gamma, criterion, n_bins, trained_alpha)
    crossed = cross_fit(
        val,
        chosen.names,
        folds,
        settings=settings,
        members=chosen.members,
        strict=(MODEL, *chosen.asked),
        members_only=is_tested,
        progress=progress,
    )
    folds = () if is_tested else folds
    if judged is not None:
        sums = judged({name: fitted.whole for name, fitted in crossed.fits.items()})
        scores = {name: one.scores(n_bins, by_row=False) for name, one in sums.items()}
        first, codes = sums[MODEL], None
        # Relative to their mean: whole numbers would be read as copies of one row, and the
        # standard errors of means of units would be too small by the root of the rows in a unit.
        mass = first.mass[first.mass > 0]
        weights, n_judged = mass / mass.mean(), first.n_rows
    else:
        rows = val if test is None else test
        codes = codes if test is None else _codes(test_cluster, test_weight)

        def scored(fitted: Fitted) -> Scores:
            parts = fitted.held_out(rows.logits, folds)
            found = score_rows(parts, rows.labels, n_bins=n_bins, weights=rows.weights)
            return replace(found, n_changed=_n_changed(fitted, rows))

        scores = dict(zip(crossed.fits, in_threads(scored, crossed.fits.values()), strict=True))
        weights, n_judged = rows.weights, rows.n_rows
    paired = PairedMeans.of(
        np.concatenate([one.means() for one in scores.values()], axis=1),
        weights=weights,
        cluster=codes,
        n_resamples=n_resamples,
        seed=seed,
    )
    return Comparison(
        rows=_results(crossed, chosen, scores, paired),
        skipped=crossed.failed,
        left_out=chosen.left_out,
        settings=settings,
        n_fitted=val.n_rows,
        n_judged=n_judged,
        n_classes=val.n_classes,
        n_resamples=n_resamples,
        seed=seed,
        folds=folds,
        weights=weights,
        cluster=codes,
        sole_member=crossed.sole_member,
    )


def _results(
    crossed: CrossFit,
    chosen: "Selection",
    scores: Mapping[str, Scores],
    paired: PairedMeans,
) -> tuple[MethodResult, ...]:
    """Return a row for each method; `paired` has its `MEANS` side by side."""
    place = {name: len(MEANS) * i for i, name in enumerate(scores)}

    def differences(name: str, other: str) -> dict[MetricName, Score]:
        a, b = place[name], place[other]
        return {m: paired.difference(a + i, b + i) for i, m in enumerate(MEANS)}

    return tuple(
        MethodResult(
            method=name,
            label=METHODS[name].label,
            fitted=fitted,
            scores={m: Score(v) for m, v in scores[name].calibration.items()}
            | {m: paired.interval(place[name] + i).clipped(m) for i, m in enumerate(MEANS)},
            to_raw=differences(name, MODEL),
            to_temperature=differences(name, "temperature") if "temperature" in place else None,
            n_predictions_changed=scores[name].n_changed,
            units=scores[name],
            why_not="" if name == crossed.sole_member else chosen.why_not.get(name, ""),
        )
        for name, fitted in crossed.fits.items()
    )


def _n_changed(fitted: Fitted, rows: Rows) -> int:
    """Return how many predictions the calibrator to deploy changes, not those of the folds."""
    if fitted.whole.keeps_argmax:
        return 0
    return sum(
        int((log_probs.argmax(axis=1) != rows.logits[index].argmax(axis=1)).sum())
        for index, log_probs in fitted.held_out(rows.logits, ())
    )


def _rows(
    which: str, logits: Array | Rows | None, labels: Array | None, weights: Array | None
) -> Rows:
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
    return renumbered(names)


def _folds(rows: Rows, n_folds: int | None, seed: int, cluster: NDArray[np.intp] | None) -> Folds:
    n = max(2, fold_count(rows)) if n_folds is None else n_folds
    if rows.n_rows < n:
        raise ValueError(
            f"There must be at least {n} rows to cross-validate, got {rows.n_rows}. Pass more, or "
            "a test set (command line: --test test.csv)."
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


@dataclass(frozen=True)
class Selection:
    """The methods to compare."""

    names: tuple[str, ...]
    """all that are fitted, the average last"""
    members: tuple[str, ...]
    """those that are averaged"""
    asked: tuple[str, ...]
    """those that the caller named"""
    left_out: tuple[tuple[str, str], ...]
    """default methods that would take too long, and why"""
    why_not: Mapping[str, str]
    """methods that cannot be chosen, and why; the only member of the average can be"""


def selected(
    methods: Sequence[str] | None,
    trained_gamma: float | None,
    *,
    rows: Rows,
    n_fits: int,
    also: str | None = None,
) -> Selection:
    """Return the methods to compare, and those left out because they would take too long."""
    automatic = candidates_for(rows, trained_gamma, n_fits=n_fits)
    own = (*automatic.ladder, AVERAGE)
    methods = [methods] if isinstance(methods, str) else methods
    named = [name for name in (*(methods or ()), also) if name is not None]
    asked = [m for name in named for m in (own if name == AUTO else (name,))]
    for name in asked:
        _check_applies(name, trained_gamma, rows)
    names, slow = [MODEL], []
    if methods is None:
        wanted = [
            m
            for m in METHODS.values()
            if (m.default or m.name in automatic.names)
            and m.applies_to(rows.n_classes, trained_gamma, options=rows.options)
        ]
        slow = [m.name for m in wanted if m.is_too_slow(rows, n_fits)]
        names = [m.name for m in wanted if m.name not in slow]
    members = automatic.members if AVERAGE in (*names, *asked) else ()
    every = dict.fromkeys([*names, *members, *asked])
    can_be_chosen = own if methods is None else (MODEL, *asked)
    size = f"{rows.n_rows:,} rows of {rows.n_classes:,} classes"
    return Selection(
        names=tuple(sorted(every, key=lambda name: name == AVERAGE)),
        members=members,
        asked=tuple(name for name in named if name != AUTO),
        left_out=tuple((name, f"too slow for {size}") for name in slow if name not in every),
        why_not={
            name: MEMBER if name in members else SHOWN
            for name in every
            if name not in can_be_chosen
        },
    )


def _check_applies(name: str, trained_gamma: float | None, rows: Rows) -> None:
    check_choice(name, (AUTO, *METHODS), name="methods")
    if METHODS[name].needs_gamma and trained_gamma is None:
        raise ValueError(
            f"`trained_gamma` must be given for the method {name!r}, got None. Pass the exponent "
            "the model was trained with, or leave the method out."
        )
    if METHODS[name].applies_to(rows.n_classes, trained_gamma, options=rows.options):
        return
    if rows.options:
        raise ValueError(
            f"`methods`: {name!r} learns something about each class, but options are not the same "
            "in every row. Leave it out."
        )
    raise ValueError(
        f"`methods`: {name!r} is for two classes, but there are {rows.n_classes}. Leave it out."
    )
