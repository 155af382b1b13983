"""The papers' formulas written out naively, as a reference for the toolkit and the claims."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from focalibrate._array import Floats


def plain_focal(p: Floats, gamma: float) -> Floats:
    r"""Return :math:`-(1-p)^\gamma\log p`, for `p` inside (0, 1)."""
    loss: Floats = -((1.0 - p) ** gamma) * np.log(p)
    return loss


def plain_slope(p: Floats, gamma: float) -> Floats:
    r"""Return the derivative :math:`\gamma(1-p)^{\gamma-1}\log p - (1-p)^\gamma/p` of it."""
    slope: Floats = gamma * (1.0 - p) ** (gamma - 1.0) * np.log(p) - (1.0 - p) ** gamma / p
    return slope


def plain_phi(p: Floats, gamma: float) -> Floats:
    r"""Return :math:`\varphi = (1-p)^\gamma - \gamma(1-p)^{\gamma-1}p\log p`."""
    return -p * plain_slope(p, gamma)


def plain_softmax(logits: Floats) -> Floats:
    """Return the softmax over the last axis."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probs: Floats = weights / weights.sum(axis=-1, keepdims=True)
    return probs


def plain_risk(probs: Floats, posterior: Floats, gamma: float) -> Floats:
    """Return the expected focal loss of `probs` if the true probabilities are `posterior`."""
    risk: Floats = np.sum(posterior * plain_focal(probs, gamma), axis=-1)
    return risk


def minimise_plain_risk(posterior: Floats, gamma: float) -> Floats:
    """Minimise the focal risk by a general-purpose optimiser, without any of our theory."""
    from scipy import optimize

    minimize: Any = optimize.minimize  # its stubs, if installed, do not allow this call

    def probs(free: Floats) -> Floats:
        return plain_softmax(np.append(free, 0.0))

    found = minimize(
        lambda free: float(plain_risk(probs(free), posterior, gamma)),
        np.zeros(len(posterior) - 1),
        jac="3-point",
        method="BFGS",
        tol=1e-10,
    )
    return probs(np.asarray(found.x))


def simplex_samples(
    seed: int, n_rows: int, *, n_classes: tuple[int, ...] = (2, 3, 5, 10, 100)
) -> Iterator[Floats]:
    """Yield random rows on the simplex, from near uniform to near one-hot, for each K."""
    rng = np.random.default_rng(seed)
    for k in n_classes:
        for concentration in (0.3, 1.0, 30.0):
            rows = rng.dirichlet(np.full(k, concentration), size=n_rows)
            rows = np.clip(rows, 1e-12, None)
            yield rows / rows.sum(axis=-1, keepdims=True)


def as_text(row: Floats, digits: int = 4) -> str:
    """Return a short vector as text."""
    return "(" + ", ".join(f"{float(x):.{digits}g}" for x in row) + ")"
