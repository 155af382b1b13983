"""Pooling: a log-linear mixture of several calibrators, weighted by held-out log loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, namespace, working_dtype
from focalibrate._check import check_choice, is_whole
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator, check_keys, frozen_numbers
from focalibrate.calibrate._engine.columns import count_changed
from focalibrate.calibrate._engine.convex import minimise_convex
from focalibrate.calibrate._input import ScoredRows, read_scores
from focalibrate.calibrate._settings import check_numbers
from focalibrate.calibrate.binary import fit_beta, fit_platt, fit_quadratic
from focalibrate.calibrate.ensemble import fit_ensemble_temperature
from focalibrate.calibrate.fit_report import FitReport, collected_warnings
from focalibrate.calibrate.focal_temperature import fit_focal_temperature
from focalibrate.calibrate.isotonic import fit_isotonic
from focalibrate.calibrate.parametric import Identity
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.shared_fits import fit_each_part
from focalibrate.calibrate.spline import fit_spline
from focalibrate.calibrate.structured import fit_structured_matrix, fit_structured_vector
from focalibrate.calibrate.temperature import fit_temperature
from focalibrate.calibrate.vector import fit_vector_scaling
from focalibrate.calibrate.venn_abers import fit_venn_abers

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
        """Return one line for a person to read."""
        parts = ", ".join(
            f"{w:.3g} {m.kind}" for w, m in zip(self.weights, self.members, strict=True)
        )
        return f"pool: {parts}"


def _fit_identity(
    logits: Array, labels: Array | None = None, *, sample_weight: Array | None = None
) -> Identity:
    return read_scores(logits, labels, sample_weight=sample_weight).stamp(Identity())


MEMBER_FITS: dict[str, Callable[..., Any]] = {
    "identity": _fit_identity,
    "temperature": fit_temperature,
    "focal_temperature": partial(fit_focal_temperature, criterion="nll", search="continuous"),
    "platt": fit_platt,
    "quadratic": fit_quadratic,
    "beta": fit_beta,
    "spline": fit_spline,
    "ensemble_temperature": fit_ensemble_temperature,
    "vector": fit_vector_scaling,
    "structured_vector": fit_structured_vector,
    "focal_structured_vector": partial(fit_structured_vector, base="focal_temperature"),
    "structured_matrix": fit_structured_matrix,
    "focal_structured_matrix": partial(fit_structured_matrix, base="focal_temperature"),
    "isotonic": fit_isotonic,
    "venn_abers": fit_venn_abers,
}
"""Methods that can be pooled."""
TWO_CLASSES = ("identity", "temperature", "platt", "quadratic", "beta", "spline")
MANY_CLASSES = ("identity", "temperature", "structured_vector", "structured_matrix")
"""Methods pooled unless others are asked for."""
N_FOLDS = 5
FEW_FOLDS, MANY_ENTRIES = 3, 60_000
"""Folds, and how many of them from so many logits on."""
MAX_COPIES = 10_000_000
"""Copies of rows in a class that are dealt out to the folds one by one."""
RIDGE = 1.0
"""Strength of the pull of the weights towards equality, as so many rows."""
LEAST_WEIGHT = 0.01
"""Members of a smaller weight are dropped."""


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
        members: names of the methods to pool, of `MEMBER_FITS`. Default: six for two classes,
            four for more.
        seed: random seed of the folds.
        return_report: also return a `FitReport`; its value is the held-out log loss.

    Returns:
        `Pool`, and the report if asked for.
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    names = default_members(rows) if members is None else tuple(members)
    for name in names:
        check_choice(name, tuple(MEMBER_FITS), name="members")
    crossed = cross_fit(rows, names, seed=seed)
    found, losses = pooled(crossed)
    if not return_report:
        return found
    return found, FitReport(
        method=found.kind,
        criterion="nll",
        value=float(np.average(losses, weights=crossed.rows.weights)),
        n_rows=rows.n_rows,
        n_classes=rows.n_classes,
        n_evaluations=1,
        n_predictions_changed=count_changed(found, rows.logits),
    )


def default_members(rows: ScoredRows) -> tuple[str, ...]:
    """Return the methods that are pooled for such data."""
    return TWO_CLASSES if rows.n_classes == 2 else MANY_CLASSES


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Methods fitted on all rows, and what fits on the other folds say about each row."""

    rows: ScoredRows
    """The rows as they were held out: one of weight 3 may be in up to three folds."""
    calibrators: dict[str, Calibrator]
    held_out: dict[str, NDArray[Any]]
    """Log-probabilities ``[N, K]``."""


