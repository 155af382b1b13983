"""Fits by name with the options of an estimator, and with sample weights."""

from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import check_choice
from focalibrate.calibrate import METHODS, Calibrator

COPIES = 16
"""Copies a row gets on average where the weights are not whole numbers."""
MAX_ENTRIES = 5e7
"""Most logits the copies may hold; beyond, rows get fewer copies."""


def fit_calibrator(
    method: str,
    logits: NDArray[Any],
    labels: NDArray[np.intp],
    *,
    criterion: str | None,
    gamma: float | None,
    weights: NDArray[np.float64] | None,
) -> Calibrator:
    """Fit `method` to weighted rows; options that are None are left to the fit."""
    check_choice(method, tuple(METHODS), name="method")
    accepted = signature(METHODS[method]).parameters
    options = {"criterion": criterion, "gamma": gamma}
    for name, value in options.items():
        if value is not None and name not in accepted:
            raise ValueError(f"`{name}` must be None for method={method!r}, got {value!r}.")
        is_needed = name in accepted and accepted[name].default is Parameter.empty
        if value is None and is_needed:
            raise ValueError(f"`{name}` must be given for method={method!r}, got None.")
    if weights is not None:
        copies = row_copies(weights, n_classes=logits.shape[1])
        logits, labels = logits.repeat(copies, axis=0), labels.repeat(copies)
    if len(labels) == 0:
        raise ValueError(
            "`y` must leave rows to calibrate on, but every row has weight 0 or a class its "
            "classifier was not trained on. Use fewer folds or more data."
        )
    given = {name: value for name, value in options.items() if value is not None}
    found: Calibrator = METHODS[method](logits, labels, **given)
    return found


def read_weights(sample_weight: Any, *, n_rows: int) -> NDArray[np.float64] | None:
    """Return `sample_weight` as one finite number >= 0 a row, or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"`sample_weight` must have shape ({n_rows},), one a row, got {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(
            "`sample_weight` must be finite numbers >= 0 and not all zero, found weights from "
            f"{weights.min():g} to {weights.max():g}."
        )
    return weights


def row_copies(weights: NDArray[np.float64], *, n_classes: int) -> NDArray[np.intp]:
    """Return how often to repeat each row so that the copies stand for the weights.

    Whole numbers are taken as they are, so that weight 2 is a row twice and weight 0 no row.
    Others are rounded to multiples of 1/16 of the mean weight, such that the sum over any
    run of rows is off by no more than one such multiple; of 1/1 for data so large that the
    copies would not fit.
    """
    total, most = weights.sum(), MAX_ENTRIES / n_classes
    if (weights == np.round(weights)).all() and total <= max(most, len(weights)):
        return weights.astype(np.intp)
    if total == 0:
        return np.zeros(len(weights), dtype=np.intp)
    n_copies = round(len(weights) * float(np.clip(most / len(weights), 1, COPIES)))
    ends = np.floor(np.cumsum(weights) / total * n_copies + 0.5)
    copies: NDArray[np.intp] = np.diff(ends, prepend=0.0).astype(np.intp)
    return copies
