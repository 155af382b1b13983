r"""Posterior recovery :math:`\Psi_\gamma`: from focal scores to probabilities."""

from typing import Any

from focalibrate._array import Array, namespace, working_dtype
from focalibrate._check import check_gamma, check_logits, check_probs
from focalibrate._stable import LogSimplex, log_simplex, log_softmax
from focalibrate.theory.factor import log_phi, log_phi_minor, row_gamma
from focalibrate.theory.training_conditions import (
    shift_prior,
    undo_class_weight,
    undo_label_smoothing,
)


def recover_log_posterior(
    logits: Array,
    gamma: Any,
    *,
    class_weight: Any = None,
    label_smoothing: float = 0.0,
    prior: Any = None,
    target_prior: Any = None,
) -> Array:
    r"""Log of the class posterior behind a model trained with focal loss.

    .. math:: \log\Psi_\gamma(v)_i = \log\frac{h(v_i)}{\sum_l h(v_l)}, \qquad
              h(v) = \frac{v}{\varphi_\gamma(v)}, \quad v = \operatorname{softmax}(z)

    then, where the training loss had class weights :math:`w` or smoothed labels, or the class
    frequencies differ where the model is used, in this order:

    .. math:: \eta'_i \propto \Psi_i / w_i, \qquad
              \eta = \frac{\eta' - \varepsilon/K}{1-\varepsilon}, \qquad
              \eta^{\text{use}}_i \propto \eta_i\,\pi'_i/\pi_i

    If `v` minimises the focal risk, :math:`\Psi_\gamma(v)` is the true posterior. One-hot and
    uniform vectors, also uniform on a subset, are fixed points; ``gamma=0`` is the identity;
    the predicted class never changes.

    Args:
        logits: real array, shape ``[..., K]``; ``-inf`` marks an impossible class.
        gamma: the exponent the model was trained with, ``>= -1``: a number, or one per row,
            shape ``[...]``. Negative values lower the confidence.
        class_weight: weights of the training loss, one per class, or the rates at which classes
            were sampled.
        label_smoothing: share of each target that was spread over all classes, in [0, 1).
            Entries that no smoothed target can reach become 0; see `is_outside_smoothing`.
        prior: class frequencies of the training data; needed only with `target_prior`.
        target_prior: class frequencies where the model is used; see `estimate_prior` where
            they are unknown.

    Returns:
        Log-probabilities, same library, shape, dtype and device as `logits`. Differentiable in
        `logits` and `gamma`.

    Numerics:
        :math:`\log(1-v)` is taken from the logits, never from :math:`1-v`, so that the minor
        entry of :math:`v=[1-\varepsilon,\varepsilon]`, about
        :math:`(1+\gamma)\varepsilon^{1+\gamma}`, is right far below the smallest float.
        float16 and bfloat16 are computed in float32.

    Example:
        >>> import numpy as np
        >>> np.exp(recover_log_posterior(np.log([[0.7, 0.2, 0.1]]), 2.0)).round(4)
        array([[0.9197, 0.0546, 0.0257]])
        >>> weighted = recover_log_posterior(
        ...     np.log([[0.7, 0.2, 0.1]]), 2.0, class_weight=[5.0, 1.0, 1.0])
        >>> np.exp(weighted).round(4)
        array([[0.6961, 0.2065, 0.0974]])

    References:
        Charoenphakdee et al. (2021), Thm. 11, Eq. 11-13; Komisarenko & Kull (2024), Prop. 4.
    """
    check_gamma(gamma, minimum=-1.0)
    check_logits(logits)
    if (prior is None) != (target_prior is None):
        raise ValueError(
            "`prior` and `target_prior` must be given together: the class frequencies of the "
            "training data, and those where the model is used."
        )
    xp = namespace(logits)
    x = xp.astype(logits, working_dtype(logits))
    if isinstance(gamma, (int, float)) and gamma == 0:
        found = log_softmax(x)
    else:
        found = log_softmax(recovery_scores(log_simplex(x), row_gamma(gamma, x)))
    if class_weight is not None:
        found = undo_class_weight(found, class_weight)
    found = undo_label_smoothing(found, label_smoothing)
    if target_prior is not None:
        found = shift_prior(found, prior, target_prior)
    return xp.astype(found, logits.dtype)


def recovery_scores(simplex: LogSimplex, gamma: Any) -> Array:
    r"""Return :math:`\log h(v)` of every class; :math:`\Psi` is its softmax."""
    log_v, log_rest, is_major = simplex
    xp = namespace(log_v)
    zero = xp.zeros_like(log_v)
    # A class that is certain or impossible would give inf - inf; any finite score will do for
    # the first, as all others are at -inf.
    log_rest = xp.where(xp.isfinite(log_rest), log_rest, zero)
    finite_log_v = xp.where(xp.isfinite(log_v), log_v, zero - xp.finfo(log_v.dtype).max)
    major_log_v, major_log_rest = (
        xp.sum(xp.where(is_major, x, zero), axis=-1, keepdims=True)
        for x in (finite_log_v, log_rest)
    )
    # The discarded branch must stay finite, or its gradient spoils the kept one.
    minor = log_phi_minor(
        xp.where(is_major, zero - 1.0, finite_log_v), xp.where(is_major, zero, log_rest), gamma
    )
    return log_v - xp.where(is_major, log_phi(major_log_v, major_log_rest, gamma), minor)


def recover_posterior(
    probs: Array,
    gamma: Any,
    *,
    class_weight: Any = None,
    label_smoothing: float = 0.0,
    prior: Any = None,
    target_prior: Any = None,
) -> Array:
    r"""Class posterior behind the probabilities of a model trained with focal loss.

    .. math:: \Psi_\gamma(v)_i = \frac{h(v_i)}{\sum_l h(v_l)}, \qquad h(v) = v/\varphi_\gamma(v)

    Args:
        probs: rows on the simplex, shape ``[..., K]``; exact zeros and ones are allowed.
        gamma: as in `recover_log_posterior`.
        class_weight: as there.
        label_smoothing: as there.
        prior: as there.
        target_prior: as there.

    Returns:
        Probabilities, same library, shape, dtype and device as `probs`.

    Numerics:
        Exact zeros stay zero. :math:`1 - \max v` is taken as the sum of the other entries, so a
        top entry that was rounded to 1 does no harm. Prefer `recover_log_posterior` where the
        logits are known: probabilities below the smallest float are lost here.

    Example:
        >>> import numpy as np
        >>> recover_posterior(np.array([[0.5, 0.5, 0.0], [0.2, 0.7, 0.1]]), 3.0).round(4)
        array([[0.5   , 0.5   , 0.    ],
               [0.0231, 0.9668, 0.0101]])

    References:
        Charoenphakdee et al. (2021), Thm. 11.
    """
    check_probs(probs)
    xp = namespace(probs)
    x = xp.astype(probs, working_dtype(probs))
    is_zero = x == 0
    log_v = xp.log(xp.where(is_zero, xp.ones_like(x), x))
    log_v = xp.where(is_zero, xp.full_like(x, -xp.inf), log_v)
    log_posterior = recover_log_posterior(
        log_v,
        gamma,
        class_weight=class_weight,
        label_smoothing=label_smoothing,
        prior=prior,
        target_prior=target_prior,
    )
    return xp.astype(xp.exp(log_posterior), probs.dtype)