def cross_fit(
    rows: ScoredRows,
    names: Sequence[str],
    *,
    extra: Mapping[str, Callable[..., Any]] | None = None,
    seed: int | np.random.Generator = 0,
) -> CrossFitted:
    """Fit each method on all rows and on all folds but one; leave out those that cannot be.

    Args:
        rows: the rows.
        names: methods, of `MEMBER_FITS`.
        extra: further fits by name.
        seed: random seed of the folds.
    """
    fits = {name: MEMBER_FITS[name] for name in names} | dict(extra or {})
    is_many = n_copies(rows) * rows.n_classes > MANY_ENTRIES
    n_folds = min(FEW_FOLDS if is_many else N_FOLDS, n_copies(rows))
    rows, fold = split_over_folds(rows, n_folds, seed)
    held = [np.flatnonzero(fold == i) for i in np.unique(fold)]
    kept = [np.flatnonzero(fold != i) for i in np.unique(fold)]
    parts = Parts(rows, [slice(None), *kept])
    calibrators, held_out = {}, {}
    for name, fit in fits.items():
        with collected_warnings():
            try:
                whole, *others = fit_each_part(name, parts, fit)
            except ValueError:  # such as a fold that lacks a class
                continue
        calibrators[name], held_out[name] = whole, _held_out(rows, held, others)
    return CrossFitted(rows, calibrators, held_out)


def _held_out(
    rows: ScoredRows, held: Sequence[NDArray[np.intp]], calibrators: Sequence[Calibrator]
) -> NDArray[Any]:
    """Return log-probabilities of all rows, each by the calibrator fitted without it."""
    log_probs = np.empty(rows.logits.shape, dtype=np.float64)
    for index, calibrator in zip(held, calibrators, strict=True):
        log_probs[index] = calibrator.log_probs(rows.logits[index])
    return log_probs


def n_copies(rows: ScoredRows) -> int:
    """Return how many rows there are, counting a whole weight as copies of its row."""
    if rows.weights is None or not is_whole(rows.weights):
        return rows.n_rows
    return int(rows.weights.sum())


def split_over_folds(
    rows: ScoredRows, n_folds: int, seed: int | np.random.Generator
) -> tuple[ScoredRows, NDArray[np.intp]]:
    """Return the rows and the fold of each; every class is spread evenly over the folds.

    Equal rows go to different folds: kept together by label, the rows left of a score that many
    share would all be of the other labels. A row of weight 3 is three such rows: it comes once
    for each fold that holds some of them, with their number as its weight. Folds follow what is
    in a row and not where it stands, so that the order of the rows does not matter and weights
    give what copies give.
    """
    rng = np.random.default_rng(seed)
    counts = np.ones(rows.n_rows, dtype=np.int64)
    if rows.weights is not None and is_whole(rows.weights):
        counts = rows.weights.astype(np.int64)
    order = _by_content(rows)
    held = np.zeros((rows.n_rows, n_folds), dtype=np.int64)
    start = 0
    for label in np.unique(rows.labels):
        at = order[rows.labels[order] == label]
        total = int(counts[at].sum())
        if total <= MAX_COPIES:
            fold = np.empty(total, dtype=np.intp)
            fold[rng.permutation(total)] = (start + np.arange(total)) % n_folds
            np.add.at(held, (np.repeat(at, counts[at]), fold), 1)
        else:  # too many copies to deal out one by one
            held[at] = counts[at, None] // n_folds
            rest = (start + np.arange(n_folds)) % n_folds < counts[at, None] % n_folds
            held[at] += rest
        start += total
    row, fold_of_row = np.nonzero(held)
    if len(row) == rows.n_rows:  # no row is in two folds
        return rows, fold_of_row.astype(np.intp)
    weights = held[row, fold_of_row].astype(np.float64)
    return replace(rows.take(row), weights=weights), fold_of_row.astype(np.intp)


