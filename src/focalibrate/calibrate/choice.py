"""The automatic choice: methods cross-fitted, their average, and the rule that picks one."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_choice, check_gamma, check_open_interval
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.methods import AVERAGE, METHODS, MODEL, Method
from focalibrate.calibrate.mixtures import average_of, average_weights, averaged_losses
from focalibrate.calibrate.optimise import collected_warnings, warn
from focalibrate.calibrate.rows import (
    BLOCK_ENTRIES,
    LARGEST,
    Folds,
    Rows,
    available_cores,
    fold_count,
    option_rows,
    random_folds,
    read_given,
)
from focalibrate.metrics.rows import row_chunks

AUTO = "auto"
"""Name of the automatic choice, where a method is asked for."""
STRUCTURED = ("temperature", "structured_vector", "structured_matrix")
AUTOMATIC = {
    "options": (("temperature", "focal_temperature", "ensemble_temperature"), ()),
    "two classes": (("temperature", "platt", "beta"), ("spline", "isotonic")),
    "few classes": (STRUCTURED, ("isotonic", "dirichlet")),
    "many classes": (STRUCTURED, ("isotonic",)),
}
"""Single methods that the automatic choice is made from, from simple to complex, and further ones
that are only averaged with these."""
FEW_CLASSES = 10
KEEP = 1.0
"""The model is kept if its loss is within this many standard errors of the lowest."""
NEAR = 0.5
"""The first method within this many standard errors of the lowest is taken."""
MAX_THREADS = 4
"""Methods fitted at once; each needs memory of its own."""
FEW_ENTRIES = 20_000
"""Fewer logits than this (rows times classes) are fitted without threads."""
CHECK_ENTRIES = 1 << 17
"""Logits that the fit on all rows is compared with those of the folds on."""
WORSE = 1e-3
"""Nats by which it may be the worse one: as much comes from the uniform distribution mixed in."""


@dataclass(frozen=True)
class Candidates:
    """The methods that the automatic choice is made from."""

    ladder: tuple[str, ...]
    """single methods, from simple to complex, the model first"""
    members: tuple[str, ...]
    """methods that are averaged: the last candidate"""

    @property
    def names(self) -> tuple[str, ...]:
        """All methods to fit, the average last."""
        return (*dict.fromkeys((*self.ladder, *self.members)), AVERAGE)


def candidates_for(rows: Rows, trained_gamma: float | None, *, n_fits: int) -> Candidates:
    """Return the candidates for `rows`, without those that take too long to fit so often.

    With a training exponent `trained_gamma`, posterior recovery stands after the model. Options,
    which are not the same in every row, are treated alike.
    """
    k = rows.n_classes
    kind = "two classes" if k == 2 else "few classes" if k <= FEW_CLASSES else "many classes"
    single, averaged = AUTOMATIC["options" if rows.options else kind]
    recovery = ("posterior_recovery",) if trained_gamma else ()
    ladder, others = (
        tuple(name for name in names if not METHODS[name].is_too_slow(rows, n_fits))
        for names in ((MODEL, *recovery, *single), averaged)
    )
    return Candidates(ladder, (*ladder, *others))


def check_alpha(alpha: float | None, gamma: float | None, *, n_classes: int) -> None:
    """Raise unless `alpha` is the weight of class 1 in a focal loss of two classes, or None."""
    if alpha is None:
        return
    check_open_interval(alpha, low=0.0, high=1.0, name="trained_alpha")
    if gamma is None or n_classes != 2:
        raise ValueError(
            "`trained_alpha` weighs class 1 of two in a focal loss: it needs `trained_gamma` and "
            f"two classes, got gamma {gamma} and {n_classes} classes."
        )


@dataclass(frozen=True)
class FitSettings:
    """Options that some fits need."""

    trained_gamma: float | None = None
    criterion: Literal["adaptive_ece", "ece"] = "adaptive_ece"
    n_bins: int = 15
    trained_alpha: float | None = None

    def options(self, method: Method) -> dict[str, Any]:
        """Return the keyword arguments of the fit of `method`."""
        options: dict[str, Any] = {}
        if method.needs_gamma:
            options["gamma"] = self.trained_gamma
        if method.takes_weights and self.trained_alpha is not None:
            options["class_weight"] = (1.0 - self.trained_alpha, self.trained_alpha)
        if method.is_by_ece:
            options |= {"criterion": self.criterion, "n_bins": self.n_bins}
        return options


@dataclass(frozen=True)
class Fitted:
    """One method fitted on all rows, and without each fold."""

    whole: Calibrator
    without_fold: tuple[Calibrator, ...] = ()
    notes: tuple[str, ...] = ()
    """what the fit on all rows warned of"""

    def held_out(self, logits: NDArray[Any], folds: Folds) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Yield log-probabilities of some rows at a time, and which rows those are.

        Each row is calibrated without its fold; where there are no folds, by the fit on all rows.
        """
        calibrators = self.without_fold if folds else (self.whole,)
        for fold, calibrator in zip(folds or [np.arange(len(logits))], calibrators, strict=True):
            for part in row_chunks(len(fold), logits.shape[1], BLOCK_ENTRIES):
                yield fold[part], np.asarray(calibrator.log_probs_of(logits[fold[part]]))

    def held_out_losses(self, rows: Rows, folds: Folds) -> Floats:
        """Return the log loss of each row without its fold ``[N]``."""
        found = np.empty(rows.n_rows)
        for fold, calibrator in zip(folds, self.without_fold, strict=True):
            found[fold] = rows.take(fold).losses(calibrator)
        return found


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Methods fitted on all rows and without each fold."""

    fits: dict[str, Fitted]
    losses: dict[str, Floats]
    """held-out log loss of each row, by method ``[N]``"""
    failed: tuple[tuple[str, str], ...] = ()
    """methods that could not be fitted, and why"""
    sole_member: str | None = None
    """the only method of the average; None where there are several, or no average"""


def cross_fit(
    rows: Rows,
    names: Sequence[str],
    folds: Folds,
    *,
    settings: FitSettings | None = None,
    members: Sequence[str] = (),
    strict: Sequence[str] = (),
    members_only: bool = False,
    progress: Callable[[str], None] | None = None,
) -> CrossFit:
    """Fit each method on all rows and without each fold.

    Every method that is fitted has 1 / (n + 1) of the uniform distribution mixed into its result:
    by the rule of succession, the share of surprises to expect after n rows.

    Args:
        rows: the rows.
        names: methods, the average among them or not.
        folds: the rows of each fold; rows that belong together must be in the same one.
        settings: options of the fits.
        members: methods to average, where `names` have the average; those not fitted are left out.
        strict: methods that must be fitted; others are left out where that fails.
        members_only: fit other methods than `members` on all rows only.
        progress: called with the label of each method as its fit begins.
    """
    settings = settings or FitSettings()
    every = np.arange(rows.n_rows)
    kept = [np.setdiff1d(every, fold, assume_unique=True) for fold in folds]

    def fit_one(name: str) -> tuple[Fitted, Floats]:
        if progress is not None:
            progress(METHODS[name].label)
        is_crossed = bool(folds) and (name in members or not members_only)
        found = _fit(METHODS[name], rows, kept if is_crossed else (), settings)
        if not is_crossed:
            return found, np.empty(0)
        losses = found.held_out_losses(rows, folds)
        return refit_checked(found, rows, losses, METHODS[name], settings), losses

    fits: dict[str, Fitted] = {}
    losses: dict[str, Floats] = {}
    failed: list[tuple[str, str]] = []
    n_threads = min(available_cores(), MAX_THREADS) if rows.logits.size >= FEW_ENTRIES else 1
    with ThreadPoolExecutor(n_threads) as threads:
        singles = [name for name in names if name != AVERAGE]
        # The most complex first: they take longest.
        futures = {name: threads.submit(fit_one, name) for name in reversed(singles)}
        for name in singles:
            try:
                fits[name], losses[name] = futures[name].result()
            except ValueError as error:  # such as a fold that lacks a class
                if name in strict:
                    threads.shutdown(cancel_futures=True)
                    raise
                failed.append((name, str(error)))
    sole = None
    used = [name for name in members if name in fits]
    if AVERAGE in names and used:
        weights = average_weights(np.stack([losses[n] for n in used], axis=1), rows.weights)
        if np.count_nonzero(weights) == 1:
            sole = used[int(weights.argmax())]
        else:
            fits[AVERAGE], losses[AVERAGE] = _average(rows, used, fits, losses, folds, weights)
    return CrossFit(fits, losses, tuple(failed), sole)


def _fit(
    method: Method, rows: Rows, kept: Sequence[NDArray[np.intp]], settings: FitSettings
) -> Fitted:
    """Return the method fitted to all rows, and from there to the rows `kept` for each fold."""
    options = settings.options(method)
    with collected_warnings() as messages:
        whole: Calibrator = method.fit(rows, **options)
    found = [whole] * (1 + len(kept))
    if method.learns:
        found = [_mixed(whole, rows.size)]
        for index in kept:
            part = rows.take(index)
            with collected_warnings():
                found.append(_mixed(method.fit(part, start=whole, **options), part.size))
    # Messages begin with the calibrator's own description; tables name the method.
    own = f"{method.label}: "
    return Fitted(found[0], tuple(found[1:]), tuple(m.removeprefix(own) for m in messages))


def _mixed(calibrator: Calibrator, n: float) -> Calibrator:
    return replace(calibrator, uniform_mix=1.0 / (n + 1.0))


def refit_checked(
    found: Fitted, rows: Rows, held_out: Floats, method: Method, settings: FitSettings
) -> Fitted:
    """Return the method fitted again from a fold's solution, where the fit on all rows is worse.

    A fit is worse on the rows it has seen than held out only where its search ended in the wrong
    place.
    """
    if not method.learns:
        return found
    step = -(-rows.logits.size // CHECK_ENTRIES)
    some = rows.take(slice(None, None, step))
    own = some.mean_loss(found.whole)
    if own <= np.average(held_out[::step], weights=some.weights) + WORSE:
        return found
    best = min(found.without_fold, key=some.mean_loss)
    if own <= some.mean_loss(best):
        return found
    with collected_warnings():
        again: Calibrator = method.fit(rows, start=best, **settings.options(method))
    whole = min((_mixed(again, rows.size), _mixed(best, rows.size)), key=some.mean_loss)
    note = (
        f"the fit on all rows ended at a log loss of {own:.4f} on them; started from the solution "
        f"of a fold it is {some.mean_loss(whole):.4f}, which is used"
    )
    return replace(found, whole=whole, notes=(*found.notes, note))


def _average(
    rows: Rows,
    names: Sequence[str],
    fits: dict[str, Fitted],
    losses: dict[str, Floats],
    folds: Folds,
    weights: Floats,
) -> tuple[Fitted, Floats]:
    """Return the average and its held-out losses, each fold with the weights of the others."""
    values = np.stack([losses[name] for name in names], axis=1)
    held_out, without_fold = np.empty(rows.n_rows), []
    for i, fold in enumerate(folds):
        is_kept = np.ones(rows.n_rows, dtype=bool)
        is_kept[fold] = False
        mass = None if rows.weights is None else rows.weights[is_kept]
        others = average_weights(values[is_kept], mass)
        held_out[fold] = averaged_losses(values[fold], others)
        calibrators = [fits[name].without_fold[i] for name in names]
        without_fold.append(rows.stamp(average_of(calibrators, others)))
    whole = rows.stamp(average_of([fits[name].whole for name in names], weights))
    return Fitted(whole, tuple(without_fold)), held_out


def pick(
    losses: Floats,
    *,
    weights: Floats | None = None,
    size: float | None = None,
    model: int | None = 0,
) -> tuple[int, int]:
    """Return the position of the method to take, by held-out losses, and of the lowest loss.

    1. Keep the model if its mean loss is within one standard error of the lowest.
    2. Otherwise take the first method within half a standard error of the lowest.

    Standard errors are of the mean difference, paired by row.

    Args:
        losses: held-out loss of each row and method ``[N, M]``, methods from simple to complex.
        weights: of the rows ``[N]``.
        size: number of rows, if whole weights count copies. Default: each
            entry is one observation, whatever its weight, such as the mean of a group of rows.
        model: which method is the model as it is. Default: the first; None: none.
    """
    losses = np.minimum(losses, LARGEST)
    means = np.average(losses, axis=0, weights=weights)
    best = int(means.argmin())

    def is_within(method: int, errors: float) -> bool:
        gap = losses[:, method] - losses[:, best]
        error = standard_error(gap, weights, size=size)
        return bool(np.average(gap, weights=weights) <= errors * error)

    if model is not None and is_within(model, KEEP):
        return model, best
    return next(i for i in range(len(means)) if i == best or is_within(i, NEAR)), best


def standard_error(values: Floats, weights: Floats | None, *, size: float | None = None) -> Floats:
    r"""Return the standard error of the weighted mean over the first axis.

    :math:`\sqrt{\sum w_i^2 (x_i - \bar x)^2} / \sum w_i`; without weights
    :math:`s / \sqrt{N}`. A weight is the importance of a row, whole or not, or with `size` rows
    in all the number of its copies.
    """
    n = len(values)
    if n < 2:
        return np.full(values.shape[1:], np.inf)
    w = np.ones(n) if weights is None else weights
    squares = (values - np.average(values, axis=0, weights=w)) ** 2
    if weights is None or size is None:
        variance = w**2 @ squares / w.sum() ** 2 * (n / (n - 1))
    else:
        variance = w @ squares / w.sum() / max(size - 1.0, 1e-12)
    return np.asarray(np.sqrt(variance))


def fit_auto(
    rows: Rows,
    *,
    trained_gamma: float | None = None,
    trained_alpha: float | None = None,
    simple: bool = False,
    seed: int | np.random.Generator = 0,
) -> Calibrator:
    """Fit all candidates and return the one that `pick` picks, see `fit`.

    Its report has the held-out log loss of every candidate, and the reason in words.
    """
    if trained_gamma is not None:
        check_gamma(trained_gamma, name="trained_gamma")
    check_alpha(trained_alpha, trained_gamma, n_classes=rows.n_classes)
    found, crossed = _crossed(rows, trained_gamma, trained_alpha, simple=simple, seed=seed)
    # An average of one member is that member.
    every = dict.fromkeys((*found.ladder, crossed.sole_member or AVERAGE))
    names = [name for name in every if name in crossed.fits]
    losses = np.stack([crossed.losses[name] for name in names], axis=1)
    chosen, best = pick(losses, weights=rows.weights, size=rows.size, model=names.index(MODEL))
    means = np.average(losses, axis=0, weights=rows.weights).tolist()
    return rows.finish(
        crossed.fits[names[chosen]].whole,
        value=means[chosen],
        held_out=dict(zip(names, means, strict=True)),
        reason=reason_for(chosen, best, [METHODS[n].label for n in names], means),
    )


def fit_average(
    rows: Rows, *, trained_gamma: float | None = None, seed: int | np.random.Generator = 0
) -> Calibrator:
    """Fit several methods on all rows, and the weights of the average of their probabilities.

    The weights minimise the log loss of held-out predictions (five random folds, three for large
    data), see `average_weights`. The result is an `Average`, or the only member that has a weight;
    its report has the held-out log loss.
    """
    _, crossed = _crossed(rows, trained_gamma, None, simple=False, seed=seed)
    name = crossed.sole_member or AVERAGE
    value = float(np.average(crossed.losses[name], weights=rows.weights))
    return rows.finish(crossed.fits[name].whole, value=value)


def _crossed(
    rows: Rows,
    trained_gamma: float | None,
    trained_alpha: float | None,
    *,
    simple: bool,
    seed: int | np.random.Generator,
) -> tuple[Candidates, CrossFit]:
    n_folds = fold_count(rows)
    found = candidates_for(rows, trained_gamma, n_fits=1 + n_folds)
    crossed = cross_fit(
        rows,
        found.ladder if simple else found.names,
        random_folds(rows, n_folds, seed),
        settings=FitSettings(trained_gamma, trained_alpha=trained_alpha),
        members=found.members,
        strict=(MODEL,),
    )
    return found, crossed


def reason_for(
    chosen: int,
    best: int,
    labels: Sequence[str],
    means: Sequence[float],
    how: str = "cross-validated",
) -> str:
    """Return the choice in words, of methods with these labels and mean log losses."""
    own, least = f"{means[chosen]:.4f}", f"{means[best]:.4f}"
    name = labels[chosen] if chosen else "the uncalibrated model"
    name = name[:1].upper() + name[1:]
    if chosen == best:
        return f"{name} has the lowest {how} log loss."
    if chosen == 0:
        return (
            f"The lowest {how} log loss, {least} ({labels[best]}), is within one standard error "
            f"of the uncalibrated model's, {own}."
        )
    return (
        f"{name} is the simplest method whose {how} log loss, {own}, is within half a standard "
        f"error of the lowest, {least} ({labels[best]})."
    )


def fit(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    method: str = AUTO,
    probs: Array | None = None,
    confidence: Array | None = None,
    correct: Array | None = None,
    option_logits: Sequence[Any] | None = None,
    sample_weight: Array | None = None,
    **options: Any,
) -> Calibrator:
    """Fit a calibrator: the one to deploy, or that of a method.

    ``method="auto"`` chooses by cross-validated log loss. The candidates are, from simple to
    complex, the model itself, temperature scaling, then Platt scaling and beta calibration for
    two classes or structured vector and matrix scaling for more, and an average of these with
    isotonic regression and the like (`Average`). The model is kept if its log loss is within one
    standard error of the lowest. Otherwise the first candidate within half a standard error of
    the lowest is taken. ``focalibrate calibrate`` and ``method="auto"`` of the estimators choose
    by the same rule; ``report.reason`` of the calibrator says why.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``.
        method: ``"auto"`` or one of `METHODS`; ``"posterior_recovery"`` and
            ``"focal_loss_temperature"`` need the option ``gamma``.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        confidence: instead of scores, a probability ``[N]`` of being right: class 1 of two.
        correct: instead of `labels`, whether it was, ``[N]``.
        option_logits: instead of logits, one list of scores per row, of any length: the options
            of a question. Labels are positions in it, and options are treated alike.
        sample_weight: one number >= 0 per row.
        options: options of the method's fit, which its class describes, such as ``n_bins`` of
            `HistogramBinning`. Of ``"auto"``: ``trained_gamma``, the exponent of the focal loss
            that the model was trained with, which makes posterior recovery the second candidate;
            ``simple=True``, never the average; ``seed`` of the folds.

    Returns:
        The calibrator; its ``report`` says how the fit of a method went.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((2000, 4))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> fit(3.0 * truth, labels).kind
        'temperature'
        >>> fit(truth, labels).kind
        'identity'
        >>> fit(truth, labels, method="posterior_recovery", gamma=2.0)
        PosteriorRecovery(gamma=2.0)
    """
    check_choice(method, (AUTO, *METHODS), name="method")
    if confidence is not None or correct is not None:
        if confidence is None or correct is None:
            raise ValueError("`confidence` and `correct` go together: one is missing.")
        if any(one is not None for one in (logits, probs, labels)):
            raise ValueError(
                "Pass either `confidence` and `correct`, or scores and `labels`, not both."
            )
        probs, labels = confidence, correct
    if option_logits is not None:
        if logits is not None or probs is not None:
            raise ValueError("Pass one of `logits`, `probs` and `option_logits`.")
        logits = option_rows(option_logits, labels, sample_weight=sample_weight)
        if method != AUTO and not METHODS[method].treats_alike:
            raise ValueError(f"`method` must treat options alike, got {method!r}.")
    run: Any = fit_auto if method == AUTO else METHODS[method].fit
    taken = inspect.signature(run).parameters.values()
    named = [one.name for one in taken if one.kind is one.KEYWORD_ONLY]
    known = [name for name in named if name not in ("probs", "sample_weight", "start")]
    unknown = [name for name in options if name not in named]
    if unknown and not any(one.kind is one.VAR_KEYWORD for one in taken):
        has = f"it has {', '.join(known)}" if known else "it has none"
        raise TypeError(f"`method={method!r}` has no option `{unknown[0]}`; {has}.")
    rows = read_given(logits, labels, probs=probs, sample_weight=sample_weight)
    found: Calibrator = run(rows, **options)
    if rows.n_rows > 1 and not rows.options and (rows.labels == rows.labels[0]).all():
        warn(f"every label is class {rows.labels[0]}, so nothing can be learned about the others.")
    return found
