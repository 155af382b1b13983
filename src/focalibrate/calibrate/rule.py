"""The rule of the automatic choice: one for `fit_auto`, the estimators and the command."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate._input import ScoredRows
from focalibrate.calibrate.effort import is_too_slow
from focalibrate.calibrate.folds import fold_count

TWO_CLASSES = ("identity", "temperature", "platt", "quadratic", "beta", "spline")
MANY_CLASSES = ("identity", "temperature", "structured_vector", "structured_matrix")
"""Methods pooled by default, from simple to complex."""
CLEAR_GAIN = 1.28
"""Standard errors by which a calibrator must beat the model to be chosen: a one-sided test at the
10 % level."""
NEAR = 1.0
"""Standard errors within which a simpler single method is as good as the best."""
TINY = 1e-12
POOL_GAIN = 0.5
"""Standard errors by which the pool must beat that single method to be chosen."""


def pool_members(rows: ScoredRows, trained_gamma: float | None = None) -> tuple[str, ...]:
    """Return the methods that are pooled for such data, from simple to complex."""
    names = TWO_CLASSES if rows.n_classes == 2 else MANY_CLASSES
    n_fits = 1 + fold_count(rows)
    kept = tuple(name for name in names if not is_too_slow(name, rows, n_fits))
    return (*kept, "focal_loss_temperature") if trained_gamma else kept


def candidates(rows: ScoredRows, trained_gamma: float | None = None) -> tuple[str, ...]:
    """Return the single methods that the automatic choice is made from."""
    members = pool_members(rows, trained_gamma)
    return (*members, "posterior_recovery") if trained_gamma else members


@dataclass(frozen=True)
class Pick:
    """What the rule picks, by position."""

    chosen: int
    single: int
    """The simplest single method within a standard error of the best single one."""
    best: int
    """The lowest mean loss."""
    equals: tuple[int, ...]
    """Single methods within a standard error of the best single one."""


def pick(
    losses: Floats,
    complexity: Sequence[int],
    *,
    weights: Floats | None = None,
    size: float | None = None,
    model: int | None = None,
    pool: int | None = None,
) -> Pick:
    """Pick a method by its held-out losses.

    1. Of the single methods take the simplest within one standard error of the best.
    2. The pool is taken instead if it is better by more than half a standard error.
    3. Both must beat the model by 1.28 standard errors; otherwise the model is kept.

    Standard errors are of the mean difference, paired by row.

    Args:
        losses: held-out loss of each row and method ``[N, M]``.
        complexity: of each method; the simplest has the lowest number.
        weights: of the rows ``[N]``.
        size: number of rows, if whole weights count copies. Default: each
            entry is one observation, whatever its weight, such as the mean of a group of rows.
        model: which method is the model as it is. Default: none, such as where its log loss is
            infinite.
        pool: which method is the pool. Default: none.
    """
    means = np.average(losses, axis=0, weights=weights)
    order = list(range(len(means)))
    singles = [i for i in order if i != pool]

    def gain(i: int, over: int) -> tuple[float, float]:
        gap = losses[:, over] - losses[:, i]
        return _mean_and_error(gap, weights, size)

    def is_clear(i: int) -> bool:
        if model is None or i == model:
            return True
        mean, error = gain(i, model)
        return mean > CLEAR_GAIN * error

    lead = min(singles, key=lambda i: (means[i], complexity[i]))
    equals = []
    for i in singles:
        mean, error = gain(lead, i)
        if i == lead or mean <= NEAR * error:
            equals.append(i)
    single = min(equals, key=lambda i: (complexity[i], means[i]))
    if model is not None and not is_clear(single):
        single = model
    chosen = single
    if pool is not None and is_clear(pool):
        mean, error = gain(pool, single)
        if single == model or mean > POOL_GAIN * error:
            chosen = pool
    best = min(order, key=lambda i: (means[i], complexity[i]))
    return Pick(chosen, single, best, tuple(equals))


def _mean_and_error(
    values: Floats, weights: Floats | None, size: float | None
) -> tuple[float, float]:
    """Return a mean and its standard error."""
    n = len(values)
    mean = float(np.average(values, weights=weights))
    squares = (values - mean) ** 2
    if weights is None or size is not None:
        size = n if size is None else size
        variance = float(np.average(squares, weights=weights)) / max(size - 1.0, TINY)
    else:
        variance = float((weights**2 * squares).sum()) / float(weights.sum()) ** 2
        variance *= n / max(n - 1.0, TINY)
    return mean, math.sqrt(variance) if n > 1 else math.inf
