"""Sigmoid focal loss, for labels that do not exclude each other."""

from typing import Any

from focalibrate._array import Array, is_array_api_obj, namespace, working_dtype
from focalibrate._check import check_gamma, check_multilabel, check_unit_interval
from focalibrate._stable import log_sigmoid
from focalibrate.theory.focal import focal_term


def sigmoid_focal_loss(
    logits: Array, labels: Array, *, gamma: Any = 2.0, alpha: float | None = 0.25
) -> Array:
    r"""Focal loss of each label of a multi-label or detection model.

    .. math:: \ell(z, y) = -y\,\alpha\,(1-p)^\gamma \log p
              - (1-y)(1-\alpha)\,p^\gamma\log(1-p), \qquad p = \sigma(z)

    Args:
        logits: log-odds of each label, any shape.
        labels: same shape: 0 or 1, integer, boolean or floating; soft values in [0, 1] mix the
            two terms.
        gamma: focusing exponent, ``>= 0``, a number.
        alpha: weight of the positive labels, in [0, 1]; None for no weights.

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
    if not (is_array_api_obj(logits) and 0 in logits.shape):  # no labels have no losses
        check_multilabel(logits, labels)
    if alpha is not None:
        check_unit_interval(alpha, name="alpha")
    xp = namespace(logits)
    x = xp.astype(logits, working_dtype(logits))
    y = xp.astype(labels, x.dtype)
    log_p, log_rest = log_sigmoid(x), log_sigmoid(-x)
    positive = y * focal_term(log_p, log_rest, gamma)
    negative = (1.0 - y) * focal_term(log_rest, log_p, gamma)
    if alpha is not None:
        positive, negative = alpha * positive, (1.0 - alpha) * negative
    return xp.astype(positive + negative, logits.dtype)
