"""Log-odds of the true class."""

from focalibrate._array import Array, device, namespace, stop_gradient
from focalibrate._stable import logsumexp


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
