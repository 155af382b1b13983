"""Preparation of labels for every loss: checks, smoothing, weights."""

from typing import Any, NamedTuple

from focalibrate._array import (
    Array,
    device,
    is_array_api_obj,
    like,
    namespace,
    working_dtype,
)
from focalibrate._check import (
    binary_logits,
    check_class_weight,
    check_targets,
    check_unit_interval,
)


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
