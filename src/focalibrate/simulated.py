"""Simulated data with three classes and a known posterior, and models trained on it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.theory import phi
from focalibrate.theory.factor import focal_term

__all__ = [
    "KnownPosterior",
    "Simulated",
    "posterior_at",
    "sample",
    "shares_of_knots",
    "simulate",
    "train",
]

MEANS = np.array([-1.5, 0.0, 1.8])
SCALES = np.array([1.0, 0.6, 1.2])
RANGE = (-6.0, 7.0)
N_KNOTS = 20
DECAY = 1e-6


@dataclass(frozen=True)
class KnownPosterior:
    """Examples whose class posterior is known."""

    x: Floats
    """shape ``[N]``"""
    labels: NDArray[np.int64]
    """shape ``[N]``"""
    posterior: Floats
    """shape ``[N, 3]``"""


def posterior_at(x: Floats) -> Floats:
    r"""Return :math:`P(y \mid x)` of three equally likely, overlapping Gaussian classes."""
    log_density = -0.5 * ((x[:, None] - MEANS) / SCALES) ** 2 - np.log(SCALES)
    density = np.exp(log_density - log_density.max(axis=-1, keepdims=True))
    result: Floats = density / density.sum(axis=-1, keepdims=True)
    return result


def sample(n: int, *, seed: int | list[int]) -> KnownPosterior:
    """Return `n` examples drawn from the three classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    x = np.clip(rng.normal(MEANS[labels], SCALES[labels]), *RANGE)
    return KnownPosterior(x, labels, posterior_at(x))


def shares_of_knots(x: Floats) -> Floats:
    """Return the weight of each knot in a piecewise linear curve at examples `x`, ``[N, 20]``."""
    place = (x - RANGE[0]) / (RANGE[1] - RANGE[0]) * (N_KNOTS - 1)
    return np.maximum(0.0, 1.0 - abs(place[:, None] - np.arange(N_KNOTS)))


def train(problem: KnownPosterior, *, gamma: float) -> Floats:
    """Return the logits ``[N_KNOTS, 3]`` at the knots of a model trained with focal loss.

    The logits are piecewise linear in `x`. L-BFGS on the mean loss, by the exact gradient: that
    of cross-entropy times phi.
    """
    from scipy.optimize import minimize

    shares = shares_of_knots(problem.x)
    rows = np.arange(len(problem.x))

    def loss_and_gradient(values: Floats) -> tuple[float, Floats]:
        logits = shares @ values.reshape(N_KNOTS, 3)
        v = np.exp(logits - logits.max(axis=-1, keepdims=True))
        v /= v.sum(axis=-1, keepdims=True)
        p = v[rows, problem.labels]
        v[rows, problem.labels] -= 1.0
        v *= phi(p, gamma)[:, None] / len(rows)
        loss = float(focal_term(np.log(p), np.log1p(-p), gamma).mean())
        # A little weight decay fixes the knots that have no data.
        decay = 0.5 * DECAY * float(values @ values)
        return loss + decay, (shares.T @ v).ravel() + DECAY * values

    found = minimize(
        loss_and_gradient,
        np.zeros(N_KNOTS * 3),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 200, "gtol": 1e-6},
    )
    values: Floats = found.x.reshape(N_KNOTS, 3)
    return values


@dataclass(frozen=True)
class Simulated:
    """Models trained on data with a known posterior, and their scores of held-out examples."""

    validation: KnownPosterior
    test: KnownPosterior
    validation_logits: Floats
    """of the model trained with focal loss, ``[N, 3]``"""
    test_logits: Floats
    plain_test_logits: Floats
    """of the model trained with cross-entropy"""


def simulate(*, gamma: float, n: int, seed: int) -> Simulated:
    """Train with focal loss and with cross-entropy on `n` examples; score two other samples.

    Args:
        gamma: exponent of the focal loss, ``> 0``.
        n: number of training, of validation and of test examples.
        seed: random seed of the three samples.
    """
    training, validation, test = (sample(n, seed=[seed, part]) for part in range(3))
    focal, plain = train(training, gamma=gamma), train(training, gamma=0.0)
    at_test = shares_of_knots(test.x)
    return Simulated(
        validation,
        test,
        shares_of_knots(validation.x) @ focal,
        at_test @ focal,
        at_test @ plain,
    )
