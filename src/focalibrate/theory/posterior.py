r"""Posterior recovery :math:`\Psi_\gamma`: from focal scores to probabilities."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from focalibrate._array import (
    Array,
    array_of,
    device,
    is_concrete,
    namespace,
    to_numpy,
    working_dtype,
)
from focalibrate._check import check_gamma, check_logits, check_probs
from focalibrate._gradients import gradient_field, value_field
from focalibrate._stable import log_sigmoid, log_softmax
from focalibrate.theory.any_loss import CODES, Recovered, recover_by_gradient
from focalibrate.theory.loss_forms import LossForm, loss_form
from focalibrate.theory.training_conditions import per_class, shift_prior, undo_label_smoothing

Loss: TypeAlias = str | LossForm | Callable[[Array, Array], Array]
"""A name of `focalibrate.theory.loss_forms`, such a loss itself, or any ``loss(logits, labels)``
that returns one loss per row."""


def recover_log_posterior(
    logits: Array,
    gamma: Any = None,
    *,
    loss: Loss = "focal",
    class_weight: Any = None,
    label_smoothing: float = 0.0,
    prior: Any = None,
    target_prior: Any = None,
    second_order: bool = True,
    **parameters: Any,
) -> Array:
    r"""Log of the class posterior behind a model trained with focal loss, or with any other.

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

    For another loss the same holds with another map: at the minimum of the risk the gradient
    :math:`\sum_y q_y\,\partial\ell(z,y)/\partial z` is 0, which is linear in the posterior `q`.
    Losses with a name have a closed form; for any other, `q` is the null vector of the matrix of
    gradients, row by row. Rows that no posterior can have produced are nan and counted in a
    `RecoveryWarning`.

    Args:
        logits: real array, shape ``[..., K]``; ``-inf`` marks an impossible class. For a loss of
            single labels (``"asymmetric"``, ``"sigmoid_focal"``) log-odds of any shape.
        gamma: the exponent the model was trained with, ``>= -1``: a number, or one per row,
            shape ``[...]``. Negative values lower the confidence. Also a parameter of other
            losses.
        loss: ``"focal"``, or another name with its parameters: ``"poly_focal"`` (gamma, epsilon),
            ``"bsce"`` and ``"bsce_gra"`` (beta), ``"focal_calibration"`` (gamma, weight),
            ``"class_balanced"`` (counts, beta, gamma), ``"logit_adjusted"`` (frequencies,
            tau), ``"sigmoid_focal"`` (gamma, alpha), ``"asymmetric"`` (gamma_pos,
            gamma_neg, margin). Or any function ``loss(logits, labels)`` of rows: torch and JAX
            logits are differentiated by autograd, NumPy logits by a complex step, which takes
            K² calls: pass torch logits where there are hundreds of classes.
        class_weight: weights of the training loss, one per class, or the rates at which classes
            were sampled.
        label_smoothing: share of each target that was spread over all classes, in [0, 1).
            Entries that no smoothed target can reach become 0, and the row is renormalised.
        prior: class frequencies of the training data; needed only with `target_prior`.
        target_prior: class frequencies where the model is used; see `estimate_prior` where
            they are unknown.
        second_order: for a function only: check that each row is a minimum of its risk, not a
            saddle or a maximum. With NumPy and up to 33 classes it takes about as long again,
            otherwise as long again for each class, at most 32 times.
        **parameters: those of the loss.

    Returns:
        Log-probabilities, same library, shape, dtype and device as `logits`; of label 1 for a
        loss of single labels. Closed forms are differentiable in `logits` and `gamma`.

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
        >>> def squared(z, y):  # a loss of your own
        ...     p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        ...     return ((p - np.eye(3)[y]) ** 2).sum(axis=1)
        >>> np.exp(recover_log_posterior(np.log([[0.7, 0.2, 0.1]]), loss=squared)).round(4)
        array([[0.7, 0.2, 0.1]])

    References:
        Charoenphakdee et al. (2021), Thm. 11, Eq. 11-13; Komisarenko & Kull (2024), Prop. 4.
    """
    logits = array_of(logits)
    if gamma is not None:
        parameters["gamma"] = gamma
    form: LossForm | None
    if loss == "focal" and set(parameters) == {"gamma"}:  # what `torch.compile` can follow
        check_gamma(gamma, minimum=-1.0)
        form = LossForm("focal", (("gamma", gamma),))
    else:
        form = None if callable(loss) else loss_form(loss, **parameters)
    is_binary = form is not None and form.head == "sigmoid"
    if is_binary:
        _check_log_odds(logits)
    else:
        check_logits(logits)
    if (prior is None) != (target_prior is None):
        raise ValueError(
            "`prior` and `target_prior` must be given together: the class frequencies of the "
            "training data, and those where the model is used."
        )
    xp = namespace(logits)
    x = xp.astype(logits, working_dtype(logits))
    if form is None:
        if parameters:
            raise ValueError(
                f"`{next(iter(parameters))}` must be left out where `loss` is a function: "
                "`functools.partial(loss, ...)` sets its parameters."
            )
        found = _behind(loss, x, second_order=second_order)
    elif is_binary:
        if class_weight is not None or label_smoothing or target_prior is not None:
            raise ValueError(
                f"`class_weight`, `label_smoothing` and `target_prior` are of exclusive classes; "
                f"the loss {form.name!r} is one of single labels."
            )
        log_odds = form.recovered(x)
        is_lost = xp.isnan(log_odds)
        _count_lost(is_lost)
        found = log_sigmoid(xp.where(is_lost, xp.zeros_like(log_odds), log_odds))
        return xp.astype(xp.where(is_lost, log_odds, found), logits.dtype)
    else:
        found = log_softmax(form.recovered(x))
    if class_weight is not None:
        found = log_softmax(found - xp.log(per_class(class_weight, found, name="class_weight")))
    found = undo_label_smoothing(found, label_smoothing)
    if target_prior is not None:
        found = shift_prior(found, prior, target_prior)
    return xp.astype(found, logits.dtype)


def _behind(loss: Any, logits: Array, *, second_order: bool) -> Array:
    """Return the log-posterior by the null vector of the gradients, in the library of `logits`."""
    z = to_numpy(logits).astype(np.float64)
    found = recover_by_gradient(
        z.reshape(-1, z.shape[-1]),
        gradient_field(loss, logits),
        value=value_field(loss, logits),
        second_order=second_order,
    )
    found.warn()
    with np.errstate(divide="ignore"):
        log_probs = np.log(found.probs).reshape(z.shape)
    return namespace(logits).asarray(log_probs, dtype=logits.dtype, device=device(logits))


def _count_lost(is_lost: Array) -> None:
    """Warn of labels about which a loss with a margin says nothing."""
    if is_concrete(is_lost):
        flat = to_numpy(is_lost).reshape(-1)
        codes = np.where(flat, CODES["flat"], CODES["recovered"])
        Recovered(np.empty((len(codes), 0)), codes).warn()


def _check_log_odds(scores: Array) -> None:
    xp = namespace(scores)
    if not xp.isdtype(scores.dtype, "real floating"):
        raise ValueError(f"`logits` must be log-odds of single labels, got dtype {scores.dtype}.")


def recover_posterior(
    probs: Array = None,
    gamma: Any = None,
    *,
    logits: Array = None,
    loss: Loss = "focal",
    **conditions: Any,
) -> Array:
    r"""Class posterior behind the scores of a model trained with focal loss, or with any other.

    .. math:: \Psi_\gamma(v)_i = \frac{h(v_i)}{\sum_l h(v_l)}, \qquad h(v) = v/\varphi_\gamma(v)

    Args:
        probs: rows on the simplex, shape ``[..., K]``; exact zeros and ones are allowed.
        gamma: as in `recover_log_posterior`.
        logits: logits in place of `probs`: more exact, and what a loss of your own takes.
        loss: as there.
        **conditions: parameters of the loss, and `class_weight`, `label_smoothing`, `prior`,
            `target_prior`, `second_order` as there.

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
    if (probs is None) == (logits is None):
        raise ValueError("Pass either `probs`, the model's probabilities, or `logits=`.")
    if logits is not None:
        logits = array_of(logits)
        found = recover_log_posterior(logits, gamma, loss=loss, **conditions)
        return namespace(found).exp(found)
    probs = array_of(probs)
    if not callable(loss) and loss in ("asymmetric", "sigmoid_focal"):
        raise ValueError(f"`logits` must be given for the loss {loss!r}: log-odds of each label.")
    check_probs(probs)
    xp = namespace(probs)
    x = xp.astype(probs, working_dtype(probs))
    is_zero = x == 0
    log_v = xp.log(xp.where(is_zero, xp.ones_like(x), x))
    log_v = xp.where(is_zero, xp.full_like(x, -xp.inf), log_v)
    found = recover_log_posterior(log_v, gamma, loss=loss, **conditions)
    return xp.astype(xp.exp(found), probs.dtype)
