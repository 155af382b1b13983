"""The automatic choice: a pool of methods, one simple method, or the model as it is."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_gamma
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.blocks import row_blocks
from focalibrate.calibrate._input import ScoredRows, read_scores
from focalibrate.calibrate._scores import own_log_probabilities
from focalibrate.calibrate.effort import is_too_slow
from focalibrate.calibrate.folds import fold_count
from focalibrate.calibrate.parametric import Identity
from focalibrate.calibrate.pooled_fits import cross_fit, held_out_losses, pooled
from focalibrate.calibrate.rule import candidates, pick, pool_members
from focalibrate.calibrate.single import SINGLE_METHODS

LEAST_LOG = float(np.log(np.finfo(np.float32).tiny))
"""A probability of 0 counts as float32's smallest number when the model itself is scored."""
ALWAYS_RIGHT = (
    "Every one of the {n:,} predictions is right, so nothing limits how confident a fitted "
    "method becomes, and none is chosen. Calibrate on examples that include mistakes."
)
AUTO = "auto"
"""Name of the automatic choice, where a method is asked for."""
POOL = "pool"
"""The method that mixes others: the one that `simple` leaves out."""
MODEL = "identity"


@dataclass(frozen=True, eq=False)
class AutomaticChoice:
    """What was chosen, and the held-out losses it was chosen by."""

    calibrator: Calibrator
    method: str
    """``"pool"``, ``"identity"`` or the one method's name."""
    losses: dict[str, float]
    """Held-out mean log loss of the model (``"identity"``), of every other method that could be
    chosen, and of the pool."""
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

    Several methods are cross-fitted, and pooled (see `fit_pool`). Of the single methods the
    simplest within one standard error of the lowest held-out log loss is taken; the pool is
    taken instead if it is better by more than half a standard error. Either must beat the model
    clearly (by 1.28 standard errors, a one-sided test at the 10 % level), unless the model gives
    probability 0 to a label that occurs; otherwise the model is kept as it is, so that a
    calibrated model is not harmed. ``focalibrate calibrate`` and ``method="auto"`` of the
    estimators choose by the same rule.

    Args:
        labels: class indices ``[N]``.
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        trained_gamma: exponent of the focal loss that the model was trained with, if it was:
            posterior recovery and the temperature for that loss join the choice.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        simple: choose a single method, never the pool.
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
    if trained_gamma is not None:
        check_gamma(trained_gamma, name="trained_gamma")
    own = model_losses(rows)
    if (rows.logits.argmax(axis=1) == rows.labels).all():
        mean = float(np.average(own, weights=rows.weights))
        kept = Identity(n_classes=rows.n_classes)
        return AutomaticChoice(kept, MODEL, {MODEL: mean}, ALWAYS_RIGHT.format(n=rows.n_rows))
    crossed = cross_fit(
        rows, candidates(rows, trained_gamma), trained_gamma=trained_gamma, seed=seed
    )
    n_fits = 1 + fold_count(rows)
    rows = crossed.rows
    own = model_losses(rows)
    losses = {MODEL: own}
    found: dict[str, Calibrator] = {MODEL: Identity(n_classes=rows.n_classes)}
    for name, log_probs in crossed.held_out.items():
        if name != MODEL:
            losses[name], found[name] = held_out_losses(rows, log_probs), crossed.calibrators[name]
    if not simple and not is_too_slow(POOL, rows, n_fits):
        found[POOL], losses[POOL] = pooled(crossed, pool_members(rows, trained_gamma))
    is_infinite = bool(is_impossible(own).any())  # the model's own log loss
    names = [name for name in losses if not (name == MODEL and is_infinite)]
    picked = pick(
        np.stack([losses[name] for name in names], axis=1),
        [SINGLE_METHODS[n].complexity if n in SINGLE_METHODS else len(names) for n in names],
        weights=rows.weights,
        size=rows.size,
        model=None if is_infinite else names.index(MODEL),
        pool=names.index(POOL) if POOL in names else None,
    )
    chosen = names[picked.chosen]
    means = {name: float(np.average(v, weights=rows.weights)) for name, v in losses.items()}
    return AutomaticChoice(found[chosen], chosen, means, _reason(means, chosen))


def _reason(means: dict[str, float], chosen: str) -> str:
    if chosen == MODEL:
        best = min(means.values())
        return (
            f"No method lowers the held-out log loss of the model, {means[MODEL]:.4f}, "
            f"clearly (the lowest is {best:.4f}): the model is kept as it is."
        )
    text = f"Held-out log loss {means[chosen]:.4f}, {means[MODEL]:.4f} before calibration"
    others = {n: m for n, m in means.items() if n not in (chosen, MODEL)}
    lowest = min(others, key=lambda n: others[n], default=chosen)
    if lowest != chosen and means[lowest] < means[chosen]:
        text += f"; {lowest} is lower ({means[lowest]:.4f}) by less than noise, but not as simple"
    return f"{text}."


def model_losses(rows: ScoredRows) -> Floats:
    """Return the log loss of each row by the model as it is, zeros included."""
    true = np.empty(rows.n_rows)
    for block in row_blocks(rows.n_rows, row_bytes=8 * rows.n_classes):
        log_probs = np.asarray(Identity().log_probs(rows.logits[block].astype(np.float64)))
        if rows.zero_mix:  # undo the mixture, so that zeros are scored as zeros
            log_probs = np.asarray(own_log_probabilities(np.exp(log_probs), rows.zero_mix))
        true[block] = log_probs[np.arange(len(log_probs)), rows.labels[block]]
    return np.asarray(-np.maximum(true, LEAST_LOG))


def is_impossible(losses: Floats) -> NDArray[np.bool_]:
    """Return which of the model's log losses are those of a probability of 0."""
    return losses >= -LEAST_LOG
