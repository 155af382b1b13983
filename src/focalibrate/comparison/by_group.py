"""One calibrator per group, where that is significantly better on held-out rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import METHODS, Calibrator, GroupedCalibrator
from focalibrate.calibrate.choice import cross_fit
from focalibrate.calibrate.grouped import group_names
from focalibrate.calibrate.methods import AVERAGE
from focalibrate.calibrate.rows import Rows, sample_size
from focalibrate.comparison.choose import Choice, choose
from focalibrate.comparison.paired import PairedMeans, Score, standard_error, weighted_mean
from focalibrate.comparison.result import Comparison
from focalibrate.metrics.groups import holm
from focalibrate.metrics.words import p_text

LEAST_ROWS = 100
"""Groups of fewer rows keep the shared calibrator: too few to fit and test another."""
LEVEL = 0.05
MAX_NAMED = 5
"""More groups than this are counted, not named."""


@dataclass(frozen=True)
class GroupTrial:
    """How much one group would gain from a calibrator of its own."""

    column: str
    group: str
    n: int
    """rows evaluated on"""
    shared: float
    """held-out log loss of the shared calibrator on them"""
    own: float
    """held-out log loss of a calibrator fitted on the group alone; nan where none was"""
    p_value: float
    """one-sided, of `own` being lower, paired by row; nan where none was fitted"""
    p_adjusted: float
    """the same, corrected for the number of groups (Holm)"""
    reason: str
    """why no calibrator was fitted, or empty"""

    @property
    def is_better(self) -> bool:
        """Whether the group gets a calibrator of its own."""
        return self.p_adjusted < LEVEL

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON; a number that is not defined is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        } | {"is_better": self.is_better}


@dataclass(frozen=True, eq=False)
class GroupChoice:
    """Which groups get a calibrator of their own, and what that gains."""

    method: str
    """the method fitted on groups"""
    trials: tuple[GroupTrial, ...]
    """every group of every column"""
    calibrator: GroupedCalibrator | None
    """None where the shared calibrator is as good for every group"""
    shared: Score
    """held-out log loss of the shared calibrator, all rows"""
    held_out: Score
    """the same with the groups' own calibrators, each fold as decided without it"""
    log_probs: NDArray[Any] | None = field(default=None, repr=False)
    """held-out log-probabilities of the calibrator ``[N, K]``; None where it is None"""
    has_clusters: bool = False
    """whether rows are dependent; the tests count them as independent"""

    @property
    def summary(self) -> str:
        """The finding as a sentence."""
        tried = [trial for trial in self.trials if not trial.reason]
        if not tried:
            return (
                "One calibrator serves all groups: none has enough rows to fit and test its own "
                f"(at least {LEAST_ROWS}, with mistakes among them)"
            )
        if self.calibrator is None:
            return (
                "One calibrator serves all groups: none of the "
                f"{len(tried)} that were tried has a significantly lower held-out log loss with "
                "one of its own"
            )
        better = [t for t in tried if t.is_better and t.column == self.calibrator.column]
        if len(better) > MAX_NAMED:
            named = f"{len(better)} groups of {self.calibrator.column}"
        else:
            named = ", ".join(f"{t.column} = {t.group} ({p_text(t.p_adjusted)})" for t in better)
        gain = self.shared.estimate - self.held_out.estimate
        how = " (counted by row, not by cluster)" if self.has_clusters else ""
        return (
            f"A calibrator of its own ({METHODS[self.method].label}) significantly{how} lowers "
            f"the held-out log loss of {named}; decided without each fold, that of all rows is "
            f"{abs(gain):.4f} {'lower' if gain > 0 else 'higher'}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        return {
            "method": self.method,
            "summary": self.summary,
            "column": None if self.calibrator is None else self.calibrator.column,
            "shared": _record(self.shared),
            "held_out": _record(self.held_out),
            "groups": [trial.to_dict() for trial in self.trials],
        }


@dataclass(frozen=True)
class GroupedRows:
    """Rows, and the columns that say which group each belongs to."""

    rows: Rows
    groups: Mapping[str, NDArray[Any]]


