"""Dual focal loss."""

from typing import Any

from focalibrate._array import Array, device, namespace
from focalibrate._check import check_gamma
from focalibrate._stable import log_sigmoid, log_softmax, logsumexp
from focalibrate.losses._targets import examples
from focalibrate.theory.focal import true_class_margin


def dual_focal_loss(
    logits: Array, labels: Array, *, gamma: Any = 2.0, binary: bool = False
) -> Array:
    r"""Dual focal loss of each example.

    .. math:: \ell(z, y) = -(1 - p_y + p_j)^\gamma \log p_y, \qquad
              p_j = \max\{p_k : p_k < p_y\}

    The runner-up below the true class enters the factor, which widens the gap between the two.
    :math:`p_j = 0` where no class is below the true one. ``gamma=0`` is cross-entropy.

    Args:
        logits: real array, ``[..., K]``.
        labels: class indices ``[...]``.
        gamma: focusing exponent, ``>= 0``, a number.
        binary: take `logits` as ``[N]`` log-odds of class 1.

    Returns:
        One loss per example, shape ``[...]``, dtype of `logits`.

    Numerics:
        :math:`\log(1-p_y+p_j)` is a log-sum-exp, so value, gradient and Hessian stay finite.

    Example:
        >>> import numpy as np
        >>> dual_focal_loss(np.log([[0.7, 0.2, 0.1]]), np.array([0]), gamma=2.0).round(4)
        array([0.0892])

    References:
        Tao et al. (2023), *Dual Focal Loss for Calibration*, Eq. 6.
    """
    check_gamma(gamma)
    given = examples(logits, labels, binary=binary)
    if given.targets is not None:
        raise ValueError("`labels` must be class indices, as one class has to be the true one.")
    x, xp = given.logits, namespace(given.logits)
    margin = true_class_margin(x, given.labels)
    log_p = log_sigmoid(margin)
    if gamma == 0:
        return xp.astype(-log_p, given.dtype)
    classes = xp.arange(x.shape[-1], device=device(x))
    is_true = classes == xp.expand_dims(given.labels, axis=-1)
    z_true = xp.sum(xp.where(is_true, x, xp.zeros_like(x)), axis=-1, keepdims=True)
    below = xp.where(x < z_true, log_softmax(x), xp.full_like(x, -xp.inf))
    log_factor = logsumexp(xp.stack([log_sigmoid(-margin), xp.max(below, axis=-1)], axis=-1))
    certain = xp.full_like(log_factor, -1e30)  # as in `focal_term`
    log_factor = xp.where(xp.isfinite(log_factor), log_factor, certain)
    return xp.astype(-xp.exp(gamma * log_factor) * log_p, given.dtype)
