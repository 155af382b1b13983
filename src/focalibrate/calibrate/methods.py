"""The calibration methods by name: one vocabulary for the whole project."""

from collections.abc import Mapping
from typing import Any

from focalibrate._array import Array
from focalibrate._check import check_choice
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.pooled_fits import fit_pool
from focalibrate.calibrate.shared_fits import fit_each_part
from focalibrate.calibrate.single import SINGLE_METHODS, FitResult, Method

METHODS: Mapping[str, Method] = {
    **SINGLE_METHODS,
    "pool": Method(
        name="pool", label="pool of methods", complexity=11, fit=fit_pool, default=False
    ),
}
"""The methods, from simple to complex."""


def fit(
    method: str,
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    **options: Any,
) -> FitResult:
    """Fit the calibrator called `method`.

    Args:
        method: one of `METHODS`; ``"posterior_recovery"`` and ``"focal_loss_temperature"`` need
            the option ``gamma``.
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        options: keyword arguments of that method's own fit, ``return_report`` among them.

    Returns:
        The calibrator, or the calibrator and its `FitReport`.

    Example:
        >>> import numpy as np
        >>> logits, labels = np.log([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]]), np.array([0, 1, 1])
        >>> fit("posterior_recovery", logits, labels, gamma=2.0)
        PosteriorRecovery(gamma=2.0)
    """
    check_choice(method, tuple(METHODS), name="method")
    found: FitResult = METHODS[method].fit(
        logits, labels, probs=probs, sample_weight=sample_weight, **options
    )
    return found


def fit_parts(method: str, parts: Parts, **options: Any) -> list[Calibrator]:
    """Fit the calibrator called `method` to each of several parts of the same rows.

    Each is what `fit` returns for the part alone, to within rounding: what the parts have in
    common is computed once, and searches start from the first part's result. Warnings are those
    of the first.
    """
    return fit_each_part(method, parts, METHODS[method].fit, **options)
