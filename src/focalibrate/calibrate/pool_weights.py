"""The weights of a pool: those with the least held-out log loss, small ones faded out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._engine.convex import minimise_convex
from focalibrate.calibrate._input import ScoredRows

RIDGE = 1.0
"""Strength of the penalty towards equal weights, as a number of rows."""
LEAST_WEIGHT = 0.005
"""Members below this share of the largest weight are dropped; up to twice it they fade."""
MAX_EXACT_ENTRIES, SAMPLE_ROWS = 1_000_000, 3000
"""Above this many entries the weights are found on this many rows, then corrected by all."""


def pool_weights(rows: ScoredRows, log_probs: Sequence[NDArray[Any]]) -> Floats:
    """Return the weights of the pool, small ones faded out.

    For large data the weights of a sample are corrected by one Newton step on all rows.
    """
    if rows.logits.size <= MAX_EXACT_ENTRIES:
        return faded(_weights(rows, log_probs))
    step = -(-rows.n_rows // SAMPLE_ROWS)
    start = _weights(rows.take(slice(None, None, step)), [p[::step] for p in log_probs])
    return NearbyWeights.of(rows, log_probs, start).on(np.ones(rows.n_rows, dtype=bool))


def faded(weights: Floats) -> Floats:
    """Return `weights` of the same sum with the small ones 0.

    A weight below `LEAST_WEIGHT` of the largest becomes 0, one above twice that is kept, and
    between them it fades: the result does not jump where a weight differs in its last digit.
    """
    top = float(weights.max())
    if not top > 0:  # scores without information: as good as no weight at all
        return np.where(np.arange(len(weights)) == 0, LEAST_WEIGHT, 0.0)
    share = weights / top
    kept = weights * np.clip(share / LEAST_WEIGHT - 1.0, 0.0, 1.0)
    return np.asarray(kept * (weights.sum() / kept.sum()))


def _weights(rows: ScoredRows, log_probs: Sequence[NDArray[Any]]) -> Floats:
    n_members = len(log_probs)
    objective = _objective(rows, log_probs, RIDGE / rows.size)
    start = np.full(n_members, 1.0 / n_members)
    return minimise_convex(objective, start, lower=np.zeros(n_members)).x


def _objective(
    rows: ScoredRows, log_probs: Sequence[NDArray[Any]], ridge: float
) -> Callable[[Floats], tuple[float, Floats, Floats]]:
    """Return the mean log loss of the pool as a function of the weights, with derivatives."""
    n_members, n = len(log_probs), rows.n_rows
    share = np.full(n, 1.0 / n) if rows.weights is None else rows.weights / rows.weights.sum()
    is_possible = np.isfinite(rows.logits)
    logs = np.stack([np.where(is_possible, p, 0.0) for p in log_probs])
    true = logs[:, np.arange(n), rows.labels]
    closed = np.where(is_possible, 0.0, -np.inf)

    def objective(w: Floats) -> tuple[float, Floats, Floats]:
        z = np.tensordot(w, logs, axes=1) + closed
        top = z.max(axis=1, keepdims=True)
        p = np.exp(z - top)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        log_total = np.log(total[:, 0]) + top[:, 0]
        value = float(share @ (log_total - w @ true))
        mean = np.einsum("mnk,nk->mn", logs, p)
        gradient = (mean - true) @ share
        weighted = (logs * (p * share[:, None])).reshape(n_members, -1)
        second = weighted @ logs.reshape(n_members, -1).T - (mean * share) @ mean.T
        gap = w - 1.0 / n_members
        return (
            value + ridge * float(gap @ gap),
            gradient + 2.0 * ridge * gap,
            second + 2.0 * ridge * np.eye(n_members),
        )

    return objective


@dataclass(frozen=True, eq=False)
class NearbyWeights:
    """The pool's log loss to second order near some weights, row by row.

    Sums over rows are those of the objective without its ridge, so that fits to parts of the
    rows share them.
    """

    rows: ScoredRows
    start: Floats
    gradients: Floats
    """``[M, N]``"""
    seconds: Floats
    """``[M, M, N]``"""

    @classmethod
    def of(
        cls, rows: ScoredRows, log_probs: Sequence[NDArray[Any]], weights: Floats
    ) -> "NearbyWeights":
        """Expand around `weights`; those that are 0 are lifted, as they may come back."""
        least = LEAST_WEIGHT * max(float(weights.max()), LEAST_WEIGHT)
        start = np.maximum(weights, least)
        n = rows.n_rows
        is_possible = np.isfinite(rows.logits)
        logs = [np.where(is_possible, p, 0.0) for p in log_probs]
        z = np.where(is_possible, 0.0, -np.inf)
        for weight, part in zip(start, logs, strict=True):
            z += weight * part
        z -= z.max(axis=1, keepdims=True)
        p = np.exp(z, out=z)
        p /= p.sum(axis=1, keepdims=True)
        mean = np.stack([np.einsum("nk,nk->n", part, p) for part in logs])
        true = np.stack([part[np.arange(n), rows.labels] for part in logs])
        second = np.empty((len(logs), len(logs), n))
        for i, first in enumerate(logs):
            weighted = first * p
            for j in range(i + 1):
                value = np.einsum("nk,nk->n", weighted, logs[j]) - mean[i] * mean[j]
                second[i, j] = second[j, i] = value
        return cls(rows, start, mean - true, second)

    def on(self, kept: NDArray[np.bool_]) -> Floats:
        """Return the weights that are best for the rows `kept`."""
        mass = np.ones(self.rows.n_rows) if self.rows.weights is None else self.rows.weights
        share = np.where(kept, mass, 0.0)
        share /= share.sum()
        ridge = 2.0 * RIDGE / self.rows.take(kept).size
        start = self.start
        second = self.seconds @ share + ridge * np.eye(len(start))
        gradient = self.gradients @ share + ridge * (start - 1.0 / len(start))

        def objective(w: Floats) -> tuple[float, Floats, Floats]:
            move = w - start
            slope = gradient + second @ move
            return float(0.5 * move @ (gradient + slope)), slope, second

        return faded(minimise_convex(objective, start, lower=np.zeros(len(start))).x)
