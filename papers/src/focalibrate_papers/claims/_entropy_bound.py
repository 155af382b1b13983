r"""How much room the bound :math:`\mathrm{FL}_\gamma \ge \mathrm{CE} - \gamma H(q)` leaves."""

from dataclasses import dataclass

import numpy as np

from focalibrate._array import Floats
from focalibrate_papers.claims._plain import simplex_samples


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
