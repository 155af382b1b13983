"""Isotonic calibration, one class against the rest."""

from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._stable.monotone import isotonic_regression
from focalibrate.calibrate._engine.columns import (
    check_classes_present,
    class_columns,
)
from focalibrate.calibrate._engine.reporting import finished
from focalibrate.calibrate._input import read_scores
from focalibrate.calibrate.fit_report import FitReport, collected_warnings
from focalibrate.calibrate.one_vs_rest import IsotonicCalibration
from focalibrate.calibrate.parts import Parts

TIE_DIGITS = 12
"""Probabilities that agree to this many decimals count as equal."""


@overload
def fit_isotonic(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    return_report: Literal[False] = ...,
) -> IsotonicCalibration: ...


@overload
def fit_isotonic(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    return_report: Literal[True],
) -> tuple[IsotonicCalibration, FitReport]: ...


def fit_isotonic(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    return_report: bool = False,
) -> IsotonicCalibration | tuple[IsotonicCalibration, FitReport]:
    r"""Fit one increasing curve per class, of least squared error, to validation data.

    .. math:: f_k = \arg\min_{f \text{ rising}} \sum_i \left(f(p_{ik}) - [y_i = k]\right)^2
              + \pi_k (f(\min_i p_{ik}) - 1)^2 + (1 - \pi_k) f(\max_i p_{ik})^2

    Rows of equal probability share one value. Between knots the curve is linear. The last two
    terms act as one more row, of the class with its frequency :math:`\pi_k`, at the end
    where it is least expected: without them the outer blocks would say 0 and 1, and one such
    row in new data an infinite log loss.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]`` of at least two classes; classes that never occur get
            probability 0, with a warning.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        return_report: also return a `FitReport`; its value is the mean squared error summed
            over the classes, before rows are normalised.

    Returns:
        `IsotonicCalibration`.

    Numerics:
        Pool adjacent violators in float64.

    Example:
        >>> import numpy as np
        >>> logits = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
        >>> fit_isotonic(logits, np.array([0, 1, 0, 1])).probs(logits)[:, 0].round(3)
        array([0.667, 0.5  , 0.5  , 0.333])

    References:
        Zadrozny & Elkan (2002).
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    check_classes_present(rows.labels, rows.n_classes, method="isotonic calibration")
    curves, error = [], 0.0
    for column, is_label in class_columns(rows.logits, rows.labels):
        x, y, squares = _curve(*_ties(column), is_label, rows.weights)
        curves.append((tuple(x.tolist()), tuple(y.tolist())))
        error += squares
    scores, values = zip(*curves, strict=True)
    found = rows.stamp(IsotonicCalibration(scores, values))
    return finished(
        found, rows, return_report, criterion="squared error", value=error, n_evaluations=1
    )


def cross_fit_isotonic(parts: Parts) -> list[IsotonicCalibration]:
    """Return the isotonic calibration of each part; each class is put in order only once."""
    rows = parts.rows
    curves: list[list[tuple[tuple[float, ...], tuple[float, ...]]]] = [[] for _ in parts.index]
    labels = [rows.labels[part] for part in parts.index]
    weights = [None if rows.weights is None else rows.weights[part] for part in parts.index]
    check_classes_present(labels[0], rows.n_classes, method="isotonic calibration")
    with collected_warnings():
        for some in labels[1:]:
            check_classes_present(some, rows.n_classes, method="isotonic calibration")
    for column, is_label in class_columns(rows.logits, rows.labels):
        distinct, index = _ties(column)
        for i, part in enumerate(parts.index):
            x, y, _ = _curve(distinct, index[part], is_label[part], weights[i])
            curves[i].append((tuple(x.tolist()), tuple(y.tolist())))
    return [IsotonicCalibration(*zip(*found, strict=True)) for found in curves]


def _ties(probs: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the distinct probabilities in ascending order, and which of them each row has.

    Probabilities that differ only in their last bits count as equal.
    """
    return np.unique(np.round(probs, TIE_DIGITS), return_inverse=True)


def _curve(
    distinct: Floats,
    index: NDArray[np.intp],
    is_label: NDArray[np.bool_],
    weights: Floats | None,
) -> tuple[Floats, Floats, float]:
    """Return the knots of one class's curve and its mean squared error."""
    weights = np.ones(len(index)) if weights is None else weights
    count = np.bincount(index, weights, minlength=len(distinct))
    if not count.all():  # probabilities that only other parts have
        is_here = count > 0
        index = (np.cumsum(is_here) - 1)[index]
        distinct, count = distinct[is_here], count[is_here]
    hits = np.bincount(index, weights * is_label)
    frequency = hits.sum() / count.sum()
    if frequency > 0:  # a class that never occurs stays at 0
        hits[0] += frequency
        count[0] += frequency
        count[-1] += 1.0 - frequency
    fitted = isotonic_regression(hits / count, count)
    y = np.clip(fitted.x, 0.0, 1.0)
    squares = float(weights @ (y[index] - is_label) ** 2 / weights.sum())
    ends = np.unique(np.concatenate([fitted.blocks[:-1], fitted.blocks[1:] - 1]))
    return distinct[ends], y[ends], squares
