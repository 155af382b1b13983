"""The papers' formulas written out naively, as a reference for the toolkit and the claims."""

from collections.abc import Iterator
from dataclasses import dataclass
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


def as_text(row: Floats) -> str:
    """Return a short vector as text."""
    return "(" + ", ".join(f"{float(x):.4g}" for x in row) + ")"


@dataclass(frozen=True)
class Slack:
    """The least room found, as a fraction of the entropy term, and the number of cases."""

    smallest: float
    n: int


def entropy_bound_slack(*, seed: int, gammas: tuple[float, ...]) -> Slack:
    r"""Search random predictions and targets for the least room in the bound.

    .. math:: \mathrm{FL}_\gamma(q, y) - \mathrm{CE}(q, y) + \gamma H(q) \ge 0

    Both sides are linear in the target, so one-hot targets are the worst case; soft ones are
    tried as well. The two-class case is scanned on a dense grid to 1e-300.
    """
    smallest, n = np.inf, 0
    top = np.geomspace(1e-300, 0.5, 4000)
    log_pairs = [np.stack([np.log(top), np.log1p(-top)], axis=-1)]
    log_pairs += [np.log(rows) for rows in simplex_samples(seed, 200)]
    rng = np.random.default_rng(seed)
    for log_q in log_pairs:
        k = log_q.shape[-1]
        soft = rng.dirichlet(np.ones(k), size=(1, len(log_q)))
        one_hot = np.eye(k)[:, None, :]
        for targets in (soft, one_hot):
            for gamma in gammas:
                room = _room(log_q, targets, gamma)
                smallest, n = min(smallest, float(room.min())), n + room.size
    return Slack(smallest, n)


def two_class_slack(x: Floats) -> Floats:
    r"""Return the room that is left at any :math:`\gamma`, relative to the entropy.

    .. math:: 1 - \frac{\log x\,\log(1-x)}{h(x)} \ge 0, \qquad
              h(x) = -x\log x - (1-x)\log(1-x)

    For a one-hot target the bound requires
    :math:`-\log x\,(1-(1-x)^\gamma) \le \gamma H(q)`, where :math:`H(q) \ge h(x)` by grouping
    the other classes and :math:`1-(1-x)^\gamma \le -\gamma\log(1-x)` for every
    :math:`\gamma \ge 0`. What remains is free of :math:`\gamma` and holds as
    :math:`\log x\log(1-x)/h(x) \le 1/(\sqrt x + \sqrt{1-x}) \le 1`, by
    :math:`-\log(1-x) \le x/\sqrt{1-x}`.
    """
    a, b = -np.log(x), -np.log1p(-x)
    room: Floats = 1.0 - a * b / (x * a + (1.0 - x) * b)
    return room


def _room(log_q: Floats, targets: Floats, gamma: float) -> Floats:
    q = np.exp(log_q)
    entropy = -np.sum(q * log_q, axis=-1)
    loss_gap = np.sum(targets * log_q * -np.expm1(gamma * _log_rest(log_q)), axis=-1)
    room: Floats = 1.0 + loss_gap / (gamma * entropy)
    return room


def _log_rest(log_q: Floats) -> Floats:
    """Return log(1 - q) without computing 1 - q of a large q, which rounds to 0 or 1e-16."""
    if log_q.shape[-1] == 2:
        return log_q[:, ::-1]
    q = np.exp(log_q)
    is_large = q > 0.5
    others = np.sum(np.where(is_large, 0.0, q), axis=-1, keepdims=True)
    rest: Floats = np.where(is_large, np.log(others), np.log1p(-np.where(is_large, 0.0, q)))
    return rest
