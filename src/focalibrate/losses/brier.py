"""Brier loss."""

from focalibrate._array import Array, device, namespace
from focalibrate._stable import log_simplex
from focalibrate.losses._targets import examples


def brier_loss(
    logits: Array, labels: Array, *, label_smoothing: float = 0.0, binary: bool = False
) -> Array:
    r"""Squared distance between probabilities and target of each example.

    .. math:: \ell(z, y) = \sum_k (v_k - y_k)^2, \qquad v = \operatorname{softmax}(z)

    A proper loss, between 0 and 2.

    Args:
        logits: real array, ``[..., K]``.
        labels: class indices ``[...]``, or soft targets ``[..., K]``.
        label_smoothing: share of each target spread evenly over all classes, in [0, 1].
        binary: take `logits` as ``[N]`` log-odds of class 1.

    Returns:
        One loss per example, shape ``[...]``, dtype of `logits`.

    Numerics:
        For class indices :math:`1-v_y` is taken from the logits, so that the loss of a
        confident example keeps its digits.

    Example:
        >>> import numpy as np
        >>> brier_loss(np.log([[0.7, 0.2, 0.1]]), np.array([0])).round(4)
        array([0.14])

    References:
        Brier (1950).
    """
    given = examples(logits, labels, label_smoothing=label_smoothing, binary=binary)
    x, xp = given.logits, namespace(given.logits)
    simplex = log_simplex(x)
    v = xp.exp(simplex.log_v)
    if given.targets is None:
        classes = xp.arange(x.shape[-1], device=device(x))
        is_true = classes == xp.expand_dims(given.labels, axis=-1)
        off = xp.where(is_true, xp.exp(simplex.log_rest), v)
    else:
        off = v - given.targets
    return xp.astype(xp.sum(off * off, axis=-1), given.dtype)
