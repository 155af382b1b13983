"""The loss of each example from the losses of all labels."""

from focalibrate._array import Array, device, is_array_api_obj, namespace, working_dtype
from focalibrate._check import check_multilabel
from focalibrate.losses._targets import examples
from focalibrate.theory.loss_forms import LossForm


def label_loss(
    form: LossForm,
    logits: Array,
    labels: Array,
    *,
    label_smoothing: float = 0.0,
    weight: Array | None = None,
    binary: bool = False,
) -> Array:
    """Return the loss of each example's label, or of its soft target, weighted.

    For a loss of single labels, `logits` and `labels` have one shape and so has the result.
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
