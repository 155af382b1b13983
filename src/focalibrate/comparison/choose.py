"""The method to deploy, by a rule stated in words."""

from dataclasses import dataclass

import numpy as np

from focalibrate.calibrate.choice import pick, reason_for
from focalibrate.calibrate.methods import AVERAGE, MODEL
from focalibrate.calibrate.rows import LARGEST, sample_size
from focalibrate.comparison.paired import by_cluster
from focalibrate.comparison.result import Comparison, MethodResult


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
    _check_any_fit(comparison)
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
    picked = pick(
        losses,
        weights=weights,
        size=sample_size(weights, len(losses)) if are_rows else None,
        model=0 if rows[0].method == MODEL else None,
    )
    how = "cross-validated" if comparison.judged_on == "cross-fit" else "test"
    means = [row.scores["nll"].estimate for row in rows]
    return Choice(
        row=rows[picked.chosen],
        best=rows[picked.best],
        is_forced=False,
        reason=""  # the verdict says it
        if picked.chosen == picked.best
        else reason_for(picked, [row.label for row in rows], means, how),
    )


def _check_any_fit(comparison: Comparison) -> None:
    if comparison.skipped and all(row.method == MODEL for row in comparison.rows):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in comparison.skipped)
        raise ValueError(
            f"No calibration method could be fitted, so there is no verdict. {reasons}"
        )
