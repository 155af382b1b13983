r"""Over- and underconfidence of the focal minimiser: where, and from which exponent on."""

import math
from collections.abc import Callable
from typing import Any

from focalibrate._array import Array, namespace, working_dtype
from focalibrate._check import check_gamma, check_open_interval, check_probs
from focalibrate.theory.factor import phi, row_gamma


def tau_over(gamma: float) -> float:
    r"""Confidence below which the focal minimiser is always overconfident.

    .. math:: \tau_{oc} = \arg\max_p \varphi_\gamma(p), \quad\text{the root of}\quad
              \frac{2(1-p)}{\log p} + 1 - \gamma p

    Args:
        gamma: focusing exponent, ``> 0`` (for 0 there is no such confidence).

    Returns:
        A number in (0, 1/2), below `tau_under`.

    Example:
        >>> round(tau_over(1.0), 12) == round(math.exp(-2), 12)
        True

    References:
        Charoenphakdee et al. (2021), Thm. 8.
    """
    _check_positive(gamma)

    # Multiplied by log p, which is negative: falls from +inf (at p = 0) through the one root.
    def slope(log_p: float) -> float:
        p = math.exp(log_p)
        return -2.0 * math.expm1(log_p) + (1.0 - gamma * p) * log_p

    return math.exp(_root(slope, -math.log1p(gamma) - 50.0, math.log(0.5)))


def tau_under(gamma: float) -> float:
    r"""Confidence above which the focal minimiser is always underconfident.

    .. math:: \tau_{uc} \in (0, \tfrac12), \qquad \varphi_\gamma(\tau_{uc}) = 1

    Args:
        gamma: focusing exponent, ``> 0``.

    Returns:
        A number in (0, 1/2), above `tau_over`. `gamma_star` is its inverse.

    Example:
        >>> round(tau_under(1.0), 12) == round(math.exp(-1), 12)
        True

    References:
        Charoenphakdee et al. (2021), Thm. 8.
    """
    _check_positive(gamma)
    low = math.log(tau_over(gamma))  # beyond its maximum, phi falls through 1 once
    return math.exp(_root(lambda log_p: _log_phi_over_gamma(math.exp(log_p), gamma), low, 0.0))


def gamma_star(p0: float) -> float:
    r"""Exponent at which focal loss begins to learn slower than cross-entropy above `p0`.

    .. math:: \gamma^* = \frac ab + \frac{1}{\log a}
              W_{-1}\!\left(-\frac{a^{1-a/b}}{b}\log a\right),
              \qquad a = 1 - p_0,\quad b = p_0 \log p_0

    The solution of :math:`\varphi_{\gamma^*}(p_0) = 1` for `p0` below one half; 0 from there on,
    where :math:`\varphi_\gamma(p_0) \le 1` for every exponent.

    Args:
        p0: probability of the true class, in (0, 1).

    Returns:
        The exponent, ``>= 0``.

    Numerics:
        The closed form loses digits as `p0` nears one half; Newton's method on
        :math:`\log\varphi_\gamma(p_0)/\gamma` restores them.

    Example:
        >>> round(gamma_star(0.2), 4), round(gamma_star(0.25), 4), gamma_star(0.5)
        (4.8506, 3.0702, 0.0)

    References:
        Mukhoti et al. (2020), Prop. 2.
    """
    check_open_interval(p0, low=0.0, high=1.0, name="p0")
    if p0 >= 0.5:
        return 0.0
    from scipy.special import lambertw

    log_a, b = math.log1p(-p0), p0 * math.log(p0)
    a = math.exp(log_a)
    w = lambertw(-math.exp((1.0 - a / b) * log_a) / b * log_a, k=-1)
    gamma = a / b + float(w.real) / log_a
    # So close to one half that the argument of W fell past its branch point by rounding.
    is_lost = not gamma > 0.0
    return _polish(p0, _second_order_guess(p0) if is_lost else gamma)


def confidence_regime(probs: Array, gamma: Any) -> Array:
    r"""Sign of the confidence error of focal scores: -1 under, 0 exact, +1 over.

    .. math:: \operatorname{sign}\bigl(\max q - \max\Psi_\gamma(q)\bigr) = \operatorname{sign}
              \sum_l q_l\left(\frac{\varphi(\max q)}{\varphi(q_l)} - 1\right)

    Below `tau_over` the result is +1, above `tau_under` it is -1, in between it depends on all
    classes. Vectors that are uniform on a subset of the classes are exact. For two classes it
    is never +1.

    Args:
        probs: scores of a model trained with focal loss, ``[..., K]``.
        gamma: the exponent it was trained with, ``>= -1``: a number or one per row.

    Returns:
        Integer array, shape ``[...]``.

    Numerics:
        Equal entries give exactly equal terms, so the exact cases come out as 0 without a
        tolerance.

    Example:
        >>> import numpy as np
        >>> confidence_regime(np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]]), 2.0)
        array([-1,  0])
        >>> confidence_regime(np.array([[0.05] + [0.95 / 999] * 999]), 1.0)
        array([1])

    References:
        Charoenphakdee et al. (2021), Def. 7 and Thm. 8.
    """
    check_gamma(gamma, minimum=-1.0)
    check_probs(probs)
    xp = namespace(probs)
    q = xp.astype(probs, working_dtype(probs))
    factor = phi(q, row_gamma(gamma, q))
    top = xp.max(q, axis=-1, keepdims=True)
    top_factor = phi(top, row_gamma(gamma, q))
    differs = (q != top) & (q > 0)
    ratio = top_factor / xp.where(differs, factor, xp.ones_like(factor))
    total = xp.sum(xp.where(differs, q * (ratio - 1.0), xp.zeros_like(q)), axis=-1)
    return xp.astype(xp.sign(total), xp.int64)


def _r(p: float) -> float:
    r"""Return :math:`r = -p\log p/(1-p)`."""
    return -p * math.log(p) / (1.0 - p) if p < 1.0 else 1.0


def _log_phi_over_gamma(p: float, gamma: float) -> float:
    r"""Return :math:`\log\varphi_\gamma(p)/\gamma`, which keeps its sign as gamma goes to 0."""
    return (math.log1p(-p) if p < 1.0 else -math.inf) + math.log1p(gamma * _r(p)) / gamma


def _second_order_guess(p: float) -> float:
    return 2.0 * (math.log1p(-p) + _r(p)) / _r(p) ** 2


def _polish(p: float, gamma: float) -> float:
    r = _r(p)
    for _ in range(4):
        value = _log_phi_over_gamma(p, gamma)
        slope = (r / (1.0 + gamma * r) - math.log1p(gamma * r) / gamma) / gamma
        if value == 0.0 or slope == 0.0:
            break
        gamma = max(gamma - value / slope, 0.5 * gamma)
    return gamma


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of a function whose signs at `low` and `high` differ."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-15, rtol=1e-15, maxiter=200))


def _check_positive(gamma: float) -> None:
    check_gamma(gamma)
    if gamma == 0:
        raise ValueError(
            "`gamma` must be > 0, got 0: cross-entropy is neither over- nor underconfident."
        )
