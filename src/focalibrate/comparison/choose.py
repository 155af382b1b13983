"""The method to deploy, for all rows by a rule stated in words, or for single groups of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from focalibrate._array import Floats
from focalibrate.calibrate import METHODS, Calibrator, GroupedCalibrator
from focalibrate.calibrate.choice import cross_fit, pick, reason_for, standard_error
from focalibrate.calibrate.grouped import group_names
from focalibrate.calibrate.methods import AVERAGE, MODEL
from focalibrate.calibrate.rows import LARGEST, Rows, sample_size
from focalibrate.comparison.judge import Comparison, MethodResult
from focalibrate.comparison.paired import PairedMeans, Score, by_cluster
from focalibrate.metrics.groups import holm
from focalibrate.metrics.words import p_text

LEAST_ROWS = 100
"""Groups of fewer rows keep the shared calibrator: too few to fit and test another."""
LEVEL = 0.05
MAX_NAMED = 5
"""More groups than this are counted, not named."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The method chosen, and why."""

    row: MethodResult
    best: MethodResult
    """the method of the lowest log loss; not `row` if a simpler one does as well"""
    is_forced: bool
    """whether the method was named by the caller"""
    reason: str
    """in words"""


def choose(comparison: Comparison, *, method: str | None = None, simple: bool = False) -> Choice:
    """Return the method to deploy, by the rule of `focalibrate.fit`.

    The best is the method with the lowest held-out log loss: unlike a calibration error, such a
    score cannot be improved by giving up what the model knows. The uncalibrated model is kept
    if its log loss is within one standard error of the lowest. Otherwise the simplest method
    within half a standard error of the lowest is taken. Standard errors are of the mean
    difference, paired by row. A default comparison shows more methods than it chooses from:
    `MethodResult.why_not`.

    Args:
        comparison: what `compare_methods` returned.
        method: take this method, whatever its score; ``"average"`` where a single method has all
            the weight is that method.
        simple: choose a single method, never the average of several.

    Returns:
        `Choice`, with the reason in words.

    Raises:
        ValueError: if no method could be fitted.

    Example:
        >>> from focalibrate.comparison import compare_methods
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.normal(size=(1000, 4)) * 2
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> methods = ["temperature", "vector"]
        >>> choose(compare_methods(3 * truth, labels, methods=methods, n_resamples=100)).row.method
        'temperature'
    """
    if comparison.skipped and all(row.method == MODEL for row in comparison.rows):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in comparison.skipped)
        raise ValueError(
            f"No calibration method could be fitted, so there is no verdict. {reasons}"
        )
    rows = [row for row in comparison.rows if not row.why_not]
    rows = [row for row in rows if not (simple and row.method == AVERAGE)]
    rows = sorted(rows, key=lambda row: row.complexity)
    if method is not None:
        if method == AVERAGE and comparison.sole_member is not None:
            method = comparison.sole_member
        row = comparison.row(method)
        best = min([*rows, row], key=lambda row: row.scores["nll"].estimate)
        name = f"{row.label[:1].upper()}{row.label[1:]}"
        return Choice(row=row, best=best, is_forced=True, reason=f"{name} was requested.")
    losses = np.stack([row.units.nll for row in rows], axis=1)
    weights = comparison.weights
    are_rows = rows[0].units.are_rows and comparison.cluster is None
    if comparison.cluster is not None:
        losses, weights = by_cluster(np.minimum(losses, LARGEST), weights, comparison.cluster)
    chosen, lowest = pick(
        losses,
        weights=weights,
        size=sample_size(weights, len(losses)) if are_rows else None,
        model=0 if rows[0].method == MODEL else None,
    )
    how = "cross-validated" if comparison.judged_on == "cross-fit" else "test"
    means = [row.scores["nll"].estimate for row in rows]
    return Choice(
        row=rows[chosen],
        best=rows[lowest],
        is_forced=False,
        reason=""  # the verdict says it
        if chosen == lowest
        else reason_for(chosen, lowest, [row.label for row in rows], means, how),
    )


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
        return _record(self) | {"is_better": self.is_better}


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
    tried = []
    for column, values in fitted.groups.items():
        names, others = group_names(values), group_names(on.groups[column])
        for name in np.unique(names).tolist():
            group = _Group(column, name, np.flatnonzero(others == name))
            rows = fitted.rows, np.flatnonzero(names == name)
            tried.append(_tried(comparison, method, *rows, on.rows, group))
    fits = [one for one in tried if one.whole is not None]
    tests, chosen = _decide(fits, shared, np.ones(on.rows.n_rows, dtype=bool), weights)
    calibrator, log_probs = None, None
    if chosen:
        column = chosen[0].column
        seen = [one for one in tried if one.column == column]
        calibrator = GroupedCalibrator(
            column,
            choice.row.calibrator,
            tuple(one.name for one in seen),
            tuple(one.whole if one in chosen else None for one in seen),
            n_classes=comparison.n_classes,
        )
        with np.errstate(divide="ignore"):
            log_probs = np.log(comparison.held_out_probs(choice.row.method, on.rows.logits))
        for one in chosen:
            log_probs[one.rows] = one.log_probs
    paired = PairedMeans.of(
        np.stack([shared, _nested(comparison, fits, shared, weights)], axis=1),
        weights=weights,
        cluster=comparison.cluster,
        n_resamples=comparison.n_resamples,
        seed=comparison.seed,
    )
    return GroupChoice(
        method,
        tuple(one.trial(shared, weights, tests.get(one)) for one in tried),
        calibrator,
        paired.interval(0),
        paired.interval(1),
        log_probs,
        has_clusters=comparison.cluster is not None,
    )


