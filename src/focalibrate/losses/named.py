"""The loss of each example, by the name of the loss."""

from focalibrate._array import Array, device, is_array_api_obj, namespace, working_dtype
from focalibrate._check import check_multilabel
from focalibrate.losses._targets import examples
from focalibrate.theory.loss_forms import LossForm


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
