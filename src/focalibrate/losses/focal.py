"""Focal loss, and cross-entropy as its case of exponent 0."""

from collections.abc import Callable

from focalibrate._array import Array, namespace
from focalibrate._stable import log_sigmoid, log_simplex
from focalibrate.losses._targets import LossInput, examples
from focalibrate.losses.adafocal import AdaFocal, SignedSteps, signed_focal_term
from focalibrate.losses.policy import Gamma, resolve_gamma
from focalibrate.theory.focal import focal_sum, focal_term, true_class_margin


def cross_entropy(
    logits: Array,
    labels: Array,
    *,
    label_smoothing: float = 0.0,
    weight: Array | None = None,
    binary: bool = False,
) -> Array:
    r"""Cross-entropy of each example.

    .. math:: \ell(z, y) = -\sum_i w_i\, y_i \log v_i, \qquad v = \operatorname{softmax}(z)

    Args:
        logits: real array, ``[..., K]``; ``-inf`` marks an impossible class.
        labels: class indices ``[...]``, or soft targets ``[..., K]``.
        label_smoothing: share of each target spread evenly over all classes, in [0, 1].
        weight: class weights ``[K]``, each ``>= 0``; an array or a list.
        binary: take `logits` as ``[N]`` log-odds of class 1.

    Returns:
        One loss per example, shape ``[...]``, dtype of `logits`. Not reduced.

    Example:
        >>> import numpy as np
        >>> cross_entropy(np.array([[0.0, 0.0]]), np.array([0])).round(4)
        array([0.6931])
    """
    return focal_loss(
        logits, labels, gamma=0.0, label_smoothing=label_smoothing, weight=weight, binary=binary
    )


def focal_loss(
    logits: Array,
    labels: Array,
    *,
    gamma: Gamma = 2.0,
    label_smoothing: float = 0.0,
    weight: Array | None = None,
    binary: bool = False,
) -> Array:
    r"""Focal loss of each example.

    .. math:: \ell_\gamma(z, y) = -\sum_i w_i\, y_i (1-v_i)^\gamma \log v_i,
              \qquad v = \operatorname{softmax}(z)

    ``gamma=0`` is cross-entropy, to the last bit. For ``gamma > 0`` the loss is not proper: the
    distribution that minimises its expectation is `focalibrate.theory.focal_minimiser` of the
    true one.

    Args:
        logits: real array, ``[..., K]``; ``-inf`` marks an impossible class.
        labels: class indices ``[...]``, or soft targets ``[..., K]``.
        gamma: focusing exponent, ``>= 0``: a number, one per example ``[...]``, a sample-wise
            policy or its name (``"flsd-53"``), or an `AdaFocal`, whose exponents may be
            negative. For soft targets such a policy looks at the probability of the class with
            the largest target.
        label_smoothing: share of each target spread evenly over all classes, in [0, 1].
        weight: class weights ``[K]``, each ``>= 0``; an array or a list.
        binary: take `logits` as ``[N]`` log-odds of class 1.

    Returns:
        One loss per example, shape ``[...]``, dtype of `logits`. Not reduced.

    Numerics:
        Computed from the log-odds :math:`m` of the true class, as
        :math:`\log p_y = \log\sigma(m)` and :math:`\log(1-p_y) = \log\sigma(-m)`.
        Value, gradient and Hessian are finite for every finite logit, also for
        ``0 < gamma < 1``. float16 and bfloat16 are computed in float32.

    Example:
        >>> import numpy as np
        >>> focal_loss(np.array([[0.0, 0.0]]), np.array([0]), gamma=2.0).round(4)
        array([0.1733])

    References:
        Lin et al. (2017), Eq. 4; Mukhoti et al. (2020), Sec. 4 for sample-wise exponents.
    """
    given = examples(logits, labels, label_smoothing=label_smoothing, weight=weight, binary=binary)
    loss = _class_index_loss(given, gamma) if given.targets is None else _soft_loss(given, gamma)
    return namespace(loss).astype(loss, given.dtype)


def _class_index_loss(given: LossInput, gamma: Gamma) -> Array:
    margin = true_class_margin(given.logits, given.labels)
    log_p = log_sigmoid(margin)
    exponent = resolve_gamma(gamma, namespace(margin).exp(log_p))
    loss = _term(gamma)(log_p, log_sigmoid(-margin), exponent)
    return loss if given.weight is None else loss * given.weight


def _soft_loss(given: LossInput, gamma: Gamma) -> Array:
    xp = namespace(given.logits)
    p = xp.exp(log_sigmoid(true_class_margin(given.logits, given.labels)))
    exponent = resolve_gamma(gamma, p)
    if not isinstance(exponent, float) and exponent.ndim > 0:
        exponent = xp.expand_dims(exponent, axis=-1)
    simplex = log_simplex(given.logits)
    return focal_sum(simplex.log_v, simplex.log_rest, given.targets, exponent, term=_term(gamma))


def _term(gamma: Gamma) -> Callable[[Array, Array, Gamma], Array]:
    """Return the loss of one probability: a formula of its own where exponents have signs."""
    is_signed = isinstance(gamma, (AdaFocal, SignedSteps))
    return signed_focal_term if is_signed else focal_term
