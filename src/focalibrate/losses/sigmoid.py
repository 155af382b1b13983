"""Sigmoid focal loss, for labels that do not exclude each other."""

from math import inf
from typing import Any, Literal

from focalibrate._array import Array, is_array_api_obj, like, namespace, working_dtype
from focalibrate._check import check_choice, check_factor, check_gamma, check_multilabel, wrong
from focalibrate._stable import log_sigmoid
from focalibrate.theory.factor import focal_term

SoftLabels = Literal["mixed", "p_t"]
SOFT_LABELS: tuple[SoftLabels, ...] = ("mixed", "p_t")


def sigmoid_focal_loss(
    logits: Array,
    labels: Array,
    *,
    gamma: Any = 2.0,
    alpha: Any = 0.25,
    pos_weight: Any = None,
    weight: Any = None,
    soft_labels: SoftLabels = "mixed",
) -> Array:
    r"""Focal loss of each label of a multi-label or detection model.

    .. math:: \ell(z, y) = -y\,\alpha\,(1-p)^\gamma \log p
              - (1-y)(1-\alpha)\,p^\gamma\log(1-p), \qquad p = \sigma(z)

    Args:
        logits: log-odds of each label, any shape.
        labels: same shape: 0 or 1, integer, boolean or floating; soft values in [0, 1].
        gamma: focusing exponent, ``>= 0``, a number.
        alpha: weight of the positive labels, in [0, 1]: a number, or one per class as a list or
            array that broadcasts with `logits`; None for no weights.
        pos_weight: factor of the positive term alone, ``>= 0``: a number or one per class, as in
            `torch.nn.BCEWithLogitsLoss`.
        weight: factor of both terms, ``>= 0``, that broadcasts with `logits`.
        soft_labels: ``"mixed"`` takes both terms in the shares of a soft label. ``"p_t"`` takes
            the form of torchvision, optax and Keras: cross-entropy times :math:`(1-p_t)^\gamma`,
            :math:`p_t = yp + (1-y)(1-p)`, and :math:`\alpha_t` alike. Both agree for labels 0
            and 1. A soft label is least costly at p = y in neither.

    Returns:
        One loss per label, shape and dtype of `logits`.

    Example:
        >>> import numpy as np
        >>> sigmoid_focal_loss(np.array([0.0, 0.0]), np.array([1, 0])).round(4)
        array([0.0433, 0.13  ])

    References:
        Lin et al. (2017), Eq. 5.
    """
    check_gamma(gamma)
    check_choice(soft_labels, SOFT_LABELS, name="soft_labels")
    x, y = single_labels(logits, labels)
    xp = namespace(logits)
    log_p, log_rest = log_sigmoid(x), log_sigmoid(-x)
    if soft_labels == "mixed":
        positive = y * focal_term(log_p, log_rest, gamma)
        negative = (1.0 - y) * focal_term(log_rest, log_p, gamma)
    else:
        miss = xp.exp(log_rest) * y + xp.exp(log_p) * (1.0 - y)
        # Of a soft label 1 - p_t is never 0, so that its power has derivatives.
        is_soft = (y > 0) & (y < 1)
        log_miss = xp.log(xp.where(is_soft, miss, xp.ones_like(miss)))
        log_miss = xp.where(is_soft, log_miss, xp.where(y > 0, log_rest, log_p))
        positive = y * focal_term(log_p, log_miss, gamma)
        negative = (1.0 - y) * focal_term(log_rest, log_miss, gamma)
    if pos_weight is not None:
        positive = positive * factor(pos_weight, x, name="pos_weight")
    if alpha is not None:
        a = factor(alpha, x, name="alpha", most=1.0)
        if soft_labels == "p_t":
            share = a * y + (1.0 - a) * (1.0 - y)
            positive, negative = share * positive, share * negative
        else:
            positive, negative = a * positive, (1.0 - a) * negative
    loss = positive + negative
    if weight is not None:
        loss = loss * factor(weight, x, name="weight")
    return xp.astype(loss, logits.dtype)


def single_labels(logits: Array, labels: Array) -> tuple[Array, Array]:
    """Return checked log-odds and labels of one shape, in the dtype to compute in."""
    if not (is_array_api_obj(logits) and 0 in logits.shape):  # no labels have no losses
        check_multilabel(logits, labels)
    xp = namespace(logits)
    x = xp.astype(logits, working_dtype(logits))
    return x, xp.astype(labels, x.dtype)


def factor(value: Any, logits: Array, *, name: str, most: float = inf) -> Array:
    """Return `value` beside `logits`: numbers from 0 to `most` that broadcast with them."""
    found = like(value, logits, dtype=logits.dtype)
    check_factor(found, name=name, most=most)
    pairs = zip(reversed(found.shape), reversed(logits.shape), strict=False)
    if found.ndim > logits.ndim or any(n not in (1, size) for n, size in pairs):
        raise wrong(
            name,
            f"broadcast with `logits`, {tuple(logits.shape)}",
            f"got shape {tuple(found.shape)}",
        )
    return found
