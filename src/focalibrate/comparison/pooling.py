"""The pool of methods that were compared, from the fits that the comparison has already made."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Calibrator, Pool, ScoredRows
from focalibrate.calibrate.pool import (
    LEAST_WEIGHT,
    RIDGE,
    default_members,
    pool_derivatives,
    pool_weights,
    quadratic_minimum,
    surprise,
)
from focalibrate.comparison.fitted import Fitted

Floats = NDArray[np.float64]

SAMPLE_ROWS = 3000
"""Rows that the weights are first found on; all rows then correct them by one Newton step."""


def pool_of(
    fits: Mapping[str, Fitted], rows: ScoredRows, folds: Sequence[NDArray[np.intp]]
) -> Fitted:
    """Return the pool of those of its usual members that were fitted.

    The weights minimise the log loss of held-out probabilities, as `fit_pool` has it, but no
    member is fitted again. The pool that a fold is evaluated by has members fitted without that
    fold and weights found without it: one Newton step away from those of all rows.
    """
    names = [name for name in default_members(rows) if name in fits]
    if len(names) < 2:
        raise ValueError("fewer than two of its members could be fitted")
    held_out = [fits[name].held_out_log_probs(rows.logits, folds) for name in names]
    whole, without_fold = fold_weights(rows, held_out, folds)
    members = [fits[name] for name in names]
    mix = surprise(rows, held_out)
    return Fitted(
        _pool(rows, whole, [m.whole for m in members], mix),
        tuple(
            _pool(rows, weights, [m.without_fold[i] for m in members], mix)
            for i, weights in enumerate(without_fold)
        ),
        (),
    )


def fold_weights(
    rows: ScoredRows, log_probs: Sequence[Floats], folds: Sequence[NDArray[np.intp]]
) -> tuple[Floats, list[Floats]]:
    """Return the weights of all rows, and those found without each fold.

    Args:
        rows: labels and weights.
        log_probs: held-out log-probabilities ``[N, K]`` of each member.
        folds: the rows of each fold.
    """
    step = -(-rows.n_rows // SAMPLE_ROWS)
    start = pool_weights(rows.take(slice(None, None, step)), [p[::step] for p in log_probs])
    # A member dropped on the sample may come back, but Newton's method needs it inside.
    start = np.maximum(start, LEAST_WEIGHT * max(start.max(), LEAST_WEIGHT))
    gradients, seconds = pool_derivatives(rows, log_probs, start)
    mass = np.ones(rows.n_rows) if rows.weights is None else rows.weights

    def on(kept: NDArray[np.bool_]) -> Floats:
        share = np.where(kept, mass, 0.0)
        share /= share.sum()
        ridge = 2.0 * RIDGE / rows.take(kept).size
        second = seconds @ share + ridge * np.eye(len(start))
        gradient = gradients @ share + ridge * (start - 1.0 / len(start))
        found = quadratic_minimum(gradient, second, start)
        if not found.any():  # scores without information
            found[0] = LEAST_WEIGHT
        return np.where(found >= LEAST_WEIGHT * found.max(), found, 0.0)

    without_fold = []
    for fold in folds:
        kept = np.ones(rows.n_rows, dtype=bool)
        kept[fold] = False
        without_fold.append(on(kept))
    return on(np.ones(rows.n_rows, dtype=bool)), without_fold


def _pool(rows: ScoredRows, weights: Floats, members: Sequence[Calibrator], mix: float) -> Pool:
    kept = [(float(w), member) for w, member in zip(weights, members, strict=True) if w > 0]
    pool = Pool(tuple(m for _, m in kept), tuple(w for w, _ in kept), mix)
    return rows.stamp(pool)
