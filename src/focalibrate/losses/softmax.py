"""Losses of exclusive classes: ``(logits, labels)`` to one loss per example."""

from collections.abc import Callable
from typing import Any, NamedTuple

from focalibrate._array import Array, device, is_array_api_obj, like, namespace, working_dtype
from focalibrate._check import (
    binary_logits,
    check_class_weight,
    check_gamma,
    check_targets,
    check_unit_interval,
)
from focalibrate._stable import log_sigmoid, log_simplex, log_softmax, logsumexp
from focalibrate.losses.policy import (
    AdaFocal,
    Gamma,
    SignedSteps,
    resolve_gamma,
    signed_focal_term,
)
from focalibrate.losses.sigmoid import single_labels
from focalibrate.theory.factor import focal_sum, focal_term, row_gamma, true_class_margin
from focalibrate.theory.loss_forms import LossForm
from focalibrate.theory.minimiser import log_focal_minimiser
from focalibrate.theory.training_conditions import per_class


class LossInput(NamedTuple):
    """Checked input of a loss, in the dtype to compute in."""

    logits: Array
    """shape ``[..., K]``"""
    labels: Array
    """class indices ``[...]``; for soft targets their largest entry"""
    targets: Array | None
    """soft targets ``[..., K]``, weighted; None for plain class indices"""
    weight: Array | None
    """weight of each example's class ``[...]``, where `targets` is None; None for 1"""
    dtype: Any
    """dtype of the result"""


def examples(
    logits: Array,
    labels: Array,
    *,
    label_smoothing: float = 0.0,
    weight: Array | None = None,
    binary: bool = False,
) -> LossInput:
    """Check `logits` and `labels` and bring smoothing and class weights into the targets."""
    check_unit_interval(label_smoothing, name="label_smoothing")
    if binary:
        logits = binary_logits(logits)
    xp = namespace(logits)
    if _is_empty(logits, labels):  # as torch: the losses of no examples, not an error
        is_soft = xp.isdtype(labels.dtype, "real floating")
    else:
        is_soft = check_targets(logits, labels)
    x = xp.astype(logits, working_dtype(logits))
    n_classes = x.shape[-1]
    if weight is not None:
        weight = like(weight, x, dtype=x.dtype)
        check_class_weight(weight, n_classes=n_classes)
    if not is_soft and label_smoothing == 0.0:
        row_weight = None if weight is None else xp.take(weight, xp.reshape(labels, (-1,)), axis=0)
        if row_weight is not None:
            row_weight = xp.reshape(row_weight, labels.shape)
        return LossInput(x, labels, None, row_weight, logits.dtype)
    if is_soft:
        targets = xp.astype(labels, x.dtype)
        labels = xp.argmax(targets, axis=-1)
    else:
        classes = xp.arange(n_classes, device=device(x))
        targets = xp.astype(classes == xp.expand_dims(labels, axis=-1), x.dtype)
    targets = (1.0 - label_smoothing) * targets + label_smoothing / n_classes
    if weight is not None:
        targets = targets * weight
    return LossInput(x, labels, targets, None, logits.dtype)


def _is_empty(logits: Array, labels: Array) -> bool:
    """Return whether there are no examples, but at least one class."""
    if not (is_array_api_obj(logits) and is_array_api_obj(labels) and logits.ndim > 1):
        return False
    shapes = (tuple(logits.shape), tuple(logits.shape[:-1]))
    return 0 in logits.shape[:-1] and logits.shape[-1] > 0 and tuple(labels.shape) in shapes


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

    The `focal_loss` of exponent 0; arguments and result are those of it.

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


def brier_loss(
    logits: Array, labels: Array, *, label_smoothing: float = 0.0, binary: bool = False
) -> Array:
    r"""Squared distance between probabilities and target of each example.

    .. math:: \ell(z, y) = \sum_k (v_k - y_k)^2, \qquad v = \operatorname{softmax}(z)

    A proper loss, between 0 and 2. Arguments and result are those of `focal_loss`.

    Numerics:
        For class indices :math:`1-v_y` is taken from the logits, so that the loss of a
        confident example keeps its digits.

    Example:
        >>> import numpy as np
        >>> brier_loss(np.log([[0.7, 0.2, 0.1]]), np.array([0])).round(4)
        array([0.14])

    References:
        Brier (1950).
    """
    given = examples(logits, labels, label_smoothing=label_smoothing, binary=binary)
    x, xp = given.logits, namespace(given.logits)
    simplex = log_simplex(x)
    v = xp.exp(simplex.log_v)
    if given.targets is None:
        classes = xp.arange(x.shape[-1], device=device(x))
        is_true = classes == xp.expand_dims(given.labels, axis=-1)
        off = xp.where(is_true, xp.exp(simplex.log_rest), v)
    else:
        off = v - given.targets
    return xp.astype(xp.sum(off * off, axis=-1), given.dtype)


