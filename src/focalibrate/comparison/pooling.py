"""The pool of methods that were compared, from the fits that the comparison has already made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import ScoredRows
from focalibrate.calibrate.pool_weights import NearbyWeights, pool_weights
from focalibrate.calibrate.pooled_fits import pooled_log_probs, surprise, weighted_pool
from focalibrate.comparison.fitted import Fitted


@dataclass(frozen=True, eq=False)
class FittedPool:
    """The pool, and the probabilities that it is chosen by."""

    fitted: Fitted
    log_probs: Floats
    """held-out log-probabilities ``[N, K]`` of its members with the weights of all rows: what
    `fit_auto` chooses by. Scores come from weights without the fold."""


def pool_of(
    fits: Mapping[str, Fitted],
    rows: ScoredRows,
    folds: Sequence[NDArray[np.intp]],
    members: Sequence[str],
) -> FittedPool:
    """Return the pool of those of its `members` that were fitted.

    The weights minimise the log loss of held-out probabilities, as `fit_pool` has it, but no
    member is fitted again. The pool that a fold is evaluated by has members fitted without that
    fold and weights found without it: one Newton step away from those of all rows.
    """
    names = [name for name in members if name in fits]
    if len(names) < 2:
        raise ValueError("fewer than two of its members could be fitted")
    held_out = [fits[name].held_out_log_probs(rows.logits, folds) for name in names]
    whole, without_fold = fold_weights(rows, held_out, folds)
    fitted = [fits[name] for name in names]
    mix = surprise(rows, held_out)
    pool = Fitted(
        weighted_pool(rows, whole, [f.whole for f in fitted], mix),
        tuple(
            weighted_pool(rows, weights, [f.without_fold[i] for f in fitted], mix)
            for i, weights in enumerate(without_fold)
        ),
        (),
    )
    return FittedPool(pool, pooled_log_probs(rows.logits, held_out, whole))


def fold_weights(
    rows: ScoredRows, log_probs: Sequence[Floats], folds: Sequence[NDArray[np.intp]]
) -> tuple[Floats, list[Floats]]:
    """Return the weights of all rows, and those found without each fold.

    Args:
        rows: labels and weights.
        log_probs: held-out log-probabilities ``[N, K]`` of each member.
        folds: the rows of each fold.
    """
    whole = pool_weights(rows, log_probs)
    near = NearbyWeights.of(rows, log_probs, whole)
    without_fold = []
    for fold in folds:
        kept = np.ones(rows.n_rows, dtype=bool)
        kept[fold] = False
        without_fold.append(near.on(kept))
    return whole, without_fold
