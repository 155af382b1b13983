r"""The focal loss of one probability, and the factor :math:`\varphi_\gamma` of its gradient."""

from collections.abc import Callable
from typing import Any

from focalibrate._array import (
    Array,
    device,
    is_array_api_obj,
    like,
    namespace,
    stop_gradient,
    working_dtype,
)
from focalibrate._check import check_gamma, check_unit_array
from focalibrate._stable import logsumexp


def focal_term(log_p: Array, log_rest: Array, gamma: Any) -> Array:
    r"""Return :math:`-(1-p)^\gamma\log p`, given :math:`\log p` and :math:`\log(1-p)`.

    Value and derivatives stay finite for every finite logit: differentiating
    ``(1 - p) ** gamma`` instead gives nan at ``p = 1`` for ``0 < gamma < 1``.
    """
    xp = namespace(log_p)
    if isinstance(gamma, (int, float)) and gamma == 0:
        return -log_p
    # A certain class has log(1 - p) = -inf; a number far below every logit spares 0 * inf.
    certain = xp.full_like(log_rest, -1e30)
    return -xp.exp(gamma * xp.where(xp.isfinite(log_rest), log_rest, certain)) * log_p


def focal_sum(
    log_v: Array,
    log_rest: Array,
    targets: Array,
    gamma: Any,
    *,
    term: Callable[[Array, Array, Any], Array] = focal_term,
) -> Array:
    r"""Return :math:`-\sum_i y_i (1-v_i)^\gamma \log v_i` over the last axis.

    A class of target 0 adds 0 also where it is impossible, ``log_v = -inf``. `term` gives each
    class's loss.
    """
    xp = namespace(log_v)
    counts = targets > 0
    zero = xp.zeros_like(log_v)
    terms = term(xp.where(counts, log_v, zero), xp.where(counts, log_rest, zero), gamma)
    return xp.sum(xp.where(counts, targets * terms, zero), axis=-1)


def true_class_margin(logits: Array, labels: Array) -> Array:
    r"""Return :math:`z_y - \log\sum_{k\ne y} e^{z_k} = \log\frac{p_y}{1-p_y}`, ``[...]``.

    +inf where every other class is impossible.
    """
    xp = namespace(logits, labels)
    classes = xp.arange(logits.shape[-1], device=device(logits))
    is_true = classes == xp.expand_dims(labels, axis=-1)
    # A constant added to a row must cost no digits, so that it is taken off before the sum.
    top = stop_gradient(xp.max(logits, axis=-1, keepdims=True))
    logits = logits - xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    others = xp.where(is_true, xp.full_like(logits, -xp.inf), logits)
    z_true = xp.sum(xp.where(is_true, logits, xp.zeros_like(logits)), axis=-1)
    return z_true - logsumexp(others)


SERIES_BELOW = 0.1
SERIES_TERMS = 16  # 0.1**16 / (16 * 17) is below the rounding of the first term


def phi(p: Array, gamma: Any) -> Array:
    r"""Gradient of the focal loss relative to that of cross-entropy.

    .. math:: \varphi_\gamma(p) = (1-p)^\gamma - \gamma (1-p)^{\gamma-1} p \log p
              = (1-p)^\gamma\,(1 + \gamma r(p)), \qquad r(p) = \frac{-p\log p}{1-p}

    The gradient of the focal loss with respect to the logits is that of cross-entropy times
    :math:`\varphi_\gamma(p)` of the true class. Where it exceeds 1, focal loss learns faster
    than cross-entropy; above :math:`\tau_{uc}` it learns slower.

    Args:
        p: probabilities in [0, 1], any shape.
        gamma: focusing exponent ``>= -1``, a number or an array that broadcasts with `p`.

    Returns:
        Array of the shape and dtype of `p`.

    Numerics:
        :math:`\varphi(0) = 1`; :math:`\varphi(1)` is 0 for ``gamma > 0``, 1 for ``gamma = 0``,
        infinite for ``-1 < gamma < 0`` and one half, the limit, for ``gamma = -1``.

    Example:
        >>> import numpy as np
        >>> phi(np.array([0.0, 0.5, 1.0]), 1.0).round(6)
        array([1.      , 0.846574, 0.      ])

    References:
        Charoenphakdee et al. (2021), Eq. 10; Mukhoti et al. (2020), Prop. 1 (there :math:`g`).
    """
    check_gamma(gamma, minimum=-1.0)
    check_unit_array(p, name="p")
    xp = namespace(p)
    x = xp.astype(p, working_dtype(p))
    g = like(gamma, x, dtype=x.dtype)
    is_zero, is_one = x == 0, x == 1
    inner = xp.where(is_zero | is_one, xp.full_like(x, 0.5), x)
    value = xp.exp(log_phi(xp.log(inner), xp.log1p(-inner), g))
    at_one = xp.where(
        g > 0,
        xp.zeros_like(g),
        xp.where(g == 0, xp.ones_like(g), xp.where(g == -1, 0.5 + 0.0 * g, xp.inf + 0.0 * g)),
    )
    value = xp.where(is_one, at_one, xp.where(is_zero, xp.ones_like(value), value))
    return xp.astype(value, p.dtype)