def dual_focal_loss(
    logits: Array, labels: Array, *, gamma: Any = 2.0, binary: bool = False
) -> Array:
    r"""Dual focal loss of each example.

    .. math:: \ell(z, y) = -(1 - p_y + p_j)^\gamma \log p_y, \qquad
              p_j = \max\{p_k : p_k < p_y\}

    The runner-up below the true class enters the factor, which widens the gap between the two.
    :math:`p_j = 0` where no class is below the true one. ``gamma=0`` is cross-entropy. Arguments
    and result are those of `focal_loss`, with class indices and an exponent that is a number.

    Numerics:
        :math:`\log(1-p_y+p_j)` is a log-sum-exp, so value, gradient and Hessian stay finite.

    Example:
        >>> import numpy as np
        >>> dual_focal_loss(np.log([[0.7, 0.2, 0.1]]), np.array([0]), gamma=2.0).round(4)
        array([0.0892])

    References:
        Tao et al. (2023), *Dual Focal Loss for Calibration*, Eq. 6.
    """
    check_gamma(gamma)
    given = examples(logits, labels, binary=binary)
    if given.targets is not None:
        raise ValueError("`labels` must be class indices, as one class has to be the true one.")
    x, xp = given.logits, namespace(given.logits)
    margin = true_class_margin(x, given.labels)
    log_p = log_sigmoid(margin)
    if gamma == 0:
        return xp.astype(-log_p, given.dtype)
    classes = xp.arange(x.shape[-1], device=device(x))
    is_true = classes == xp.expand_dims(given.labels, axis=-1)
    z_true = xp.sum(xp.where(is_true, x, xp.zeros_like(x)), axis=-1, keepdims=True)
    below = xp.where(x < z_true, log_softmax(x), xp.full_like(x, -xp.inf))
    log_factor = logsumexp(xp.stack([log_sigmoid(-margin), xp.max(below, axis=-1)], axis=-1))
    certain = xp.full_like(log_factor, -1e30)  # as in `focal_term`
    log_factor = xp.where(xp.isfinite(log_factor), log_factor, certain)
    return xp.astype(-xp.exp(gamma * log_factor) * log_p, given.dtype)


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
    xp = namespace(log_probs)
    if class_weight is not None:
        rows = xp.astype(log_probs, working_dtype(log_probs))
        class_weight = per_class(class_weight, rows, name="class_weight")
    given = examples(log_probs, labels, weight=class_weight)
    x = given.logits if class_weight is None else given.logits + xp.log(class_weight)
    g = row_gamma(gamma, x)
    log_q = log_focal_minimiser(log_softmax(x), g)
    if given.targets is not None:
        simplex = log_simplex(log_q)
        loss = focal_sum(simplex.log_v, simplex.log_rest, given.targets, g)
    else:
        margin = true_class_margin(log_q, given.labels)
        g = g if g.ndim == 0 else xp.squeeze(g, axis=-1)
        loss = focal_term(log_sigmoid(margin), log_sigmoid(-margin), g)
        loss = loss if given.weight is None else loss * given.weight
    return xp.astype(loss, given.dtype)


def named_loss(
    form: LossForm,
    logits: Array,
    labels: Array,
    *,
    label_smoothing: float = 0.0,
    weight: Array | None = None,
    binary: bool = False,
) -> Array:
    r"""Loss of each example for a loss that `focalibrate.theory.loss_form` knows by name.

    ``"focal"``, ``"poly_focal"``, ``"bsce"``, ``"bsce_gra"``, ``"focal_calibration"``,
    ``"class_balanced"``, ``"logit_adjusted"``; of single labels ``"sigmoid_focal"``,
    ``"asymmetric"``. The table in the guide "True probabilities from your own loss" has their
    formulas, `focalibrate.theory.recover_posterior` the way back from their scores.

    Args:
        form: the loss with its parameters.
        logits: real array, ``[..., K]``; ``-inf`` marks an impossible class. For a loss of single
            labels log-odds of any shape.
        labels: class indices ``[...]``, or soft targets ``[..., K]``, which take the mean of
            their classes' losses. For a loss of single labels an array like `logits` of 0, 1 or
            soft values in between, which mix the two terms.
        label_smoothing: as in `focal_loss`, as are `weight` and `binary`; none of the three is
            for single labels.
        weight: class weights ``[K]``.
        binary: take `logits` as ``[N]`` log-odds of class 1.

    Returns:
        One loss per example or label, dtype of `logits`. Not reduced.

    Numerics:
        As `focal_loss`: finite to second order for every finite logit.

    Example:
        >>> import numpy as np
        >>> from focalibrate.theory import loss_form
        >>> form = loss_form("poly_focal", gamma=2.0, epsilon=1.0)
        >>> named_loss(form, np.array([[0.0, 0.0]]), np.array([0])).round(4)
        array([0.2983])
        >>> asymmetric = loss_form("asymmetric", gamma_pos=0.0, gamma_neg=4.0, margin=0.05)
        >>> named_loss(asymmetric, np.array([0.0, 0.0, -4.0]), np.array([1, 0, 0])).round(4)
        array([0.6931, 0.0245, 0.    ])
    """
    if form.head == "sigmoid":
        if label_smoothing or weight is not None or binary:
            raise ValueError(
                f"`label_smoothing`, `weight` and `binary` must be left out for {form.name!r}, a "
                "loss of single labels. Pass soft labels, or multiply the losses by weights."
            )
        x, y = single_labels(logits, labels)
        each = form.by_label(x)
        loss = (1.0 - y) * each[..., 0] + y * each[..., 1]
        return namespace(x).astype(loss, logits.dtype)
    given = examples(logits, labels, label_smoothing=label_smoothing, weight=weight, binary=binary)
    xp = namespace(given.logits)
    each = form.by_label(given.logits)
    if given.targets is None:
        classes = xp.arange(each.shape[-1], device=device(each))
        counts = classes == xp.expand_dims(given.labels, axis=-1)
        loss = xp.sum(xp.where(counts, each, xp.zeros_like(each)), axis=-1)
        loss = loss if given.weight is None else loss * given.weight
    else:  # a class of target 0 adds 0 also where it is impossible
        counts = given.targets > 0
        safe = xp.where(counts, each, xp.zeros_like(each))
        loss = xp.sum(given.targets * safe, axis=-1)
    return xp.astype(loss, given.dtype)
