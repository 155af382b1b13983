"""The automatic choice: a pool of methods, one simple method, or the model as it is."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_gamma
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._input import ScoredRows, read_scores
from focalibrate.calibrate.parametric import Identity
from focalibrate.calibrate.pool import (
    cross_fit,
    default_members,
    held_out_losses,
    pooled,
)
from focalibrate.calibrate.temperature import fit_temperature

Floats = NDArray[np.float64]

LEAST_LOG = float(np.log(np.finfo(np.float32).tiny))
"""A probability of 0 counts as float32's smallest number where the model itself is scored."""
CLEAR_GAIN = 1.28
"""Standard errors by which a calibrator must beat the model as it is to take its place: a
one-sided test at the 10 % level."""


@dataclass(frozen=True, eq=False)
class AutomaticChoice:
    """What was chosen, and the held-out losses it was chosen by."""

    calibrator: Calibrator
    method: str
    """``"pool"``, ``"identity"`` or the one method's name."""
    losses: dict[str, float]
    """Held-out mean log loss of every member, of the pool, and of the model (``"model"``)."""
    reason: str
    """In words."""


def fit_auto(
    *,
    labels: Array,
    logits: Array | None = None,
    probs: Array | None = None,
    trained_gamma: float | None = None,
    sample_weight: Array | None = None,
    simple: bool = False,
    seed: int | np.random.Generator = 0,
) -> Calibrator:
    """Return the calibrator to deploy, chosen by held-out log loss.

    Several methods are cross-fitted and pooled (see `fit_pool`). The pool takes the model's
    place only where it lowers the held-out log loss clearly (by a one-sided test at the 10 %
    level), or where the model gives probability 0 to a label that occurs; otherwise the model is
    kept as it is, so that a calibrated model is not harmed.

    Args:
        labels: class indices ``[N]``.
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        trained_gamma: exponent of the focal loss that the model was trained with, if it was:
            the temperature for that loss, with its posterior recovery, joins the pool.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        simple: choose one method instead of a pool: the simplest within a standard error of the
            lowest held-out log loss.
        seed: random seed of the folds.

    Returns:
        A calibrator; `explain_auto` says why it was chosen.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((2000, 4))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> fit_auto(logits=3.0 * truth, labels=labels).kind
        'pool'
        >>> fit_auto(logits=truth, labels=labels).kind
        'identity'
    """
    found = explain_auto(
        labels=labels,
        logits=logits,
        probs=probs,
        trained_gamma=trained_gamma,
        sample_weight=sample_weight,
        simple=simple,
        seed=seed,
    )
    return found.calibrator


def explain_auto(
    *,
    labels: Array,
    logits: Array | None = None,
    probs: Array | None = None,
    trained_gamma: float | None = None,
    sample_weight: Array | None = None,
    simple: bool = False,
    seed: int | np.random.Generator = 0,
) -> AutomaticChoice:
    """Return what `fit_auto` chooses, with the held-out losses and the reason."""
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    extra: dict[str, Callable[..., Any]] = {}
    if trained_gamma is not None:
        check_gamma(trained_gamma, name="trained_gamma")
        if trained_gamma:
            focal = partial(fit_temperature, criterion="focal", gamma=trained_gamma)
            extra["focal_loss_temperature"] = focal
    crossed = cross_fit(rows, default_members(rows), extra=extra, seed=seed)
    rows = crossed.rows
    model = _model_losses(rows)
    losses = {name: held_out_losses(rows, p) for name, p in crossed.held_out.items()}
    if simple:
        name, loss = _simplest(rows, losses)
        found = crossed.calibrators[name]
    else:
        found, loss = pooled(crossed)
        name = "pool"
    means = {n: _mean(rows, values) for n, values in {**losses, name: loss}.items()}
    means["model"] = _mean(rows, model)
    gain, error = _paired(rows, model, loss)
    has_true_zeros = bool(model.max() >= -LEAST_LOG)  # the model's own log loss is infinite
    if not (has_true_zeros or gain > CLEAR_GAIN * error):
        return AutomaticChoice(
            Identity(n_classes=rows.n_classes),
            "identity",
            means,
            f"Calibration lowers the held-out log loss by {gain:.4f} (standard error "
            f"{error:.4f}): no clear gain, the model is kept as it is.",
        )
    return AutomaticChoice(
        found,
        name,
        means,
        f"Held-out log loss {means[name]:.4f}, {gain:.4f} lower than the model's "
        f"(standard error {error:.4f}).",
    )


def _model_losses(rows: ScoredRows) -> Floats:
    """Return the log loss of each row by the model as it is, zeros included."""
    log_probs = np.asarray(Identity().log_probs(rows.logits.astype(np.float64)))
    true = log_probs[np.arange(rows.n_rows), rows.labels]
    if rows.zero_mix:  # undo the mixture, to score zeros as the zeros they are
        own = (np.exp(true) - rows.zero_mix / rows.n_classes) / (1.0 - rows.zero_mix)
        true = np.log(np.maximum(own, math.exp(LEAST_LOG)))
    return np.asarray(-np.maximum(true, LEAST_LOG))


def _simplest(rows: ScoredRows, losses: dict[str, Floats]) -> tuple[str, Floats]:
    """Return the first method, from simple to complex, within a standard error of the best."""
    best = min(losses, key=lambda name: _mean(rows, losses[name]))
    for name, values in losses.items():
        gain, error = _paired(rows, values, losses[best])
        if name == best or gain <= error:
            return name, values
    return best, losses[best]


def _mean(rows: ScoredRows, values: Floats) -> float:
    return float(np.average(values, weights=rows.weights))


def _paired(rows: ScoredRows, worse: Floats, better: Floats) -> tuple[float, float]:
    """Return the mean difference of two losses and its standard error."""
    gap = worse - better
    mean = _mean(rows, gap)
    spread = math.sqrt(float(np.average((gap - mean) ** 2, weights=rows.weights)))
    return mean, spread / math.sqrt(rows.size)
