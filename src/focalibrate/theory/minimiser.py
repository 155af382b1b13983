r"""The focal risk minimiser :math:`\Psi_\gamma^{-1}`: what focal training aims at."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, is_numpy_array, namespace, stop_gradient
from focalibrate._check import check_gamma, check_probs
from focalibrate._stable import log_simplex, log_softmax
from focalibrate.theory.factor import one_minus_r
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
