r"""First and second derivatives of the focal loss in the margins, as boosting needs them."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate._check import check_choice, check_gamma

Curvature = Literal["exact", "bound"]
"""``"exact"``: the second derivative, floored; ``"bound"``: :math:`\\varphi\\,v(1-v)`."""

FLOOR = 0.05
"""Smallest curvature, as a share of the bound: the focal loss is not convex in the margins, and a
tree needs positive weights. Steps are at most 20 times those of the bound."""
NEAR_CERTAIN = 1e-6
"""Below this :math:`1 - p` the ratio r is taken from its series: the error is under 1e-12."""

TINY = 1e-140
"""Below this :math:`1 - p` every derivative is 0 in floating point, and ratios may overflow."""

BLOCK_ENTRIES = 1 << 16
"""Entries worked on at once: few enough that what is computed stays in the cache."""


def softmax_derivatives(
    margins: NDArray[Any],
    labels: NDArray[Any],
    gamma: float,
    *,
    curvature: Curvature = "exact",
) -> tuple[Floats, Floats]:
    r"""Gradient and curvature of the focal loss of each row, per class.

    With :math:`v = \operatorname{softmax}(z)`, :math:`p = v_y` and :math:`\varphi`, :math:`r` of
    `focalibrate.theory.phi`,

    .. math:: \frac{\partial\ell}{\partial z_k} = \varphi(p)(v_k - [k = y]), \qquad
              \frac{\partial^2\ell}{\partial z_k^2} = \varphi(p)\,v_k(1-v_k)
              + \gamma p (1-p)^{\gamma-1}\,\bigl(2 + \log p + (\gamma-1) r\bigr)(v_k - [k=y])^2

    Args:
        margins: raw scores ``[N, K]``.
        labels: class indices ``[N]``.
        gamma: focusing exponent, ``>= 0``.
        curvature: ``"exact"`` for the second derivative, raised to 0.05 times the bound where it
            is smaller; ``"bound"`` for :math:`\varphi(p)v_k(1-v_k)`, which is always positive.

    Returns:
        Gradient and curvature, float64 ``[N, K]``.

    Numerics:
        :math:`1-p` is the sum of the other classes, so that nothing cancels near ``p = 1``;
        :math:`(v_k-[k=y])^2(1-p)^{\gamma-1}` is finite for every ``gamma >= 0``.

    Example:
        >>> g, h = softmax_derivatives(np.zeros((1, 2)), np.array([0]), 2.0)
        >>> g.round(4), h.round(4)
        (array([[-0.2983,  0.2983]]), array([[0.3991, 0.3991]]))
    """
    check_gamma(gamma)
    check_choice(curvature, ("exact", "bound"), name="curvature")
    z = np.asarray(margins, dtype=np.float64)
    y = np.asarray(labels)
    gradient, second = np.empty(z.shape), np.empty(z.shape)
    step = max(1, BLOCK_ENTRIES // z.shape[1])
    for start in range(0, len(z), step):
        part = slice(start, start + step)
        _block(z[part], y[part], gamma, curvature, gradient[part], second[part])
    return gradient, second


def _block(
    z: Floats,
    labels: NDArray[Any],
    gamma: float,
    curvature: Curvature,
    v: Floats,
    second: Floats,
) -> None:
    """Write the gradient to `v` and the curvature to `second`, ``[n, K]`` each."""
    at = np.arange(0, z.size, z.shape[1])
    top = at + z.argmax(axis=1)  # places in the flat arrays, which are faster than pairs
    true = at + labels
    flat, flat_second = v.reshape(-1), second.reshape(-1)
    np.subtract(z, z.reshape(-1)[top][:, None], out=v)
    gap = flat[true]
    np.exp(v, out=v)
    flat[top] = 0.0
    others = v.sum(axis=1)  # of all but the top class, whose own entry is 1
    flat[top] = 1.0
    total = 1.0 + others
    v /= total[:, None]
    rest_of_top = others / total
    p = flat[true]
    # Only the top class can exceed one half, where 1 - p would cancel.
    rest = np.where(top == true, rest_of_top, 1.0 - p)
    p_log_p = np.multiply(p, gap - np.log1p(others), out=np.zeros_like(p), where=p > 0)
    near = rest < NEAR_CERTAIN
    r = np.where(near, 1.0 - 0.5 * rest, -p_log_p / np.where(near, 1.0, rest))
    power = rest**gamma
    phi = power * (1.0 + gamma * r)
    np.subtract(1.0, v, out=second)
    flat_second[top] = rest_of_top
    second *= v
    second *= phi[:, None]
    if curvature == "exact":
        bend = gamma * power * rest * (p * (2.0 + (gamma - 1.0) * r) + p_log_p)
        share = np.divide(bend, rest * rest, out=np.zeros_like(rest), where=rest > TINY)
        floor = FLOOR * second
        on_label = flat_second[true] + bend
        second += v * v * share[:, None]
        flat_second[true] = on_label
        np.maximum(second, floor, out=second)
    flat[true] = -rest
    v *= phi[:, None]


def binary_derivatives(
    margins: NDArray[Any],
    labels: NDArray[Any],
    gamma: float,
    *,
    curvature: Curvature = "exact",
) -> tuple[Floats, Floats]:
    r"""Gradient and curvature of the focal loss of one log-odds per example.

    The two-class case of `softmax_derivatives` for :math:`s = z_1 - z_0`.

    Args:
        margins: log-odds of class 1, ``[N]``.
        labels: 0 or 1, ``[N]``.
        gamma: focusing exponent, ``>= 0``.
        curvature: as in `softmax_derivatives`.

    Returns:
        Gradient and curvature, float64 ``[N]``.

    Example:
        >>> g, h = binary_derivatives(np.zeros(1), np.array([1]), 2.0)
        >>> g.round(4), h.round(4)
        (array([-0.2983]), array([0.3991]))
    """
    s = np.asarray(margins, dtype=np.float64)
    both = np.stack([np.zeros_like(s), s], axis=1)
    is_one = (np.asarray(labels) > 0).astype(np.intp)
    gradient, second = softmax_derivatives(both, is_one, gamma, curvature=curvature)
    return gradient[:, 1], second[:, 1]
