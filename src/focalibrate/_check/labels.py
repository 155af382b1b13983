"""Checks of labels and targets against the scores they belong to."""

from focalibrate._array import Array, is_array_api_obj, is_concrete, namespace
from focalibrate._check.scores import (
    _check_scores,
    check_logits,
    check_probs,
    first_row,
    is_floating,
    is_on_simplex,
)


def check_label_form(
    labels: Array, *, shape: tuple[int, ...], n_classes: int, name: str = "labels"
) -> None:
    """Raise `ValueError` unless `labels` is an integer array of `shape`; values are not read."""
    if not is_array_api_obj(labels):
        raise ValueError(
            f"`{name}` must be an array of class indices, got {type(labels).__name__}. "
            f"Wrap it: `np.asarray({name})`."
        )
    xp = namespace(labels)
    if not xp.isdtype(labels.dtype, "integral"):
        raise ValueError(
            f"`{name}` must be integer class indices, got dtype {labels.dtype}. Convert them "
            "to int64; soft targets must have the shape of the logits."
        )
    if tuple(labels.shape) != tuple(shape):
        hint = "Pass one label per example."
        if tuple(labels.shape) == (*shape, n_classes):
            hint += " For one score per example pass `binary=True`."
        raise ValueError(f"`{name}` must have shape {shape}, got {tuple(labels.shape)}. {hint}")


def check_labels(
    labels: Array, *, shape: tuple[int, ...], n_classes: int, name: str = "labels"
) -> None:
    """Raise `ValueError` unless `labels` are class indices below `n_classes`, of `shape`."""
    check_label_form(labels, shape=shape, n_classes=n_classes, name=name)
    if not is_concrete(labels):
        return
    xp = namespace(labels)
    low, high = int(xp.min(labels)), int(xp.max(labels))
    if low < 0 or high >= n_classes:
        bad = (labels < 0) | (labels >= n_classes)
        raise ValueError(
            f"`{name}` must lie in [0, {n_classes - 1}] for {n_classes} classes, found "
            f"[{low}, {high}], first at row {first_row(bad)}. Number the classes from 0."
        )


def check_class_weight(weight: Array, *, n_classes: int, name: str = "weight") -> None:
    """Raise `ValueError` unless `weight` is an array with one entry per class."""
    if not is_array_api_obj(weight) or tuple(weight.shape) != (n_classes,):
        found = tuple(weight.shape) if is_array_api_obj(weight) else type(weight).__name__
        raise ValueError(
            f"`{name}` must be an array with one entry per class, shape ({n_classes},), "
            f"got {found}."
        )


def check_targets(logits: Array, labels: Array, *, name: str = "labels") -> bool:
    """Check `labels` against `logits`; return True for soft targets, False for class indices."""
    check_logits(logits)
    if is_array_api_obj(labels) and is_floating(labels) and labels.shape == logits.shape:
        if logits.ndim == 1 and is_concrete(labels) and not is_on_simplex(labels):
            # [N] scores with [N] float labels have the shape of one example's soft target.
            raise ValueError(
                f"`{name}` of shape {tuple(labels.shape)} must be one soft target that sums to 1. "
                "For one score per example pass integer labels and `binary=True`."
            )
        check_probs(labels, name=name)
        return True
    check_labels(labels, shape=tuple(logits.shape[:-1]), n_classes=logits.shape[-1], name=name)
    return False


def check_multilabel(logits: Array, labels: Array) -> None:
    """Raise `ValueError` unless `labels` are 0 to 1 and of the shape of finite `logits`."""
    for x, name in ((logits, "logits"), (labels, "labels")):
        if not is_array_api_obj(x):
            raise ValueError(f"`{name}` must be an array, got {type(x).__name__}.")
    if not is_floating(logits):
        raise ValueError(f"`logits` must be floating point, got dtype {logits.dtype}.")
    if 0 in logits.shape:
        raise ValueError(f"`logits` must not be empty, got shape {tuple(logits.shape)}.")
    if tuple(labels.shape) != tuple(logits.shape):
        raise ValueError(
            f"`labels` must have the shape of `logits`, {tuple(logits.shape)}, got "
            f"{tuple(labels.shape)}. Class indices go to `focal_loss`."
        )
    if not (is_concrete(logits) and is_concrete(labels)):
        return
    xp = namespace(logits)
    if bool(xp.any(xp.isnan(logits))):
        raise ValueError("`logits` must not contain nan. Find the step that produced it.")
    if not is_floating(labels):
        labels = xp.astype(labels, xp.int64)
    low, high = float(xp.min(labels)), float(xp.max(labels))
    if not (low >= 0.0 and high <= 1.0):
        raise ValueError(f"`labels` must lie in [0, 1], found [{low:g}, {high:g}].")


def check_confidence(confidence: Array, correct: Array) -> None:
    """Raise `ValueError` unless both are ``[N]`` in [0, 1]; `correct` may be booleans."""
    _check_scores(confidence, name="confidence")
    xp = namespace(confidence)
    if not bool(xp.all((confidence >= 0) & (confidence <= 1))):
        raise ValueError(
            f"`confidence` must lie in [0, 1], found [{float(xp.min(confidence)):.3g}, "
            f"{float(xp.max(confidence)):.3g}]. Pass probabilities, not logits or percent."
        )
    if not is_array_api_obj(correct) or tuple(correct.shape) != tuple(confidence.shape):
        found = tuple(correct.shape) if is_array_api_obj(correct) else type(correct).__name__
        raise ValueError(
            f"`correct` must have shape {tuple(confidence.shape)} like `confidence`, got {found}. "
            "Pass one value per example."
        )
    if not bool(namespace(correct).all((correct >= 0) & (correct <= 1))):
        raise ValueError(
            "`correct` must be 0 or 1 (or booleans; a share in [0, 1] for a tie). Pass "
            "`predicted == labels`."
        )
