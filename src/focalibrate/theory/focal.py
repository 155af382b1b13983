"""The focal loss of one probability, and the log-odds of the true class that it is taken from."""

from collections.abc import Callable
from typing import Any

from focalibrate._array import Array, device, namespace, stop_gradient
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