def _by_content(rows: ScoredRows) -> NDArray[np.intp]:
    """Return an order of the rows that does not depend on where they stand."""
    direction = np.random.default_rng(rows.n_classes).normal(size=rows.n_classes)
    key = np.empty(rows.n_rows)
    for start in range(0, rows.n_rows, 4096):
        block = np.asarray(rows.logits[start : start + 4096], dtype=np.float64)
        # not `@`, whose rounding depends on a row's neighbours
        key[start : start + 4096] = (np.where(np.isfinite(block), block, -1e3) * direction).sum(1)
    return np.argsort(key, kind="stable")


def held_out_losses(rows: ScoredRows, log_probs: NDArray[Any]) -> Floats:
    """Return the log loss of each row."""
    return np.asarray(-log_probs[np.arange(rows.n_rows), rows.labels], dtype=np.float64)


def pooled(crossed: CrossFitted) -> tuple[Pool, Floats]:
    """Return the pool of cross-fitted methods and its held-out log loss in each row."""
    rows = crossed.rows
    names = list(crossed.calibrators)
    if not names:
        raise ValueError("No member of the pool could be fitted to these rows. Fit on more data.")
    held_out = [crossed.held_out[name] for name in names]
    weights = pool_weights(rows, held_out)
    if not weights.any():  # scores without information: as good as no weight at all
        weights[0] = LEAST_WEIGHT
    kept = [(w, crossed.calibrators[n]) for w, n in zip(weights, names, strict=True) if w > 0]
    found = Pool(
        tuple(calibrator for _, calibrator in kept),
        tuple(float(w) for w, _ in kept),
        surprise(rows, held_out),
    )
    return rows.stamp(found), _pooled_losses(rows, held_out, weights)


def _pooled_losses(rows: ScoredRows, held_out: Sequence[NDArray[Any]], weights: Floats) -> Floats:
    is_possible = np.isfinite(rows.logits)
    total = sum(
        w * np.where(is_possible, p, 0.0) for w, p in zip(weights, held_out, strict=True) if w > 0
    )
    z = np.where(is_possible, total, -np.inf)
    return held_out_losses(rows, np.asarray(log_softmax(z)))


def surprise(rows: ScoredRows, held_out: Sequence[NDArray[Any]]) -> float:
    """Return the share of the uniform distribution: 0, but for data without a single error.

    Where all held-out rows are predicted right, nothing bounds the confidence that fits best;
    by the rule of succession an error is still to be expected once in n + 1 rows.
    """
    wrong = any(bool((p.argmax(axis=1) != rows.labels).any()) for p in held_out)
    return 0.0 if wrong else 1.0 / (rows.size + 1.0)


def pool_weights(rows: ScoredRows, log_probs: Sequence[NDArray[Any]]) -> Floats:
    """Return the weights of the pool, small ones set to 0."""
    weights = _weights(rows, log_probs)
    is_kept = weights >= LEAST_WEIGHT * weights.max()
    if not is_kept.all():
        weights = np.zeros(len(weights))
        weights[is_kept] = _weights(
            rows, [p for p, k in zip(log_probs, is_kept, strict=True) if k]
        )
    return weights


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


def pool_derivatives(
    rows: ScoredRows, log_probs: Sequence[NDArray[Any]], weights: Floats
) -> tuple[Floats, Floats]:
    """Return the gradient ``[M, N]`` and second derivatives ``[M, M, N]`` of each row's log loss.

    Sums over rows are those of the objective without its ridge, so that fits to parts of the
    rows can share them.
    """
    n = rows.n_rows
    is_possible = np.isfinite(rows.logits)
    logs = [np.where(is_possible, p, 0.0) for p in log_probs]
    z = np.where(is_possible, 0.0, -np.inf)
    for weight, part in zip(weights, logs, strict=True):
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
    return mean - true, second


def quadratic_minimum(gradient: Floats, second: Floats, start: Floats) -> Floats:
    """Return the minimum over ``w >= 0`` of the quadratic with these derivatives at `start`."""

    def objective(w: Floats) -> tuple[float, Floats, Floats]:
        move = w - start
        slope = gradient + second @ move
        return float(0.5 * move @ (gradient + slope)), slope, second

    return minimise_convex(objective, start, lower=np.zeros(len(start))).x
