"""Histogram binning, one class against the rest."""

from typing import Literal, overload

import numpy as np

from focalibrate._array import Array
from focalibrate._check import check_n_bins
from focalibrate.calibrate._columns import check_classes_present, class_columns, count_changed
from focalibrate.calibrate._input import read_logits
from focalibrate.calibrate.fit_report import FitReport
from focalibrate.calibrate.one_vs_rest import HistogramBinning
from focalibrate.metrics._binning import equal_width_edges, equal_width_index


@overload
def fit_histogram_binning(
    logits: Array, labels: Array, *, n_bins: int = ..., return_report: Literal[False] = ...
) -> HistogramBinning: ...


@overload
def fit_histogram_binning(
    logits: Array, labels: Array, *, n_bins: int = ..., return_report: Literal[True]
) -> tuple[HistogramBinning, FitReport]: ...


def fit_histogram_binning(
    logits: Array, labels: Array, *, n_bins: int = 15, return_report: bool = False
) -> HistogramBinning | tuple[HistogramBinning, FitReport]:
    r"""Fit, for each class, the frequency of the label in bins of equal width.

    .. math:: f_k(p) = \frac{\#\{i : p_{ik} \in b, y_i = k\}}{\#\{i : p_{ik} \in b\}}
              \quad\text{for } p \in b

    An empty bin keeps its centre.

    Args:
        logits: real array ``[N, K]``, any library.
        labels: class indices ``[N]`` of at least two classes; classes that never occur get
            probability 0 where they were seen, with a warning.
        n_bins: number of bins of each class.
        return_report: also return a `FitReport`; its value is the mean squared error summed
            over the classes, before rows are brought back to sum 1.

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
    rows, targets = read_logits(logits, labels)
    check_classes_present(targets, rows.shape[1], method="histogram binning")
    edges = equal_width_edges(n_bins)
    centres = 0.5 * (edges[:-1] + edges[1:])
    values, error = [], 0.0
    for probs, is_label in class_columns(rows, targets):
        index = equal_width_index(np.minimum(probs, 1.0), n_bins)
        count = np.bincount(index, minlength=n_bins)
        hits = np.bincount(index, is_label, n_bins)
        value = np.where(count > 0, hits / np.maximum(count, 1), centres)
        values.append(tuple(value.tolist()))
        error += float(((value[index] - is_label) ** 2).mean())
    found = HistogramBinning((tuple(edges.tolist()),) * len(values), tuple(values))
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