def choose_by_group(
    comparison: Comparison,
    choice: Choice,
    fitted: GroupedRows,
    judged: GroupedRows | None = None,
) -> GroupChoice:
    """Find the groups that do better with a calibrator of their own.

    A group's own calibrator is fitted on its rows alone, by the single method that `choose`
    would take for all rows (Platt scaling or structured vector scaling where that is the
    uncalibrated model). It is evaluated on the folds of the comparison, or on its test rows, and
    its log loss compared with that of the shared calibrator on the same rows: a one-sided paired
    t-test of rows, also where there are clusters, corrected for the number of groups by
    Holm's method. A group of fewer than 100 rows, or without a single mistake, keeps the shared
    calibrator. Of several columns the one whose groups gain most is used.

    The decision does not bias the scores reported: each fold is scored as decided without it.

    Args:
        comparison: what `compare_methods` returned.
        choice: what `choose` returned; its method is the shared calibrator.
        fitted: the rows that the comparison was fitted on, with their groups.
        judged: the test rows, where the comparison had some.

    Returns:
        `GroupChoice`; its calibrator is None where no group gains significantly.
    """
    on = fitted if judged is None else judged
    method = _method(comparison, choice)
    shared, weights = choice.row.units.nll, on.rows.weights
    tried = {
        (column, group): _own(comparison, method, fitted.rows, at, on.rows, judged_at)
        for column, group, at, judged_at in _members(fitted, on)
    }
    fits = {key: own for key, own in tried.items() if isinstance(own, _Own)}
    every = np.ones(on.rows.n_rows, dtype=bool)
    tests, chosen = _decide(fits, shared, every, weights)
    trials = [_trial(key, found, shared, weights, tests.get(key)) for key, found in tried.items()]
    calibrator, log_probs = None, None
    if chosen:
        column = chosen[0][0]
        seen = [group for name, group in tried if name == column]
        calibrator = GroupedCalibrator(
            column,
            choice.row.calibrator,
            tuple(seen),
            tuple(fits[column, g].whole if (column, g) in chosen else None for g in seen),
            n_classes=comparison.n_classes,
        )
        with np.errstate(divide="ignore"):
            log_probs = np.log(comparison.held_out_probs(choice.row.method, on.rows.logits))
        for key in chosen:
            log_probs[fits[key].rows] = fits[key].log_probs
    paired = PairedMeans.of(
        np.stack([shared, _nested(comparison, fits, shared, weights)], axis=1),
        weights=weights,
        cluster=comparison.cluster,
        n_resamples=comparison.n_resamples,
        seed=comparison.seed,
    )
    return GroupChoice(
        method,
        tuple(trials),
        calibrator,
        paired.interval(0),
        paired.interval(1),
        log_probs,
        has_clusters=comparison.cluster is not None,
    )


Key = tuple[str, str]
"""A column and one of its groups."""


@dataclass(frozen=True, eq=False)
class _Own:
    """A group's own calibrator, and its log-probabilities of the group's held-out rows."""

    whole: Calibrator
    rows: NDArray[np.intp]
    log_probs: NDArray[Any]
    nll: Floats


@dataclass(frozen=True)
class _Kept:
    """A group that has no calibrator of its own, and why."""

    rows: NDArray[np.intp]
    reason: str


def _members(
    fitted: GroupedRows, judged: GroupedRows
) -> Iterator[tuple[str, str, NDArray[np.intp], NDArray[np.intp]]]:
    """Yield column, group, and its rows among those fitted on and those evaluated on."""
    for column, values in fitted.groups.items():
        names, others = group_names(values), group_names(judged.groups[column])
        for group in np.unique(names).tolist():
            yield column, group, np.flatnonzero(names == group), np.flatnonzero(others == group)


def _method(comparison: Comparison, choice: Choice) -> str:
    """Return the method to fit on groups: a single one, and one that fits something."""
    name = choice.row.method
    if name == AVERAGE:
        name = choose(comparison, simple=True).row.method
    if not METHODS[name].learns:
        name = "platt" if comparison.n_classes == 2 else "structured_vector"
    return name


