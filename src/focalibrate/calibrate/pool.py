"""Pooling: a log-linear mixture of several calibrators, weighted by held-out log loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, namespace, working_dtype
from focalibrate._check import check_choice
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator, check_keys, frozen_numbers
from focalibrate.calibrate._engine.convex import minimise_convex
from focalibrate.calibrate._engine.reporting import report_on
from focalibrate.calibrate._input import ScoredRows, read_scores
from focalibrate.calibrate._settings import check_numbers
from focalibrate.calibrate.fit_report import collected_warnings
from focalibrate.calibrate.folds import fold_count, split_over_folds
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.rule import pool_members
from focalibrate.calibrate.shared_fits import fit_each_part
from focalibrate.calibrate.single import SINGLE_METHODS

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Pool(Calibrator):
    r"""Log-linear pool :math:`\operatorname{softmax}(\sum_m w_m \log p_m)`, mixed with uniform.

    The result is :math:`(1-\varepsilon)` of the pool plus :math:`\varepsilon/K`, so that no
    possible class gets probability 0.
    """

    members: tuple[Calibrator, ...]
    weights: tuple[float, ...]
    """Weights of the members, > 0; they need not sum to 1."""
    mix: float
    r""":math:`\varepsilon`."""
    kind: ClassVar[str] = "pool"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_numbers(self.weights, name="weights")
        if not self.members or len(self.members) != len(self.weights) or min(self.weights) <= 0:
            raise ValueError(
                "`members` must be at least one calibrator with a weight > 0 each, got "
                f"{len(self.members)} and weights {self.weights!r:.80}."
            )
        if any(isinstance(member, Pool) for member in self.members):
            raise ValueError("`members` must not be pools themselves.")
        if not 0 <= self.mix < 1:
            raise ValueError(f"`mix` must lie in [0, 1), got {self.mix!r}.")

    def _own_classes(self) -> int | None:
        return next((m.n_classes for m in self.members if m.n_classes is not None), None)

    def _log_probs(self, x: Array) -> Array:
        xp = namespace(x)
        z = xp.astype(x, working_dtype(x))
        is_possible = xp.isfinite(z)
        total = xp.zeros_like(z)
        for weight, member in zip(self.weights, self.members, strict=True):
            part = member._log_probs(z)
            # 0 times -inf is nan, in a derivative if not here
            total = total + weight * xp.where(is_possible, part, xp.zeros_like(part))
        pooled = log_softmax(xp.where(is_possible, total, xp.full_like(total, -xp.inf)))
        if self.mix:
            count = xp.sum(xp.astype(is_possible, z.dtype), axis=-1, keepdims=True)
            mixed = xp.log((1.0 - self.mix) * xp.exp(pooled) + self.mix / count)
            pooled = xp.where(is_possible, mixed, xp.full_like(mixed, -xp.inf))
        return xp.astype(pooled, x.dtype)

    def _parameters(self) -> dict[str, Any]:
        return {
            "members": [member.to_dict() for member in self.members],
            "weights": self.weights,
            "mix": self.mix,
        }

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        check_keys(parameters, ("members", "weights", "mix"), what="parameters of 'pool'")
        members = parameters["members"]
        if not isinstance(members, (list, tuple)):
            raise ValueError(f"`members` must be a list, got {type(members).__name__}.")
        for member in members:
            if isinstance(member, dict) and member.get("kind") == cls.kind:
                raise ValueError("`members` must not be pools themselves.")
        return {
            "members": tuple(Calibrator.from_dict(member) for member in members),
            "weights": frozen_numbers(parameters["weights"], "weights"),
            "mix": frozen_numbers(parameters["mix"], "mix"),
        }

    def describe(self) -> str:
        """Return a one-line description."""
        parts = ", ".join(
            f"{w:.3g} {m.kind}" for w, m in zip(self.weights, self.members, strict=True)
        )
        return f"pool: {parts}"


RIDGE = 1.0
"""Strength of the penalty towards equal weights, as a number of rows."""
LEAST_WEIGHT = 0.005
"""Members below this share of the largest weight are dropped; up to twice it they fade."""
MAX_EXACT_ENTRIES, SAMPLE_ROWS = 1_000_000, 3000
"""Above this many entries the weights are found on this many rows, then corrected by all."""


def fit_pool(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    members: Sequence[str] | None = None,
    seed: int | np.random.Generator = 0,
    return_report: bool = False,
) -> Any:
    r"""Fit several methods and the weights of their log-linear pool.

    .. math:: \min_{w \ge 0} \frac1n\sum_i -\log\operatorname{softmax}\Big(\sum_m w_m
              \log p_m^{(-i)}\Big)_{y_i} + \frac{r}{n} \Big\|w - \frac1M\Big\|^2

    with :math:`p_m^{(-i)}` from a fit that did not see row i (five stratified folds, three for
    large data); the members are then fitted again on all rows, those without weight are dropped.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        members: names of the single methods to pool, none that needs the training exponent.
            Default: six for two classes, four for more; fewer where they would take too long.
        seed: random seed of the folds.
        return_report: also return a `FitReport`; its value is the held-out log loss.

    Returns:
        `Pool`, and the report if requested.
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    names = pool_members(rows) if members is None else tuple(members)
    known = tuple(name for name, method in SINGLE_METHODS.items() if not method.needs_gamma)
    for name in names:
        check_choice(name, known, name="members")
    crossed = cross_fit(rows, names, seed=seed)
    found, losses = pooled(crossed)
    if not return_report:
        return found
    return found, report_on(
        found,
        rows,
        value=float(np.average(losses, weights=crossed.rows.weights)),
        n_evaluations=1,
    )


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Methods fitted on all rows, and the held-out log-probabilities of each row."""

    rows: ScoredRows
    """The rows as they were held out: one of weight 3 may be in up to three folds."""
    calibrators: dict[str, Calibrator]
    held_out: dict[str, NDArray[Any]]
    """Log-probabilities ``[N, K]``."""


def cross_fit(
    rows: ScoredRows,
    names: Sequence[str],
    *,
    trained_gamma: float | None = None,
    seed: int | np.random.Generator = 0,
) -> CrossFitted:
    """Fit each method on all rows and on all folds but one; leave out those that fail.

    Args:
        rows: the rows.
        names: methods, of `SINGLE_METHODS`.
        trained_gamma: exponent of the focal loss trained with, for methods that need it.
        seed: random seed of the folds.
    """
    rows, folds = split_over_folds(rows, fold_count(rows), seed)
    every = np.arange(rows.n_rows)
    kept = [np.setdiff1d(every, fold, assume_unique=True) for fold in folds]
    parts = Parts(rows, [slice(None), *kept])
    calibrators, held_out = {}, {}
    for name in names:
        method = SINGLE_METHODS[name]
        options = {"gamma": trained_gamma} if method.needs_gamma else {}
        with collected_warnings():
            try:
                whole, *others = fit_each_part(name, parts, method.fit, **options)
            except ValueError:  # such as a fold that lacks a class
                continue
        calibrators[name], held_out[name] = whole, _held_out(rows, folds, others)
    return CrossFitted(rows, calibrators, held_out)


def _held_out(
    rows: ScoredRows, held: Sequence[NDArray[np.intp]], calibrators: Sequence[Calibrator]
) -> NDArray[Any]:
    """Return log-probabilities of all rows, each by the calibrator fitted without it."""
    log_probs = np.empty(rows.logits.shape, dtype=np.float64)
    for index, calibrator in zip(held, calibrators, strict=True):
        log_probs[index] = calibrator.log_probs(rows.logits[index])
    return log_probs


def held_out_losses(rows: ScoredRows, log_probs: NDArray[Any]) -> Floats:
    """Return the log loss of each row."""
    return np.asarray(-log_probs[np.arange(rows.n_rows), rows.labels], dtype=np.float64)


def pooled(crossed: CrossFitted, members: Sequence[str] | None = None) -> tuple[Pool, Floats]:
    """Return the pool of cross-fitted methods and its held-out log loss in each row."""
    rows = crossed.rows
    names = [n for n in crossed.calibrators if members is None or n in members]
    if not names:
        raise ValueError("No member of the pool could be fitted to these rows. Fit on more data.")
    held_out = [crossed.held_out[name] for name in names]
    weights = pool_weights(rows, held_out)
    calibrators = [crossed.calibrators[name] for name in names]
    found = weighted_pool(rows, weights, calibrators, surprise(rows, held_out))
    return found, held_out_losses(rows, pooled_log_probs(rows.logits, held_out, weights))


def weighted_pool(
    rows: ScoredRows, weights: Floats, members: Sequence[Calibrator], mix: float
) -> Pool:
    """Return the pool of those members that have a weight."""
    kept = [(float(w), member) for w, member in zip(weights, members, strict=True) if w > 0]
    return rows.stamp(Pool(tuple(m for _, m in kept), tuple(w for w, _ in kept), mix))


def pooled_log_probs(
    logits: NDArray[Any], log_probs: Sequence[NDArray[Any]], weights: Floats
) -> Floats:
    """Return the log-probabilities of the pool from those of its members, without `mix`."""
    is_possible = np.isfinite(logits)
    total = np.where(is_possible, 0.0, -np.inf)
    for weight, part in zip(weights, log_probs, strict=True):
        if weight > 0:
            total += weight * np.where(is_possible, part, 0.0)
    return np.asarray(log_softmax(total))


def surprise(rows: ScoredRows, held_out: Sequence[NDArray[Any]]) -> float:
    """Return the share of the uniform distribution: 0, but for data without a single error.

    Where all held-out rows are predicted right, nothing bounds the confidence that fits best;
    by the rule of succession an error is still to be expected once in n + 1 rows.
    """
    wrong = any(bool((p.argmax(axis=1) != rows.labels).any()) for p in held_out)
    return 0.0 if wrong else 1.0 / (rows.size + 1.0)


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
