r"""The focal risk minimiser :math:`\Psi_\gamma^{-1}`, and where it is over- or underconfident."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, is_numpy_array, namespace, stop_gradient, working_dtype
from focalibrate._check import check_gamma, check_open_interval, check_probs
from focalibrate._stable import log_simplex, log_softmax
from focalibrate.theory.factor import one_minus_r, phi, row_gamma
from focalibrate.theory.loss_forms import recovery_scores
from focalibrate.theory.training_conditions import trained_on

MAX_STEPS = 24
"""Newton steps; at most 15 were needed in tests (gamma up to 1000, 2 to 1000 classes)."""
BLOCK_ENTRIES = 250_000


def focal_minimiser(
    posterior: NDArray[np.floating[Any]],
    gamma: float,
    *,
    class_weight: Any = None,
    label_smoothing: float = 0.0,
) -> NDArray[np.float64]:
    r"""Probabilities that minimise the focal risk under a class posterior.

    .. math:: q = \arg\min_q \sum_y \eta_y \,\bigl(-(1-q_y)^\gamma \log q_y\bigr)
              = \Psi_\gamma^{-1}(\eta)

    This is what a model trained to the optimum with focal loss reports where the truth is
    :math:`\eta`: for two classes and ``gamma=1``, 0.7744 where the truth is 0.9. With class
    weights :math:`w` and targets smoothed by :math:`\varepsilon` it is the minimiser under
    :math:`\eta'_i \propto w_i\,((1-\varepsilon)\eta_i + \varepsilon/K)`.

    Args:
        posterior: rows on the simplex, shape ``[..., K]``; zeros are allowed and stay zero.
        gamma: focusing exponent, ``>= 0``.
        class_weight: weights of the training loss, one per class.
        label_smoothing: share of each target spread over all classes, in [0, 1).

    Returns:
        float64 array of the same shape.

    Numerics:
        Newton's method on all classes at once, in the logarithms; applying `recover_posterior`
        gives `posterior` back to a relative 1e-10, tiny entries included.

    Example:
        >>> focal_minimiser(np.array([[0.9, 0.1]]), 1.0).round(6)
        array([[0.774425, 0.225575]])

    References:
        Charoenphakdee et al. (2021), Def. 4 and Thm. 11.
    """
    check_gamma(gamma)
    eta = np.asarray(posterior, dtype=np.float64)
    check_probs(eta, name="posterior")
    eta = trained_on(eta, class_weight=class_weight, label_smoothing=label_smoothing)
    rows = eta.reshape(-1, eta.shape[-1])
    out = np.empty_like(rows)
    step = max(1, BLOCK_ENTRIES // rows.shape[-1])
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        with np.errstate(divide="ignore"):
            log_eta = np.log(block)
        out[start : start + step] = np.exp(log_focal_minimiser(log_eta, np.asarray(gamma)))
    result: NDArray[np.float64] = out.reshape(eta.shape)
    return result


def log_focal_minimiser(log_posterior: Array, gamma: Array) -> Array:
    r"""Return :math:`\log\Psi_\gamma^{-1}(\eta)` for normalised :math:`\log\eta`, ``[..., K]``.

    Differentiable to third order on any library: the root is found without derivatives, then two
    Newton steps are taken with them. Where a step starts at the root it carries the derivative of
    the implicit function theorem, and each further one doubles the order that is right.
    """
    target = stop_gradient(log_posterior)
    log_q = log_softmax(target / (1.0 + stop_gradient(gamma)))
    for _ in range(MAX_STEPS):
        last, log_q = log_q, stop_gradient(_newton_step(log_q, target, stop_gradient(gamma)))
        if is_numpy_array(log_q) and _is_settled(log_q, last):
            break
    for _ in range(2):
        log_q = _newton_step(log_q, log_posterior, gamma)
    return log_q


def _is_settled(log_q: NDArray[np.float64], last: NDArray[np.float64]) -> bool:
    finite = np.isfinite(log_q)
    size = 1.0 + np.abs(log_q[finite])
    return bool(np.all(np.abs(log_q[finite] - last[finite]) <= 1e-9 * size))


def _newton_step(log_q: Array, log_posterior: Array, gamma: Array) -> Array:
    r"""Return the next :math:`\log q` on the way to :math:`\log\Psi(q) = \log\eta`.

    With :math:`s=\operatorname{logit} q` and :math:`H(s)=\log h(q)`, the unknowns are
    :math:`s_i` and the common shift of the :math:`H(s_i)`. Eliminating the shift gives
    :math:`\delta\log q_i = \kappa_i(\rho_i - \bar\rho)`, where :math:`\rho` is the residual,
    :math:`\kappa = (1-q)/H'`, and :math:`\bar\rho` its mean under weights :math:`q\kappa`.
    """
    xp = namespace(log_q)
    simplex = log_simplex(log_q)
    log_q, log_rest, _ = simplex
    is_possible = xp.isfinite(log_q)
    zero = xp.zeros_like(log_q)
    finite = xp.where(is_possible, log_q, zero - 1.0)
    log_rest = xp.where(is_possible & xp.isfinite(log_rest), log_rest, zero)
    q, rest = xp.exp(finite), xp.exp(log_rest)
    c = one_minus_r(finite, log_rest)
    slope = rest + gamma * q - gamma * (rest - c) / (1.0 + gamma - gamma * c)
    now = log_softmax(recovery_scores(simplex, gamma))
    residual = xp.where(is_possible, log_posterior, zero) - xp.where(is_possible, now, zero)
    # Weights relative to the largest, as all of them underflow in a saturated row.
    log_weight = finite + log_rest
    top = xp.max(xp.where(is_possible, log_weight, zero - xp.inf), axis=-1, keepdims=True)
    scaled = xp.exp(log_weight - stop_gradient(top)) / slope
    weight = xp.where(is_possible, scaled, zero)
    mean = xp.sum(weight * residual, axis=-1, keepdims=True) / xp.sum(
        weight, axis=-1, keepdims=True
    )
    move = rest / slope * (residual - mean)
    # Far from the root a class could leap past one half, from where Newton does not return.
    limit = stop_gradient(xp.maximum(zero + 0.5, -0.5 * finite))
    move = xp.where(move > limit, limit, move)
    return log_softmax(log_q + xp.where(is_possible, move, zero))


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
