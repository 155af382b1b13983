"""Isotonic calibration, one class against the rest."""

from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate.calibrate._columns import check_classes_present, class_columns, count_changed
from focalibrate.calibrate._input import read_logits
from focalibrate.calibrate.fit_report import FitReport
from focalibrate.calibrate.one_vs_rest import IsotonicCalibration

Floats = NDArray[np.float64]

TIE_DIGITS = 12
"""Probabilities that agree to so many decimals count as equal."""


@overload
def fit_isotonic(
    logits: Array, labels: Array, *, return_report: Literal[False] = ...
) -> IsotonicCalibration: ...


@overload
def fit_isotonic(
    logits: Array, labels: Array, *, return_report: Literal[True]
) -> tuple[IsotonicCalibration, FitReport]: ...


def fit_isotonic(
    logits: Array, labels: Array, *, return_report: bool = False
) -> IsotonicCalibration | tuple[IsotonicCalibration, FitReport]:
    r"""Fit one rising curve a class, of least squared error, to validation data.

    .. math:: f_k = \arg\min_{f \text{ rising}} \sum_i \left(f(p_{ik}) - [y_i = k]\right)^2

    Rows of equal probability share one value. Between knots the curve is linear.

    Args:
        logits: real array ``[N, K]``, any library.
        labels: class indices ``[N]`` of at least two classes; classes that never occur get
            probability 0, with a warning.
        return_report: also return a `FitReport`; its value is the mean squared error summed
            over the classes, before rows are brought back to sum 1.

    Returns:
        `IsotonicCalibration`.

    Numerics:
        Pool adjacent violators (SciPy) in float64.

    Example:
        >>> import numpy as np
        >>> logits = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
        >>> fit_isotonic(logits, np.array([0, 1, 0, 1])).probs(logits)[:, 0].round(3)
        array([1. , 0.5, 0.5, 0. ])

    References:
        Zadrozny & Elkan (2002).
    """
    rows, targets = read_logits(logits, labels)
    check_classes_present(targets, rows.shape[1], method="isotonic calibration")
    curves, error = [], 0.0
    for probs, is_label in class_columns(rows, targets):
        x, y, squares = _curve(probs, is_label)
        curves.append((tuple(x.tolist()), tuple(y.tolist())))
        error += squares / len(rows)
    scores, values = zip(*curves, strict=True)
    found = IsotonicCalibration(scores, values)
    if not return_report:
        return found
    return found, FitReport(
        method=found.kind,
        criterion="squared error",
        value=error,
        n_rows=rows.shape[0],
        n_classes=rows.shape[1],
        n_evaluations=1,
        n_predictions_changed=count_changed(found, rows),
    )


def _curve(probs: Floats, is_label: NDArray[np.bool_]) -> tuple[Floats, Floats, float]:
    """Return the knots of one class's curve and the sum of its squared errors."""
    from scipy.optimize import isotonic_regression

    # Equal probabilities of different rows may differ in their last bits: still a tie.
    rounded = np.round(probs, TIE_DIGITS)
    distinct, index, count = np.unique(rounded, return_inverse=True, return_counts=True)
    mean = np.bincount(index, is_label) / count
    fitted = isotonic_regression(mean, weights=count)
    y = np.clip(fitted.x, 0.0, 1.0)
    squares = float(((y[index] - is_label) ** 2).sum())
    ends = np.unique(np.concatenate([fitted.blocks[:-1], fitted.blocks[1:] - 1]))
    return distinct[ends], y[ends], squares
