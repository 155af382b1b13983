"""Histogram binning, one class against the rest."""

from typing import Literal, overload

import numpy as np

from focalibrate._array import Array
from focalibrate._check import check_n_bins
from focalibrate.calibrate._engine.columns import (
    check_classes_present,
    class_columns,
)
from focalibrate.calibrate._engine.reporting import finished
from focalibrate.calibrate._input import read_scores
from focalibrate.calibrate.fit_report import FitReport
from focalibrate.calibrate.one_vs_rest import HistogramBinning
from focalibrate.metrics.binning import equal_width_edges, equal_width_index


@overload
def fit_histogram_binning(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    n_bins: int = ...,
    return_report: Literal[False] = ...,
) -> HistogramBinning: ...


@overload
def fit_histogram_binning(
    logits: Array | None = ...,
    labels: Array | None = ...,
    *,
    probs: Array | None = ...,
    sample_weight: Array | None = ...,
    n_bins: int = ...,
    return_report: Literal[True],
) -> tuple[HistogramBinning, FitReport]: ...


def fit_histogram_binning(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    n_bins: int = 15,
    return_report: bool = False,
) -> HistogramBinning | tuple[HistogramBinning, FitReport]:
    r"""Fit, for each class, the frequency of the label in bins of equal width.

    .. math:: f_k(p) = \frac{\#\{i : p_{ik} \in b, y_i = k\}}{\#\{i : p_{ik} \in b\}}
              \quad\text{for } p \in b

    An empty bin keeps its centre.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]`` of at least two classes; classes that never occur get
            probability 0 where they were seen, with a warning.
        n_bins: number of bins of each class.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        return_report: also return a `FitReport`; its value is the mean squared error summed
            over the classes, before rows are normalised.

    Returns:
        `HistogramBinning`.

    Example:
        >>> import numpy as np
        >>> logits = np.log([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
        >>> found = fit_histogram_binning(logits, np.array([0, 1, 0, 1]), n_bins=2)
        >>> found.values[0]
        (0.0, 0.6666666666666666)

    References:
        Zadrozny & Elkan (2001).
    """
    check_n_bins(n_bins)
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    check_classes_present(rows.labels, rows.n_classes, method="histogram binning")
    edges = equal_width_edges(n_bins)
    centres = 0.5 * (edges[:-1] + edges[1:])
    values, error = [], 0.0
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    for column, is_label in class_columns(rows.logits, rows.labels):
        index = equal_width_index(np.minimum(column, 1.0), n_bins)
        count = np.bincount(index, weights, n_bins)
        hits = np.bincount(index, weights * is_label, n_bins)
        value = np.where(count > 0, hits / np.where(count > 0, count, 1.0), centres)
        values.append(tuple(np.clip(value, 0.0, 1.0).tolist()))
        error += float(weights @ (value[index] - is_label) ** 2 / weights.sum())
    found = rows.stamp(HistogramBinning((tuple(edges.tolist()),) * len(values), tuple(values)))
    return finished(
        found, rows, return_report, criterion="squared error", value=error, n_evaluations=1
    )
