"""Claims about other losses than the focal one: two newer papers, and the theorem behind Ψ."""

import functools
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from focalibrate._array import Floats
from focalibrate.losses import dual_focal_loss
from focalibrate.theory import recover_posterior, recoverability, tau_over
from focalibrate_papers.claims._claim import Finding, checks, holds_if
from focalibrate_papers.claims._plain import as_text, plain_focal, plain_phi, plain_softmax

CLOSE = 1e-6
"""Largest error of a probability: minima without our gradients are good to about 1e-7."""

Loss = Callable[[Floats], Floats]


def _squares(p: Floats) -> Floats:
    found: Floats = 1.0 - 2.0 * p + np.sum(p * p)
    return found


PLAIN: dict[str, tuple[Loss, dict[str, float]]] = {
    "poly_focal": (
        lambda p: plain_focal(p, 2.0) + 0.5 * (1.0 - p) ** 3,
        {"gamma": 2.0, "epsilon": 0.5},
    ),
    "bsce": (lambda p: -_squares(p) * np.log(p), {"beta": 2.0}),
    "focal_calibration": (
        lambda p: plain_focal(p, 2.0) + 0.5 * _squares(p),
        {"gamma": 2.0, "weight": 0.5},
    ),
}
"""The losses of all labels written out naively, and the parameters of their names."""


def _least(loss: Loss, q: Floats) -> Floats:
    """Return the probabilities of least risk, by a general-purpose optimiser."""
    found = minimize(
        lambda z: float(q @ loss(plain_softmax(z))),
        np.log(q) - np.log(q).mean(),
        jac="3-point",
        method="BFGS",
        tol=1e-11,
    )
    return plain_softmax(np.asarray(found.x))


def _posteriors() -> list[Floats]:
    rng = np.random.default_rng(0)
    return [0.99 * rng.dirichlet(np.full(k, 2.0)) + 0.01 / k for k in (2, 3, 5) for _ in range(4)]


@checks("ours-any-loss")
def _the_null_vector_is_the_posterior() -> Finding:
    errors = []
    for name, (loss, parameters) in PLAIN.items():
        for q in _posteriors():
            back = recover_posterior(_least(loss, q), loss=name, **parameters)
            errors.append(float(np.abs(back - q).max()))
    return holds_if(
        max(errors) < CLOSE,
        f"largest error {max(errors):.1g} over {len(errors)} numeric minimisers of {len(PLAIN)} "
        "losses, 2 to 5 classes",
        otherwise=f"off by {max(errors):.2g}",
    )


@checks("2503-misalignment")
def _focal_factor_rises_with_the_probability() -> Finding:
    p = np.linspace(0.0005, float(tau_over(3.0)), 50)
    steps = np.diff(plain_phi(p, 3.0))
    return holds_if(
        bool((steps > 0).all()),
        f"γ=3: the factor of the gradient rises from {plain_phi(p[:1], 3.0)[0]:.3f} at p=.0005 to "
        f"{plain_phi(p[-1:], 3.0)[0]:.3f} at p={p[-1]:.3f}, though the sample gets more certain",
        otherwise="the factor falls",
    )


@checks("2410-proper-distance")
def _squared_distance_is_proper() -> Finding:
    error = max(float(np.abs(_least(_squares, q) - q).max()) for q in _posteriors())
    return holds_if(
        error < 1e-5,
        f"the minimum of the expected squared distance is the posterior, to {error:.1g}",
        otherwise=f"off by {error:.2g}",
    )


@checks("ours-fcl")
def _focal_calibration_is_not_proper() -> Finding:
    loss, parameters = PLAIN["focal_calibration"]
    q = np.array([0.9, 0.1])
    trained = _least(loss, q)
    back = recover_posterior(trained, loss="focal_calibration", **parameters)
    return holds_if(
        bool(abs(trained[0] - 0.9) > 0.01 and np.abs(back - q).max() < CLOSE),
        f"γ=2, λ=.5: where the truth is {as_text(q)}, training aims at {as_text(trained)}; the "
        f"closed form gives {as_text(back)}",
        otherwise=f"the minimum is {as_text(trained)}",
    )


@checks("ours-dual-focal")
def _dual_focal_hides_the_posterior() -> Finding:
    loss = functools.partial(dual_focal_loss, gamma=3.0)
    found = recoverability(loss, 3, n_posteriors=3)
    return holds_if(found.verdict == "not recoverable", str(found), otherwise=str(found))
