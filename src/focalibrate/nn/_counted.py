"""The rows of a batch that count, in NumPy: what a monitor adds up and AdaFocal adapts to."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from focalibrate._array import Floats
from focalibrate._check import check_labels, check_logits
from focalibrate.metrics.sketch import RowTerms, row_terms
from focalibrate.nn._rows import as_rows, row_weights

LARGE = 4096
"""Images of at least so many pixels are taken one at a time, in the dtype of the logits."""


class CountedRows(NamedTuple):
    """Rows that are not ignored and have a weight above 0."""

    logits: NDArray[Any]
    """``[M, K]``"""
    labels: NDArray[np.int64]
    weights: Floats | None
    image: NDArray[np.intp]
    """position in the batch"""
    is_large: bool
    """whether they are the pixels of a large image"""

    def terms(self, *, classwise: bool = False, n_bins: int = 15) -> RowTerms:
        """Return what a sketch sums of each row, computed in float64 but for large images."""
        z = self.logits if self.is_large else self.logits.astype(np.float64)
        check_logits(z)
        return row_terms(
            z,
            self.labels,
            given="logits",
            weights=self.weights,
            copies=None,
            n_bins=n_bins,
            classwise=classwise,
        )


def counted_rows(
    logits: Tensor, labels: Tensor, weights: Tensor | None = None, *, ignore_index: int
) -> CountedRows:
    """Return the rows of a batch of logits and class indices that count, labels checked."""
    rows = as_rows(logits, labels, ignore_index=ignore_index)
    if rows.is_soft:
        raise ValueError(
            f"`labels` must be class indices, got soft targets of shape {tuple(labels.shape)}. "
            "Pass `labels.argmax(1)`, or the labels before mixing."
        )
    z, y = (x.detach().cpu().numpy() for x in (rows.logits, rows.target))
    w = None if weights is None else row_weights(weights, rows).cpu().numpy()
    n_images = rows.shape[0] if rows.shape else 1
    image = np.repeat(np.arange(n_images), len(y) // n_images)
    counts = np.ones(len(y), np.bool_) if rows.ignored is None else ~rows.ignored.cpu().numpy()
    if w is not None:
        counts &= w > 0
    if not counts.all():
        kept = np.flatnonzero(counts)
        # The classes of an image come first: taken as they lie, which is several times faster.
        z = z.T.take(kept, axis=1).T if z.flags.f_contiguous else z[kept]
        y, image, w = y[kept], image[kept], None if w is None else w[kept]
    if len(y):
        check_labels(y, shape=y.shape, n_classes=rows.n_classes)
    return CountedRows(z, y, w, image, math.prod(rows.shape[1:]) >= LARGE)
