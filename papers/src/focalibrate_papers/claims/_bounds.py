"""The temperatures between which binary posterior recovery lies."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from focalibrate._array import Floats
from focalibrate._check import check_gamma
from focalibrate.theory import recover_log_odds


@dataclass(frozen=True)
class TemperatureBounds:
    """Two temperatures between whose maps binary posterior recovery lies."""

    low: float
    high: float


def temperature_bounds(gamma: float) -> TemperatureBounds:
    r"""Proven temperatures that enclose binary posterior recovery at every logit.

    .. math:: \frac1{\gamma+1} \le \frac{s}{\operatorname{logit}\Psi(s)}
              \le \frac1{\gamma+1-\frac12\log(\gamma+1)}

    Args:
        gamma: exponent of the training loss, ``>= 0``.

    Returns:
        The pair. `low` is approached for large logits; `high` is not tight, see
        `tight_temperature_bounds`.

    Example:
        >>> b = temperature_bounds(4.0)
        >>> round(b.low, 4), round(b.high, 4)
        (0.2, 0.2384)

    References:
        Komisarenko & Kull (2024), Prop. 3.
    """
    check_gamma(gamma)
    return TemperatureBounds(1.0 / (gamma + 1.0), 1.0 / (gamma + 1.0 - 0.5 * math.log1p(gamma)))


def tight_temperature_bounds(gamma: float) -> TemperatureBounds:
    r"""Infimum and supremum over all logits of the temperature that recovery amounts to.

    .. math:: \inf_{s>0} \frac{s}{\operatorname{logit}\Psi(s)}, \qquad
              \sup_{s>0} \frac{s}{\operatorname{logit}\Psi(s)}

    Args:
        gamma: exponent of the training loss, ``>= 0``.

    Returns:
        The pair. The infimum is the limit :math:`1/(\gamma+1)` for large logits. The supremum is
        the limit for small ones, :math:`1/(\gamma+1-2\gamma(\ln2-\frac12)/(1+\gamma\ln2))`,
        unless, as for large `gamma`, it is reached in between.

    Example:
        >>> b = tight_temperature_bounds(4.0)
        >>> round(b.low, 4), round(b.high, 4)
        (0.2, 0.2178)
    """
    check_gamma(gamma)
    if gamma == 0:
        return TemperatureBounds(1.0, 1.0)
    ln2 = math.log(2.0)
    at_zero = 1.0 / (gamma + 1.0 - 2.0 * gamma * (ln2 - 0.5) / (1.0 + gamma * ln2))
    # Below 1e-3 the ratio is its limit to 1e-6 of the distance between the bounds, and rounds.
    s = np.geomspace(1e-3, 1e3, 2001)
    inner = _largest(lambda x: x / recover_log_odds(x, gamma), s)
    return TemperatureBounds(1.0 / (gamma + 1.0), max(at_zero, inner))


def _largest(f: Callable[[Floats], Floats], grid: Floats) -> float:
    """Return the maximum of a smooth function, refined around its largest value on `grid`."""
    from scipy.optimize import minimize_scalar

    i = int(np.argmax(f(grid)))
    low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda x: -float(f(np.asarray(x))),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return max(-float(found.fun), float(f(grid[i : i + 1])[0]))
