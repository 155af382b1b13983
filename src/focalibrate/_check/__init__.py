"""Every input check, and so every error message, of the toolkit.

A check of values runs only if values can be read: under `jax.jit`, `torch.compile`
or `vmap` the checks on shapes and dtypes remain.
"""

from focalibrate._check.frames import column_names, in_class_order, labels_for
from focalibrate._check.labels import (
    check_class_weight,
    check_confidence,
    check_label_form,
    check_labels,
    check_multilabel,
    check_targets,
)
from focalibrate._check.numbers import (
    check_choice,
    check_count,
    check_edges,
    check_gamma,
    check_n_bins,
    check_n_classes,
    check_open_interval,
    check_positive,
    check_unit_interval,
    did_you_mean,
)
from focalibrate._check.scores import (
    HALF_PROBS_ATOL,
    PROBS_ATOL,
    binary_logits,
    binary_probs,
    check_class_axis,
    check_log_probs,
    check_logits,
    check_probs,
    check_rows,
    check_unit_array,
)
from focalibrate._check.weights import check_label_weight, check_sample_weight, is_whole

__all__ = [
    "HALF_PROBS_ATOL",
    "PROBS_ATOL",
    "binary_logits",
    "binary_probs",
    "check_choice",
    "check_class_axis",
    "check_class_weight",
    "check_confidence",
    "check_count",
    "check_edges",
    "check_gamma",
    "check_label_form",
    "check_label_weight",
    "check_labels",
    "check_log_probs",
    "check_logits",
    "check_multilabel",
    "check_n_bins",
    "check_n_classes",
    "check_open_interval",
    "check_positive",
    "check_probs",
    "check_rows",
    "check_sample_weight",
    "check_targets",
    "check_unit_array",
    "check_unit_interval",
    "column_names",
    "did_you_mean",
    "in_class_order",
    "is_whole",
    "labels_for",
]