def _own(
    comparison: Comparison,
    method: str,
    fitted: Rows,
    at: NDArray[np.intp],
    judged: Rows,
    judged_at: NDArray[np.intp],
) -> "_Own | _Kept":
    """Return the calibrator of one group, or why there is none."""
    rows = fitted.take(at)
    if min(len(at), len(judged_at)) < LEAST_ROWS:
        return _Kept(judged_at, "too few rows")
    if bool((rows.logits.argmax(axis=1) == rows.labels).all()):
        return _Kept(judged_at, "every prediction is right")
    fold = comparison.fold_of_row[at]
    folds = tuple(np.flatnonzero(fold == f) for f in range(comparison.n_folds))
    crossed = cross_fit(rows, [method], folds, settings=comparison.settings)
    if crossed.failed:  # such as a group that lacks a class
        return _Kept(judged_at, f"not fitted: {crossed.failed[0][1]}")
    found = crossed.fits[method]
    log_probs = np.empty((len(judged_at), judged.n_classes))
    for index, some in found.held_out(judged.logits[judged_at], folds):
        log_probs[index] = some
    nll = -log_probs[np.arange(len(judged_at)), judged.labels[judged_at]]
    return _Own(found.whole, judged_at, log_probs, nll)


def _trial(
    key: Key,
    found: "_Own | _Kept",
    shared: Floats,
    weights: Floats | None,
    p_values: tuple[float, float] | None,
) -> GroupTrial:
    at = found.rows
    some = None if weights is None else weights[at]
    before = float(weighted_mean(shared[at], some)) if len(at) else math.nan
    if isinstance(found, _Kept) or p_values is None:
        reason = found.reason if isinstance(found, _Kept) else ""
        return GroupTrial(*key, len(at), before, math.nan, math.nan, math.nan, reason)
    after = float(weighted_mean(found.nll, some))
    return GroupTrial(*key, len(at), before, after, *p_values, "")


def one_sided_p_value(gain: Floats, weights: Floats | None) -> float:
    """Return the p-value of the mean of `gain` being positive: a paired t-test.

    Weights that are not whole numbers count as their effective number of rows. Rows are counted
    where there are clusters, too: by images, no class of a detector would get its own calibrator,
    though on other images its scores are better (`docs/howto/detections.md`).
    """
    from scipy.special import stdtr  # takes a quarter of a second to import

    if not np.isfinite(gain).all():
        return 1.0
    error = float(standard_error(gain, weights))
    if not error > 0:
        return 1.0
    freedom = max(1.0, sample_size(weights, len(gain)) - 1.0)
    return float(stdtr(freedom, -float(weighted_mean(gain, weights)) / error))


def _decide(
    fits: Mapping[Key, _Own], shared: Floats, kept: NDArray[np.bool_], weights: Floats | None
) -> tuple[dict[Key, tuple[float, float]], list[Key]]:
    """Return the p-values by the rows of `kept`, and the groups chosen: of one column."""
    p_values, gains = {}, {}
    for key, own in fits.items():
        inside = kept[own.rows]
        at = own.rows[inside]
        some = None if weights is None else weights[at]
        gain = shared[at] - own.nll[inside]
        p_values[key] = one_sided_p_value(gain, some) if len(at) > 1 else 1.0
        gains[key] = float(gain.sum() if some is None else gain @ some)
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    better = [key for key, p in adjusted.items() if p < LEVEL]
    total = {c: sum(gains[k] for k in better if k[0] == c) for c, _ in better}
    best = max(total, key=lambda column: total[column]) if total else None
    tests = {key: (p_values[key], adjusted[key]) for key in fits}
    return tests, [key for key in better if key[0] == best]


def _nested(
    comparison: Comparison, fits: Mapping[Key, _Own], shared: Floats, weights: Floats | None
) -> Floats:
    """Return the log loss of each row, its fold decided without it."""
    nested = shared.copy()
    for fold in comparison.folds or _parts(comparison, len(shared)):
        kept = np.ones(len(shared), dtype=bool)
        kept[fold] = False
        for key in _decide(fits, shared, kept, weights)[1]:
            own = fits[key]
            inside = ~kept[own.rows]
            nested[own.rows[inside]] = own.nll[inside]
    return nested


def _parts(comparison: Comparison, n: int) -> Sequence[NDArray[np.intp]]:
    """Return fifths of a test set, in which the decision is repeated; no cluster is split."""
    cluster = np.arange(n) if comparison.cluster is None else comparison.cluster
    order = np.random.default_rng(comparison.seed).permutation(int(cluster.max()) + 1)
    return [
        np.flatnonzero(np.isin(cluster, some))
        for some in np.array_split(order, min(5, len(order)))
    ]


def _record(value: Score) -> dict[str, float | None]:
    numbers = {"estimate": value.estimate, "low": value.low, "high": value.high}
    return {k: v if v is None or math.isfinite(v) else None for k, v in numbers.items()}