@dataclass(frozen=True, eq=False)
class _Group:
    """A group, its rows among those evaluated on, and its own calibrator or why it has none."""

    column: str
    name: str
    rows: NDArray[np.intp]
    reason: str = ""
    whole: Calibrator | None = None
    log_probs: NDArray[Any] | None = None
    """held out, of its rows"""
    nll: Floats = field(default_factory=lambda: np.empty(0))

    def trial(
        self, shared: Floats, weights: Floats | None, p_values: tuple[float, float] | None
    ) -> GroupTrial:
        """Return what there is to say about the group."""
        some = None if weights is None else weights[self.rows]
        n, own = len(self.rows), math.nan
        before = float(np.average(shared[self.rows], weights=some)) if n else math.nan
        if self.whole is not None:
            own = float(np.average(self.nll, weights=some))
        p_value, adjusted = p_values or (math.nan, math.nan)
        return GroupTrial(self.column, self.name, n, before, own, p_value, adjusted, self.reason)


def _method(comparison: Comparison, choice: Choice) -> str:
    """Return the method to fit on groups: a single one, and one that fits something."""
    name = choice.row.method
    if name == AVERAGE:
        name = choose(comparison, simple=True).row.method
    if not METHODS[name].learns:
        name = "platt" if comparison.n_classes == 2 else "structured_vector"
    return name


def _tried(
    comparison: Comparison,
    method: str,
    fitted: Rows,
    at: NDArray[np.intp],
    judged: Rows,
    found: _Group,
) -> _Group:
    """Return the group with its own calibrator, fitted `at` its rows, or why there is none."""
    rows, theirs = fitted.take(at), judged.take(found.rows)
    if min(len(at), len(found.rows)) < LEAST_ROWS:
        return replace(found, reason="too few rows")
    if bool((rows.logits.argmax(axis=1) == rows.labels).all()):
        return replace(found, reason="every prediction is right")
    fold = comparison.fold_of_row[at]
    folds = tuple(np.flatnonzero(fold == f) for f in range(comparison.n_folds))
    crossed = cross_fit(rows, [method], folds, settings=comparison.settings)
    if crossed.failed:  # such as a group that lacks a class
        return replace(found, reason=f"not fitted: {crossed.failed[0][1]}")
    own = crossed.fits[method]
    log_probs = np.empty(theirs.logits.shape)
    for index, some in own.held_out(theirs.logits, folds):
        log_probs[index] = some
    nll = -log_probs[np.arange(theirs.n_rows), theirs.labels]
    return replace(found, whole=own.whole, log_probs=log_probs, nll=nll)


def one_sided_p_value(gain: Floats, weights: Floats | None) -> float:
    """Return the p-value of the mean of `gain` being positive: a paired t-test.

    Weights that are not whole numbers count as their effective number of rows. Rows are counted
    where there are clusters, too: by images, no class of a detector would get its own calibrator,
    though on other images its scores are better (`docs/howto/detections.md`).
    """
    if not np.isfinite(gain).all():
        return 1.0
    error = float(standard_error(gain, weights))
    if not error > 0:
        return 1.0
    freedom = max(1.0, sample_size(weights, len(gain)) - 1.0)
    return float(stdtr(freedom, -float(np.average(gain, weights=weights)) / error))


def _decide(
    fits: Sequence[_Group], shared: Floats, kept: NDArray[np.bool_], weights: Floats | None
) -> tuple[dict[_Group, tuple[float, float]], list[_Group]]:
    """Return the p-values by the rows of `kept`, and the groups chosen: of one column."""
    p_values, gains = [], []
    for own in fits:
        inside = kept[own.rows]
        at = own.rows[inside]
        some = None if weights is None else weights[at]
        gain = shared[at] - own.nll[inside]
        p_values.append(one_sided_p_value(gain, some) if len(at) > 1 else 1.0)
        gains.append(float(gain.sum() if some is None else gain @ some))
    tests = dict(zip(fits, zip(p_values, holm(p_values), strict=True), strict=True))
    total: dict[str, float] = {}
    for own, gain_of in zip(fits, gains, strict=True):
        if tests[own][1] < LEVEL:
            total[own.column] = total.get(own.column, 0.0) + gain_of
    best = max(total, key=total.__getitem__, default=None)
    return tests, [g for g in fits if g.column == best and tests[g][1] < LEVEL]


def _nested(
    comparison: Comparison, fits: Sequence[_Group], shared: Floats, weights: Floats | None
) -> Floats:
    """Return the log loss of each row, its fold decided without it."""
    nested = shared.copy()
    for fold in comparison.folds or _parts(comparison, len(shared)):
        kept = np.ones(len(shared), dtype=bool)
        kept[fold] = False
        for own in _decide(fits, shared, kept, weights)[1]:
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


def _record(found: GroupTrial | Score) -> dict[str, Any]:
    """Return the fields, a number that is not defined as None."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in vars(found).items()
    }