def log_phi(log_p: Array, log_rest: Array, gamma: Array) -> Array:
    r"""Return :math:`\log\varphi_\gamma(p)` from :math:`\log p` and :math:`\log(1-p)`, finite.

    Near ``p = 1`` the gain :math:`1 + \gamma r` is :math:`1 + \gamma - \gamma(1-p)d`, with
    :math:`d = \frac{1-r}{1-p} = \sum_{k\ge0} \frac{(1-p)^k}{(k+1)(k+2)}`, so that nothing
    cancels for negative `gamma` either. At ``gamma = -1`` the pole of the power meets the root
    of the gain and :math:`\varphi = d`.
    """
    xp = namespace(log_p)
    rest = xp.exp(log_rest)
    is_near = rest < SERIES_BELOW
    safe_rest = xp.where(is_near, xp.ones_like(rest), rest)
    r_far = -xp.exp(log_p) * log_p / safe_rest
    eps = xp.where(is_near, rest, xp.zeros_like(rest))
    d_near = _series(eps)
    gain = xp.where(is_near, (1.0 + gamma) - gamma * (eps * d_near), 1.0 + gamma * r_far)
    d = xp.where(is_near, d_near, (1.0 - r_far) / safe_rest)
    is_limit = gamma == -1
    power = xp.where(is_limit, xp.zeros_like(gamma), gamma) * log_rest
    return power + xp.log(xp.where(is_limit, d, gain))


def log_phi_minor(log_p: Array, log_rest: Array, gamma: Array) -> Array:
    r"""Return `log_phi` for `p` at most one half, as all classes but one are: no series needed."""
    xp = namespace(log_p)
    r = -xp.exp(log_p) * log_p / xp.exp(log_rest)
    return gamma * log_rest + xp.log1p(gamma * r)


def one_minus_r(log_p: Array, log_rest: Array) -> Array:
    r"""Return :math:`1 - r(p) = (1-p)\,\varphi_{-1}(p)` to full relative accuracy."""
    return namespace(log_p).exp(log_rest + log_phi(log_p, log_rest, 0.0 * log_rest - 1.0))


def _series(eps: Array) -> Array:
    total = eps * 0.0
    for k in range(SERIES_TERMS, 0, -1):
        total = 1.0 / (k * (k + 1)) + eps * total
    return total


def row_gamma(gamma: Any, logits: Array) -> Array:
    """Return `gamma` as an array that broadcasts over ``[..., K]``: 0-d, or one column."""
    if not is_array_api_obj(gamma) or gamma.ndim == 0:
        return like(gamma, logits, dtype=logits.dtype)
    if tuple(gamma.shape) != tuple(logits.shape[:-1]):
        raise ValueError(
            f"`gamma` must be a number or one per row, shape {tuple(logits.shape[:-1])}, got "
            f"{tuple(gamma.shape)}."
        )
    xp = namespace(logits)
    return xp.expand_dims(xp.astype(gamma, logits.dtype), axis=-1)
