"""Fits by name with the options of an estimator, and with sample weights."""

from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import check_choice
from focalibrate.calibrate import METHODS, Calibrator


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
    accepted = signature(METHODS[method].fit).parameters
    options = {"criterion": criterion, "gamma": gamma}
    for name, value in options.items():
        if value is not None and name not in accepted:
            raise ValueError(f"`{name}` must be None for method={method!r}, got {value!r}.")
        is_needed = name in accepted and accepted[name].default is Parameter.empty
        if value is None and is_needed:
            raise ValueError(f"`{name}` must be given for method={method!r}, got None.")
    if len(labels) == 0 or (weights is not None and not weights.any()):
        raise ValueError(
            "`y` must leave rows to calibrate on, but every row has weight 0 or a class its "
            "classifier was not trained on. Use fewer folds or more data."
        )
    given = {name: value for name, value in options.items() if value is not None}
    found: Calibrator = METHODS[method].fit(logits, labels, sample_weight=weights, **given)
    return found
