"""The properised focal loss."""

from typing import Any

from focalibrate._array import Array, namespace, working_dtype
from focalibrate._check import check_gamma, check_targets
from focalibrate._stable import log_sigmoid, log_simplex, log_softmax
from focalibrate.theory.factor import row_gamma
from focalibrate.theory.focal import focal_sum, focal_term, true_class_margin
from focalibrate.theory.minimiser import log_focal_minimiser
from focalibrate.theory.training_conditions import per_class


def proper_focal_loss(
    log_probs: Array, labels: Array, gamma: Any, *, class_weight: Any = None
) -> Array:
    r"""Focal loss made proper: its expected value is lowest at the true probabilities.

    .. math:: L^*(q, y) = \mathrm{FL}_\gamma\bigl(\Psi_\gamma^{-1}(q), y\bigr)

    Training with it equals training with focal loss and applying :math:`\Psi_\gamma` to the
    result; it differs from cross-entropy in how it weighs mistakes. ``gamma=0`` is
    cross-entropy. With class weights it is
    :math:`w_y\,\mathrm{FL}_\gamma(\Psi_\gamma^{-1}(q'), y)`, :math:`q'_i \propto w_i q_i`: still
    proper, and classes of a large weight count for more.

    Args:
        log_probs: log-probabilities of the model, ``[..., K]``. Rows are normalised here, so
            that logits can be passed too, and the gradient is that through the softmax.
        labels: class indices ``[...]``, or soft targets ``[..., K]``.
        gamma: focusing exponent, ``>= 0``: a number, or one per row.
        class_weight: positive weights, one per class.

    Returns:
        One loss per example, shape ``[...]``, dtype of `log_probs`.

    Numerics:
        :math:`\Psi^{-1}` has no closed form. It is found by Newton's method on the library of
        the input, so that torch and JAX differentiate it (to third order) by the implicit
        function theorem, never through the iterations. Gradient with respect to the logits:
        :math:`-\frac{\varphi(p)}{p}w_y\,(e_y - w/\sum w)`, with
        :math:`w = v\kappa` of `focal_minimiser`.

    Example:
        >>> import numpy as np
        >>> proper_focal_loss(np.log([[0.9, 0.1]]), np.array([0]), 1.0).round(4)
        array([0.0577])

    References:
        Komisarenko & Kull (2024), Prop. 2 and 4.
    """
    check_gamma(gamma)
    is_soft = check_targets(log_probs, labels)
    xp = namespace(log_probs)
    x = xp.astype(log_probs, working_dtype(log_probs))
    g = row_gamma(gamma, x)
    weight = None
    if class_weight is not None:
        weight = per_class(class_weight, x, name="class_weight")
        x = x + xp.log(weight)
    log_q = log_focal_minimiser(log_softmax(x), g)
    if is_soft:
        simplex = log_simplex(log_q)
        targets = xp.astype(labels, x.dtype)
        targets = targets if weight is None else targets * weight
        loss = focal_sum(simplex.log_v, simplex.log_rest, targets, g)
    else:
        margin = true_class_margin(log_q, labels)
        g = g if g.ndim == 0 else xp.squeeze(g, axis=-1)
        loss = focal_term(log_sigmoid(margin), log_sigmoid(-margin), g)
        if weight is not None:
            picked = xp.take(weight, xp.reshape(labels, (-1,)), axis=0)
            loss = loss * xp.reshape(picked, labels.shape)
    return xp.astype(loss, log_probs.dtype)
