"""Losses of later papers that bend the focal loss; `focalibrate.theory` knows the way back."""

from typing import Any

from focalibrate._array import Array, device, is_array_api_obj, namespace, working_dtype
from focalibrate._check import check_multilabel
from focalibrate.losses._targets import examples
from focalibrate.theory.loss_forms import LossForm, loss_form


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
        return _single_labels(form, logits, labels)
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


def _single_labels(form: LossForm, logits: Array, labels: Array) -> Array:
    if not (is_array_api_obj(logits) and 0 in logits.shape):  # no labels have no losses
        check_multilabel(logits, labels)
    xp = namespace(logits)
    x = xp.astype(logits, working_dtype(logits))
    y = xp.astype(labels, x.dtype)
    each = form.by_label(x)
    return xp.astype((1.0 - y) * each[..., 0] + y * each[..., 1], logits.dtype)


def poly_focal_loss(
    logits: Array, labels: Array, *, gamma: float = 2.0, epsilon: float = 1.0, **settings: Any
) -> Array:
    r"""Focal loss with a polynomial term.

    .. math:: \ell(z, y) = -(1-p_y)^\gamma\log p_y + \varepsilon\,(1-p_y)^{\gamma+1}

    ``epsilon=0`` is the focal loss, ``gamma=0`` is Poly-1 cross-entropy.

    Args:
        logits: ``[..., K]``, as in `named_loss`.
        labels: class indices ``[...]``, or soft targets ``[..., K]``.
        gamma: focusing exponent, ``>= 0``.
        epsilon: weight of the polynomial term, ``> -1``.
        **settings: `label_smoothing`, `weight` and `binary` as in `focal_loss`.

    Returns:
        One loss per example, shape ``[...]``, dtype of `logits`. Not reduced.

    Numerics:
        As `focal_loss`: finite to second order for every finite logit.

    Example:
        >>> import numpy as np
        >>> poly_focal_loss(np.array([[0.0, 0.0]]), np.array([0])).round(4)
        array([0.2983])

    References:
        Leng et al. (2022), *PolyLoss*, Sec. 4.
    """
    form = loss_form("poly_focal", gamma=gamma, epsilon=epsilon)
    return named_loss(form, logits, labels, **settings)


def brier_weighted_loss(
    logits: Array,
    labels: Array,
    *,
    beta: float = 1.0,
    constant_weight: bool = False,
    **settings: Any,
) -> Array:
    r"""Cross-entropy weighted by its own Brier score (BSCE).

    .. math:: \ell(z, y) = -\lVert p - e_y\rVert^\beta \log p_y

    With ``constant_weight=True`` the weight has no derivative (BSCE-GRA): the gradient is that of
    cross-entropy times the weight.

    Args:
        logits: ``[..., K]``, as in `named_loss`.
        labels: class indices ``[...]``, or soft targets ``[..., K]``.
        beta: exponent, ``>= 0``; 0 is cross-entropy.
        constant_weight: let no derivative flow through the weight.
        **settings: `label_smoothing`, `weight` and `binary` as in `focal_loss`.

    Returns:
        One loss per example, shape ``[...]``, dtype of `logits`. Not reduced.

    Numerics:
        :math:`\lVert p - e_y\rVert^2` is a sum of squares above one half, so nothing cancels.

    Example:
        >>> import numpy as np
        >>> brier_weighted_loss(np.array([[0.0, 0.0]]), np.array([0]), beta=2.0).round(4)
        array([0.3466])

    References:
        Lin et al. (2025), *Uncertainty Weighted Gradients for Model Calibration*
        (arXiv:2503.22725).
    """
    form = loss_form("bsce_gra" if constant_weight else "bsce", beta=beta)
    return named_loss(form, logits, labels, **settings)


def focal_calibration_loss(
    logits: Array,
    labels: Array,
    *,
    gamma: float = 2.0,
    calibration_weight: float = 1.0,
    **settings: Any,
) -> Array:
    r"""Focal loss plus a multiple of the Brier score.

    .. math:: \ell(z, y) = -(1-p_y)^\gamma\log p_y + \lambda\,\lVert p - e_y\rVert^2

    Args:
        logits: ``[..., K]``, as in `named_loss`.
        labels: class indices ``[...]``, or soft targets ``[..., K]``.
        gamma: focusing exponent, ``>= 0``.
        calibration_weight: :math:`\lambda`, ``> 0``.
        **settings: `label_smoothing`, `weight` and `binary` as in `focal_loss`.

    Returns:
        One loss per example, shape ``[...]``, dtype of `logits`. Not reduced. A soft target takes
        the mean of its classes' losses, which is the same gradient as the squared distance to it.

    Example:
        >>> import numpy as np
        >>> focal_calibration_loss(np.array([[0.0, 0.0]]), np.array([0])).round(4)
        array([0.6733])

    References:
        Liang et al. (2024), *Calibrating Deep Neural Network using Euclidean Distance*
        (arXiv:2410.18321).
    """
    form = loss_form("focal_calibration", gamma=gamma, weight=calibration_weight)
    return named_loss(form, logits, labels, **settings)


def asymmetric_loss(
    logits: Array,
    labels: Array,
    *,
    gamma_pos: float = 0.0,
    gamma_neg: float = 4.0,
    margin: float = 0.05,
) -> Array:
    r"""Asymmetric loss of each label of a multi-label model.

    .. math:: \ell(z, y) = -y\,(1-p)^{\gamma_+}\log p - (1-y)\,u^{\gamma_-}\log(1-u), \qquad
              p = \sigma(z), \quad u = \max(p - m, 0)

    Args:
        logits: log-odds of each label, any shape.
        labels: same shape: 0 or 1, integer, boolean or floating; soft values mix the two terms.
        gamma_pos: focusing exponent of label 1, ``>= 0``.
        gamma_neg: focusing exponent of label 0, ``>= 0``.
        margin: probability up to which label 0 costs nothing, in [0, 1].

    Returns:
        One loss per label, shape and dtype of `logits`.

    Example:
        >>> import numpy as np
        >>> asymmetric_loss(np.array([0.0, 0.0, -4.0]), np.array([1, 0, 0])).round(4)
        array([0.6931, 0.0245, 0.    ])

    References:
        Ridnik et al. (2021), *Asymmetric Loss for Multi-Label Classification*, Eq. 4-7.
    """
    form = loss_form("asymmetric", gamma_pos=gamma_pos, gamma_neg=gamma_neg, margin=margin)
    return named_loss(form, logits, labels)
