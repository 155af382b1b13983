"""Classwise calibration error and its mergeable table."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_n_bins
from focalibrate.metrics._rows import read, read_weights, row_chunks, true_class
from focalibrate.metrics.binning import bin_sums, equal_width_edges, equal_width_index


@dataclass(frozen=True, eq=False)
class ClasswiseTable:
    r"""Per-class, per-bin sums: all that the classwise error and its diagrams need.

    Row ``k`` bins *every* example by its probability of class ``k``, over the bins
    ``((b-1)/B, b/B]``. The size is ``O(K * B)``; ``+`` merges batches and workers.

    Attributes:
        count: examples, or the sum of their weights, shape ``[K, B]``.
        prob_sum: sum of the probabilities of class ``k``, shape ``[K, B]``.
        label_sum: examples whose label is ``k``, shape ``[K, B]``.

    Numerics:
        Float64 sums. Most entries of a softmax lie in the first bin, whose sum is taken as
        the column total minus the other bins: exact to about ``N * 1e-16``.

    Example:
        >>> import numpy as np
        >>> table = ClasswiseTable.of(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
        >>> round((table + table).ece(), 4)
        0.45
    """

    count: Floats
    prob_sum: Floats
    label_sum: Floats

    @classmethod
    def of(
        cls,
        probs: Array,
        labels: Array,
        *,
        n_bins: int = 15,
        sample_weight: Array | None = None,
        binary: bool = False,
    ) -> Self:
        """Return the table of probabilities ``[..., K]`` and class indices ``[...]``."""
        check_n_bins(n_bins)
        rows, y = read(probs, labels, binary=binary)
        w = read_weights(sample_weight, len(rows))
        k = rows.shape[1]
        count, total = np.zeros(k * n_bins), np.zeros(k * n_bins)
        column_total = np.zeros(k)
        for part in row_chunks(*rows.shape):
            chunk = rows[part]
            row, cell, p = above_first_bin(chunk, n_bins)
            if w is None:
                column_total += chunk.sum(axis=0, dtype=np.float64)
                count += np.bincount(cell, minlength=k * n_bins)
                total += bin_sums(cell, p, k * n_bins)
            else:
                column_total += w[part] @ chunk.astype(np.float64)
                count += bin_sums(cell, w[part][row], k * n_bins)
                total += bin_sums(cell, w[part][row] * p, k * n_bins)
        own = y * n_bins + equal_width_index(true_class(rows, y), n_bins)
        count, total = count.reshape(k, n_bins), total.reshape(k, n_bins)
        count[:, 0] = (len(rows) if w is None else w.sum()) - count[:, 1:].sum(axis=1)
        total[:, 0] = column_total - total[:, 1:].sum(axis=1)
        label_sum = np.bincount(own, w, minlength=k * n_bins).reshape(k, n_bins)
        return cls(count, total, label_sum.astype(np.float64))

    def __add__(self, other: Self) -> Self:
        if self.count.shape != other.count.shape:
            raise ValueError(
                "tables must have the same classes and bins to be merged, got "
                f"{self.count.shape} and {other.count.shape} (classes, bins). Build both with "
                "one `n_bins` from all the columns."
            )
        return type(self)(
            self.count + other.count,
            self.prob_sum + other.prob_sum,
            self.label_sum + other.label_sum,
        )

    @property
    def n_classes(self) -> int:
        """Number of classes: the columns of the probabilities, seen as labels or not."""
        return len(self.count)

    @property
    def n(self) -> int:
        """Number of examples, or the sum of their weights, rounded."""
        return round(float(self.count[0].sum()))

    @property
    def edges(self) -> Floats:
        """Bin edges, shape ``[B + 1]``."""
        return equal_width_edges(self.count.shape[1])

    @property
    def per_class(self) -> Floats:
        """Calibration error of each class, shape ``[K]``."""
        total = self.count[0].sum()
        per_class: Floats = np.abs(self.prob_sum - self.label_sum).sum(axis=1) / total
        return per_class

    def ece(self) -> float:
        """Return the mean of `per_class`; see `focalibrate.metrics.classwise_ece`."""
        return float(self.per_class.mean())


def above_first_bin(
    rows: NDArray[Any], n_bins: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Return row, cell ``k * n_bins + b`` and value of the entries above the first bin."""
    threshold = _round_down(1.0 / n_bins, rows.dtype)
    at = np.flatnonzero(rows > threshold)
    row, column = np.divmod(at, rows.shape[1])
    p = rows.reshape(-1)[at].astype(np.float64)
    return row, column * n_bins + equal_width_index(p, n_bins), p


def _round_down(value: float, dtype: np.dtype[Any]) -> np.floating[Any]:
    """Return the largest number of `dtype` that is <= `value`, so that ``>`` means the same."""
    near: np.floating[Any] = dtype.type(value)
    return np.nextafter(near, dtype.type(0)) if float(near) > value else near


def classwise_ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    sample_weight: Array | None = None,
    binary: bool = False,
) -> float:
    r"""Classwise expected calibration error.

    .. math:: \frac1K \sum_{k=1}^{K} \sum_{b=1}^{B} \frac{n_{bk}}{N}
              \left|\overline{v_k}_{,b} - \mathrm{freq}_{bk}\right|

    For each class ``k`` all rows are binned by :math:`v_k` (bins of `ece`) and the mean of
    :math:`v_k` is compared with the frequency of label ``k``. ``K`` is the number of
    columns, whether or not every class occurs among the labels.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        n_bins: number of bins ``B``.
        sample_weight: weights ``[...]``; whole numbers count repeated rows.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float in ``[0, 1]``; at most ``2 / K`` for ``K`` classes.

    Numerics:
        See `ClasswiseTable`, which also merges data in pieces.

    Example:
        >>> import numpy as np
        >>> round(classwise_ece(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])), 4)
        0.45

    References:
        Kull et al. (2019), *Beyond temperature scaling: Obtaining well-calibrated multiclass
        probabilities with Dirichlet calibration*.
    """
    table = ClasswiseTable.of(
        probs, labels, n_bins=n_bins, sample_weight=sample_weight, binary=binary
    )
    return table.ece()
