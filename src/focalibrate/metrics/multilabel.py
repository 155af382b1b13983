"""Calibration error of independent labels, and its mergeable table."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from focalibrate._array import Array, Floats, to_numpy
from focalibrate._check import check_choice, check_label_weight, check_n_bins, check_unit_array
from focalibrate.metrics.binning import equal_width_edges, equal_width_index
from focalibrate.metrics.reliability_table import ReliabilityTable

Average = Literal["macro", "micro"]


@dataclass(frozen=True, eq=False)
class MultilabelTable:
    r"""Per-label, per-bin sums of the probabilities of labels that do not exclude each other.

    Row ``c`` bins every example by its probability of label ``c``, over the bins
    ``((b-1)/B, b/B]``. The size is ``O(C * B)``; ``+`` merges batches and workers.

    Attributes:
        count: examples, or the sum of their weights, shape ``[C, B]``.
        prob_sum: sum of the probabilities, shape ``[C, B]``.
        label_sum: number of positive labels, shape ``[C, B]``.

    Example:
        >>> probs = np.array([[0.9, 0.2], [0.7, 0.4]])
        >>> table = MultilabelTable.of(probs, np.array([[1, 0], [0, 1]]), n_bins=1)
        >>> (table + table).per_label.round(4), round(table.micro, 4), round(table.macro, 4)
        (array([0.3, 0.2]), 0.05, 0.25)
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
    ) -> Self:
        """Return the table of probabilities ``[N, C]`` and labels 0 or 1 ``[N, C]``.

        Args:
            probs: one probability per label, any array library.
            labels: same shape.
            n_bins: number of equally wide bins.
            sample_weight: ``[N]``, or ``[N, C]`` with 0 for a label that is unknown.
        """
        check_n_bins(n_bins)
        check_unit_array(probs, name="probs")
        p, y = to_numpy(probs).astype(np.float64), to_numpy(labels)
        if p.ndim != 2 or p.shape != y.shape:
            raise ValueError(
                f"`probs` and `labels` must both have shape [N, C], got {list(p.shape)} and "
                f"{list(y.shape)}. For one class per example use `ece`."
            )
        y = y.astype(np.float64)
        if not np.isin(y, (0.0, 1.0)).all():
            raise ValueError("`labels` must be 0 or 1. Give an unknown label the weight 0.")
        weights = None
        if sample_weight is not None:
            weights = check_label_weight(sample_weight, shape=p.shape)
        n_labels = p.shape[1]
        index = equal_width_index(p, n_bins) + np.arange(n_labels) * n_bins

        def sums(values: Floats | None) -> Floats:
            size = n_labels * n_bins
            flat = None if values is None else values.ravel()
            return np.bincount(index.ravel(), flat, size).astype(np.float64).reshape(n_labels, -1)

        if weights is None:
            return cls(sums(None), sums(p), sums(y))
        return cls(sums(weights), sums(weights * p), sums(weights * y))

    def __add__(self, other: Self) -> Self:
        if self.count.shape != other.count.shape:
            raise ValueError(
                "tables must have the same labels and bins to be merged, got "
                f"{self.count.shape} and {other.count.shape} (labels, bins)."
            )
        return type(self)(
            self.count + other.count,
            self.prob_sum + other.prob_sum,
            self.label_sum + other.label_sum,
        )

    @property
    def n_labels(self) -> int:
        """Number of labels C."""
        return len(self.count)

    @property
    def per_label(self) -> Floats:
        """Calibration error of each label, shape ``[C]``; nan for one without examples."""
        gap = np.abs(self.prob_sum - self.label_sum).sum(axis=1)
        n = self.count.sum(axis=1)
        out = np.full(len(n), np.nan)
        np.divide(gap, n, out=out, where=n > 0)
        return out

    @property
    def macro(self) -> float:
        """Mean of `per_label` over the labels that have examples."""
        return float(np.nanmean(self.per_label))

    @property
    def micro(self) -> float:
        """Calibration error of all labels pooled, each (example, label) pair counting once."""
        return self.pooled.ece()

    @property
    def pooled(self) -> ReliabilityTable:
        """The table of all pairs of an example and a label: for a reliability diagram."""
        edges = equal_width_edges(self.count.shape[1])
        sums = (x.sum(axis=0) for x in (self.count, self.prob_sum, self.label_sum))
        count, probs, labels = sums
        return ReliabilityTable(count, probs, labels, edges)

    def label_table(self, label: int) -> ReliabilityTable:
        """Return the table of one label, for its reliability diagram."""
        edges = equal_width_edges(self.count.shape[1])
        return ReliabilityTable(
            self.count[label], self.prob_sum[label], self.label_sum[label], edges
        )


def multilabel_ece(
    probs: Array,
    labels: Array,
    *,
    n_bins: int = 15,
    average: Average = "macro",
    sample_weight: Array | None = None,
) -> float:
    r"""Expected calibration error of labels that do not exclude each other.

    .. math:: \mathrm{ECE}_c = \sum_b \frac{n_{bc}}{N}\left|\bar p_{bc} - \bar y_{bc}\right|

    ``"macro"`` is the mean over labels; ``"micro"`` pools all pairs of an example and a label,
    so that errors of opposite sign in one bin cancel and frequent labels dominate.

    Args:
        probs: one probability per label, ``[N, C]``.
        labels: 0 or 1, ``[N, C]``.
        n_bins: number of equally wide bins ``B``.
        average: over labels.
        sample_weight: ``[N]``, or ``[N, C]`` with 0 for a label that is unknown.

    Example:
        >>> probs = np.array([[0.9, 0.2], [0.7, 0.4]])
        >>> round(multilabel_ece(probs, np.array([[1, 0], [0, 1]]), n_bins=1), 4)
        0.25
    """
    check_choice(average, ("macro", "micro"), name="average")
    table = MultilabelTable.of(probs, labels, n_bins=n_bins, sample_weight=sample_weight)
    return table.macro if average == "macro" else table.micro
