"""Primitives that stay accurate at extreme arguments: the only file with native shortcuts."""

from typing import NamedTuple

import numpy as np

from focalibrate._array import (
    Array,
    device,
    is_numpy_array,
    is_torch_array,
    namespace,
    stop_gradient,
)


def log_sigmoid(x: Array) -> Array:
    r"""Return :math:`\log\sigma(x)`, exact to rounding for every `x`, infinite ones included."""
    if is_torch_array(x):
        # Not for speed: twice-differentiated `logaddexp` overflows to nan in float32.
        from torch.nn.functional import logsigmoid

        return logsigmoid(x)
    xp = namespace(x)
    return -xp.logaddexp(xp.zeros_like(x), -x)


def logsumexp(x: Array) -> Array:
    r"""Return :math:`\log\sum_k e^{x_k}` over the last axis; `-inf` entries add 0.

    Differentiable also where every entry is `-inf`: there the gradient is 0, not nan.
    """
    xp = namespace(x)
    top = stop_gradient(xp.max(x, axis=-1, keepdims=True))  # a shift: it cancels
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    total = xp.sum(xp.exp(x - top), axis=-1)
    some = total > 0
    log_total = xp.log(xp.where(some, total, xp.ones_like(total)))
    return xp.where(some, log_total + xp.squeeze(top, axis=-1), xp.full_like(total, -xp.inf))


class LogSimplex(NamedTuple):
    r"""A softmax seen from both ends: :math:`\log v` and :math:`\log(1-v)` of each class."""

    log_v: Array
    """shape ``[..., K]``"""
    log_rest: Array
    r""":math:`\log(1 - v)`, shape ``[..., K]``"""
    is_major: Array
    """true where :math:`v` exceeds one half: at most once per row, shape ``[..., K]``"""


def log_simplex(logits: Array) -> LogSimplex:
    r"""Return :math:`\log v` and :math:`\log(1-v)` for :math:`v = \operatorname{softmax}(z)`.

    Both are exact to rounding however saturated the row: below one half, :math:`1-v` loses
    no digits; above it, which only the top class can be, :math:`\log(1-v)` is taken from the
    log-sum-exp :math:`s` of the other classes minus the top logit, as :math:`\log\sigma(s)`.
    """
    xp = namespace(logits)
    classes = xp.arange(logits.shape[-1], device=device(logits))
    is_top = classes == xp.argmax(logits, axis=-1, keepdims=True)
    # Not `max`: where several classes tie, its derivative is shared out among them.
    z_top = xp.sum(xp.where(is_top, logits, xp.zeros_like(logits)), axis=-1, keepdims=True)
    # Before the sum, not after it: a constant added to a row must cost no digits.
    gaps = logits - z_top
    s = xp.expand_dims(logsumexp(xp.where(is_top, xp.full_like(gaps, -xp.inf), gaps)), axis=-1)
    log_v = gaps + log_sigmoid(-s)
    is_major = is_top & (s < 0)
    v = xp.where(is_major, xp.zeros_like(log_v), xp.exp(log_v))
    log_rest = xp.where(is_major, log_sigmoid(s), xp.log1p(-v))
    return LogSimplex(log_v, log_rest, is_major)


def log_softmax(logits: Array) -> Array:
    r"""Return :math:`\log v`, with full relative accuracy for a top entry close to 1.

    NumPy arrays take a way of their own, two thirds shorter: nothing is differentiated there,
    and :math:`\log\sigma(-s)` is ``-log1p`` of the sum of the other classes.
    """
    if is_numpy_array(logits):
        return _log_softmax_of_numpy(logits)
    if hasattr(namespace(logits), "native_log_softmax"):  # a graph: the operator it knows
        return namespace(logits).native_log_softmax(logits)
    return log_simplex(logits).log_v


def _log_softmax_of_numpy(logits: Array) -> Array:
    top = np.expand_dims(logits.argmax(axis=-1), -1)
    gaps = logits - np.take_along_axis(logits, top, axis=-1)
    others = np.exp(gaps)
    np.put_along_axis(others, top, 0.0, axis=-1)
    gaps -= np.log1p(others.sum(axis=-1, keepdims=True))
    return gaps
