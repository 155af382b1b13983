"""Does the minimum of a loss tell the posterior? Answered by minimising its risk."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from focalibrate._array import Array, Floats
from focalibrate._check import check_count, check_n_classes
from focalibrate._stable import log_softmax
from focalibrate._stable.gradients import GradientField, gradient_field
from focalibrate.theory.any_loss import recover_by_gradient
from focalibrate.theory.loss_forms import LossForm, loss_form

Verdict = Literal["proper", "recoverable", "recoverable on a region", "not recoverable"]
CLOSE = 1e-4
"""Largest difference of two probabilities that the numerical minimum explains."""
AT_INFINITY = 1e-6
"""Distance of a probability from 1 below which the minimum is taken to be at infinite scores."""
N_STARTS = 4
STOP = {"maxiter": 3000, "maxfun": 5000, "ftol": 0.0, "gtol": 1e-11, "maxcor": 30}


@dataclass(frozen=True)
class Recoverability:
    """What the minimum of a loss tells about the posterior."""

    verdict: Verdict
    """"proper": the minimum is the posterior itself"""
    n_tried: int
    """posteriors whose risk was minimised"""
    n_recovered: int
    """how many of them the gradient at the minimum gave back"""
    n_outside: int
    """how many minima have no posterior by the rules of `recover_by_gradient`, or are infinite"""
    worst_error: float
    """largest error of a recovered probability"""
    counterexample: tuple[Floats, Floats] | None
    """a posterior that is not recovered, and the probabilities of least risk for it"""

    def __str__(self) -> str:
        text = (
            f"{self.verdict}: {self.n_recovered} of {self.n_tried} posteriors recovered, largest "
            f"error {self.worst_error:.2g}"
        )
        if self.counterexample is None:
            return text + "."
        posterior, least = (np.round(x, 3).tolist() for x in self.counterexample)
        return f"{text}. Not recovered: {posterior}, whose risk is least at {least}."


def recoverability(
    loss: str | LossForm | Callable[[Array, Array], Array],
    n_classes: int,
    *,
    n_posteriors: int = 60,
    seed: int = 0,
    **parameters: Any,
) -> Recoverability:
    r"""Return whether the posterior can be read off the minimum of a loss.

    Random posteriors are drawn, the risk :math:`\sum_y q_y\,\ell(z, y)` of each is minimised from
    several starts, and the posterior is recovered from the gradients at the minimum.

    Args:
        loss: a name with its `parameters`, or a function ``loss(logits, labels)`` of NumPy arrays.
        n_classes: number of classes; losses of single labels have 2.
        n_posteriors: how many posteriors to try.
        seed: of their draw.
        **parameters: those of a named loss.

    Example:
        >>> print(recoverability("focal", 3, gamma=2.0, n_posteriors=20).verdict)
        recoverable
    """
    check_n_classes(n_classes)
    check_count(n_posteriors, name="n_posteriors")
    value, gradient = _risk_of(loss, parameters)
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.3, 1.0, 5.0], size=n_posteriors)
    posteriors = np.stack([rng.dirichlet(np.full(n_classes, a)) for a in spread])
    posteriors = 0.999 * posteriors + 0.001 / n_classes
    least = _minima(posteriors, value, gradient, rng)
    found = recover_by_gradient(least, gradient, value=value)
    least_probs = np.exp(log_softmax(least))
    errors = np.abs(found.probs - posteriors).max(axis=1)
    is_good = errors <= CLOSE
    is_endless = ~is_good & (least_probs.max(axis=1) > 1.0 - AT_INFINITY)
    is_outside = (found.reason > 0) | is_endless
    lost = np.flatnonzero(~is_good)
    inside = np.flatnonzero(~is_good & ~is_endless)
    is_told = bool((is_good | is_outside).all()) and not _share_a_minimum(
        posteriors[inside], least_probs[inside]
    )
    verdict: Verdict = "recoverable"
    if np.abs(least_probs - posteriors).max() <= CLOSE:
        verdict = "proper"
    elif len(lost):
        verdict = "recoverable on a region" if is_told else "not recoverable"
    example = (posteriors[lost[0]], least_probs[lost[0]]) if len(lost) else None
    worst = float(errors[is_good].max()) if is_good.any() else float("nan")
    return Recoverability(
        verdict, n_posteriors, int(is_good.sum()), int(is_outside.sum()), worst, example
    )


def _risk_of(
    loss: Any, parameters: dict[str, Any]
) -> tuple[Callable[[Floats, int], Floats], GradientField]:
    """Return the loss of rows that all have one label, and its gradient."""
    if callable(loss):
        return lambda z, y: np.asarray(loss(z, np.full(len(z), y))), gradient_field(
            loss, np.zeros(1)
        )
    form = loss_form(loss, **parameters)

    def value(z: Floats, y: int) -> Floats:
        if form.head == "sigmoid":  # of two classes: the log-odds of the second
            return np.asarray(form.by_label(z[:, 1] - z[:, 0])[:, y])
        return np.asarray(form.by_label(z)[:, y])

    return value, gradient_field(lambda z, y: value(z, int(y[0])), np.zeros(1))


def _share_a_minimum(posteriors: Floats, least: Floats) -> bool:
    """Return whether two posteriors that differ have the same probabilities of least risk."""
    apart, together = (np.abs(x[:, None] - x[None]).max(axis=2) for x in (posteriors, least))
    return bool(((apart > 100 * CLOSE) & (together < 10 * CLOSE)).any())


def _minima(
    posteriors: Floats,
    value: Callable[[Floats, int], Floats],
    gradient: GradientField,
    rng: np.random.Generator,
) -> Floats:
    """Return the logits of least risk of each posterior: all rows at once, from several starts."""
    from scipy.optimize import minimize

    shape = posteriors.shape
    labels = range(shape[1])

    def risks(z: Floats) -> Floats:
        return np.asarray(sum(posteriors[:, y] * value(z, y) for y in labels))

    def total(flat: Floats) -> tuple[float, Floats]:
        z = flat.reshape(shape)
        slope = sum(posteriors[:, y, None] * gradient(z, y) for y in labels)
        return float(risks(z).sum()), np.asarray(slope).reshape(-1)

    starts = [np.log(posteriors), np.zeros(shape), *rng.normal(size=(N_STARTS - 2, *shape))]
    best, least = np.full(len(posteriors), np.inf), np.zeros(shape)
    for start in starts:
        end = minimize(total, start.reshape(-1), jac=True, method="L-BFGS-B", options=STOP)
        z = end.x.reshape(shape)
        is_lower = risks(z) < best
        best, least = np.where(is_lower, risks(z), best), np.where(is_lower[:, None], z, least)
    return np.asarray(least - least.mean(axis=1, keepdims=True))
