r"""The gradient factor :math:`\varphi_\gamma` of the focal loss, and its parts."""

from typing import Any

from focalibrate._array import Array, is_array_api_obj, like, namespace, working_dtype
from focalibrate._check import check_gamma, check_unit_array

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
