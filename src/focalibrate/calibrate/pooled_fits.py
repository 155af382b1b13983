"""Pooling: several methods cross-fitted, and pooled by their held-out log loss."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_choice
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.reporting import finished
from focalibrate.calibrate._input import ScoredRows, read_scores
from focalibrate.calibrate.fit_report import collected_warnings
from focalibrate.calibrate.folds import fold_count, split_over_folds
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.pool import Pool
from focalibrate.calibrate.pool_weights import pool_weights
from focalibrate.calibrate.rule import pool_members
from focalibrate.calibrate.shared_fits import fit_each_part
from focalibrate.calibrate.single import SINGLE_METHODS


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
    return finished(
        found,
        rows,
        return_report,
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
    return rows.stamp(
        Pool(tuple(replace(m, class_names=None) for _, m in kept), tuple(w for w, _ in kept), mix)
    )


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
