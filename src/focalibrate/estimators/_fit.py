"""Fits by name, with the options of an estimator."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._check import check_choice
from focalibrate.calibrate import METHODS, Calibrator, fit
from focalibrate.calibrate.choice import AUTO, fit_auto
from focalibrate.io import ScoreKind

SKLEARN_NAMES = {"sigmoid": ("platt", "structured_vector")}
"""What scikit-learn calls a method, and ours for two classes and for more."""


def fit_calibrator(
    method: str,
    scores: NDArray[Any],
    labels: NDArray[np.intp],
    *,
    kind: ScoreKind,
    gamma: float | None,
    options: Mapping[str, Any] | None,
    weights: NDArray[np.float64] | None,
) -> Calibrator:
    """Fit `method` to scores ``[N, K]`` of this `kind`."""
    check_choice(method, (AUTO, *METHODS, *SKLEARN_NAMES), name="method")
    if len(labels) == 0 or (weights is not None and not weights.any()):
        raise ValueError(
            "`y` must leave rows to calibrate on, but every row has weight 0 or a class its "
            "classifier was not trained on. Use fewer folds or more data."
        )
    given: dict[str, Any] = {kind: scores, "labels": labels, "sample_weight": weights}
    extra = dict(options or {})
    if method in SKLEARN_NAMES:
        method = SKLEARN_NAMES[method][scores.shape[1] > 2]
    if method == AUTO:
        extra["trained_gamma"] = gamma
    elif "loss" not in extra and METHODS[method].needs_gamma:
        if gamma is None:
            raise ValueError(
                f"`gamma` must be given for method={method!r}, got None. Pass the exponent of "
                "the focal loss that the classifier was trained with, or options={'loss': …}."
            )
        extra["gamma"] = gamma
    elif gamma is not None:
        raise ValueError(f"`gamma` must be None for method={method!r}, got {gamma!r}.")
    _check_options(extra, fit_auto if method == AUTO else METHODS[method].fit, method)
    return fit(**given, method=method, **extra)


def _check_options(options: Mapping[str, Any], fit: Any, method: str) -> None:
    parameters = signature(fit).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    unknown = [name for name in options if name not in parameters]
    if unknown:
        raise ValueError(
            f"`options` must be keywords of the fit of method={method!r}, found {unknown}."
        )
