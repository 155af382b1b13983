"""Primitives that stay accurate at extreme arguments: the only file with native shortcuts."""

from focalibrate._array import Array, is_torch_array, namespace


def log_sigmoid(x: Array) -> Array:
    r"""Return :math:`\log\sigma(x)`, exact to rounding for every finite `x`."""
    if is_torch_array(x):
        # Not for speed: twice-differentiated `logaddexp` overflows to nan in float32.
        from torch.nn.functional import logsigmoid

        return logsigmoid(x)
    xp = namespace(x)
    return -xp.logaddexp(xp.zeros_like(x), -x)


def logsumexp(x: Array) -> Array:
    r"""Return :math:`\log\sum_k e^{x_k}` over the last axis; `-inf` entries add 0."""
    xp = namespace(x)
    top = xp.max(x, axis=-1, keepdims=True)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    return xp.log(xp.sum(xp.exp(x - top), axis=-1)) + xp.squeeze(top, axis=-1)
