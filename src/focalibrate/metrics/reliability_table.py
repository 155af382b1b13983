"""Reliability table: per-bin sums from which the binned calibration errors are computed."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from focalibrate._array import Array, Floats, to_numpy
from focalibrate._check import check_choice, check_confidence, check_n_bins, is_whole
from focalibrate.metrics._rows import read, read_weights, top_label
from focalibrate.metrics.binning import (
    bin_sums,
    edges_index,
    equal_width_edges,
    equal_width_index,
    read_edges,
    split_equal_mass,
)

Norm = Literal["l1", "l2", "max"]


@dataclass(frozen=True, eq=False)
class ReliabilityTable:
    r"""Per-bin sums: all that ECE, MCE, their debiased form and a reliability diagram need.

    Bin ``b`` holds the examples with confidence in ``(edges[b-1], edges[b]]``; 0 falls in
    the first bin and 1 in the last. The size is ``O(bins)`` however many examples were
    seen, and ``+`` merges batches and workers in any order.

    Attributes:
        count: examples :math:`n_b`, or the sum of their weights, shape ``[B]``.
        confidence_sum: sum of confidences :math:`C_b`, shape ``[B]``.
        correct_sum: number of correct examples :math:`A_b`, shape ``[B]``.
        edges: from 0 to 1, shape ``[B + 1]``.
        spread: sum of squared weights, shape ``[B]``; None where weights count repeated
            rows, for which it is `count`.

    Numerics:
        Sums are float64, so merging agrees with one pass to about ``N * 1e-16``. A
        confidence is compared with the float64 edges at its exact value: the float32
        nearest to 0.2 lies above 0.2 and falls in the bin that starts there.

    Example:
        >>> import numpy as np
        >>> probs = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
        >>> first = ReliabilityTable.of(probs[:2], np.array([0, 0]), n_bins=2)
        >>> table = first + ReliabilityTable.of(probs[2:], np.array([0]), n_bins=2)
        >>> table.count, round(table.ece(), 4)
        (array([0., 3.]), 0.1)
    """

    count: Floats
    confidence_sum: Floats
    correct_sum: Floats
    edges: Floats
    spread: Floats | None = None

    @classmethod
    def of(
        cls,
        probs: Array,
        labels: Array,
        *,
        n_bins: int = 15,
        edges: ArrayLike | None = None,
        sample_weight: Array | None = None,
        binary: bool = False,
    ) -> Self:
        """Return the table of each row's largest probability and whether it was right.

        Args:
            probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
            labels: class indices ``[...]``.
            n_bins: number of equally wide bins.
            edges: bin edges from 0 to 1, instead of `n_bins`.
            sample_weight: weights ``[...]``. Whole numbers count repeated rows.
            binary: `probs` are probabilities of class 1, one per example. Their confidence
                is ``max(p, 1 - p)``; for the reliability of ``p`` itself use
                ``ReliabilityTable.of_confidence(p, labels)``.
        """
        confidence, correct = top_label(*read(probs, labels, binary=binary))
        weights = read_weights(sample_weight, len(confidence))
        return cls._of_values(confidence, correct, weights, n_bins, edges)

    @classmethod
    def empty(cls, *, n_bins: int = 15, edges: ArrayLike | None = None) -> Self:
        """Return the table of no examples, to which others are added; its errors are nan."""
        limits = equal_width_edges(n_bins) if edges is None else read_edges(edges)
        zero = np.zeros(len(limits) - 1)
        return cls(zero, zero, zero, limits)

    @classmethod
    def of_confidence(
        cls,
        confidence: Array,
        correct: Array,
        *,
        n_bins: int = 15,
        edges: ArrayLike | None = None,
        sample_weight: Array | None = None,
    ) -> Self:
        """Return the table of confidences ``[N]`` in [0, 1] and correctness ``[N]``, 0 or 1."""
        check_confidence(confidence, correct)
        values, hits = to_numpy(confidence), to_numpy(correct)
        weights = read_weights(sample_weight, len(values))
        return cls._of_values(values, hits, weights, n_bins, edges)

    @classmethod
    def of_index(
        cls,
        index: NDArray[np.intp],
        confidence: NDArray[Any],
        correct: NDArray[Any],
        edges: Floats,
        weights: Floats | None = None,
    ) -> Self:
        """Return the table of NumPy arrays ``[N]`` whose bins are known; nothing is checked."""
        n = len(edges) - 1
        if weights is None:
            count = np.bincount(index, minlength=n).astype(np.float64)
            return cls(count, bin_sums(index, confidence, n), bin_sums(index, correct, n), edges)
        return cls(
            bin_sums(index, weights, n),
            bin_sums(index, weights * confidence, n),
            bin_sums(index, weights * correct, n),
            edges,
            None if is_whole(weights) else bin_sums(index, weights**2, n),
        )

    @classmethod
    def _of_values(
        cls,
        confidence: NDArray[Any],
        correct: NDArray[Any],
        weights: Floats | None,
        n_bins: int,
        edges: ArrayLike | None,
    ) -> Self:
        if edges is not None:
            limits = read_edges(edges)
            index = edges_index(confidence, limits)
        else:
            limits = equal_width_edges(n_bins)
            index = equal_width_index(confidence, n_bins)
        return cls.of_index(index, confidence, correct, limits, weights)

    def __add__(self, other: Self) -> Self:
        if not np.array_equal(self.edges, other.edges):
            raise ValueError(
                f"tables must have the same `edges` to be merged, got {self.n_bins} and "
                f"{other.n_bins} bins with different edges. Build both with one `n_bins` or "
                "`edges`; equal-mass bins are merged as cells first, see `equal_mass`."
            )
        return type(self)(
            self.count + other.count,
            self.confidence_sum + other.confidence_sum,
            self.correct_sum + other.correct_sum,
            self.edges,
            None if self.spread is None and other.spread is None else self._spread + other._spread,
        )

    @property
    def n_bins(self) -> int:
        """Number of bins, empty ones included."""
        return len(self.count)

    @property
    def n(self) -> int:
        """Number of examples, or the sum of their weights, rounded."""
        return round(float(self.count.sum()))

    @property
    def effective_n(self) -> float:
        r"""Effective sample size :math:`(\sum w)^2 / \sum w^2`; `n` without weights."""
        return float(self.count.sum() ** 2 / self._spread.sum())

    @property
    def _spread(self) -> Floats:
        return self.count if self.spread is None else self.spread

    @property
    def confidence(self) -> Floats:
        """Mean confidence of each bin, nan where it is empty."""
        return self._mean(self.confidence_sum)

    @property
    def accuracy(self) -> Floats:
        """Fraction correct of each bin, nan where it is empty."""
        return self._mean(self.correct_sum)

    @property
    def gap(self) -> Floats:
        """Mean confidence minus accuracy: positive where overconfident, nan where empty."""
        return self._mean(self.confidence_sum - self.correct_sum)

    def ece(self, *, norm: Norm = "l1") -> float:
        r"""Return the expected calibration error of the table; see `focalibrate.metrics.ece`."""
        check_choice(norm, ("l1", "l2", "max"), name="norm")
        filled = self.count > 0
        if not filled.any():
            return float("nan")
        gap, weight = np.abs(self.gap[filled]), self.count[filled] / self.count.sum()
        if norm == "max":
            return float(gap.max())
        return float(weight @ gap) if norm == "l1" else float(np.sqrt(weight @ gap**2))

    def mce(self) -> float:
        """Return the largest gap over non-empty bins; see `focalibrate.metrics.mce`."""
        return self.ece(norm="max")

    def debiased_ece(self) -> float:
        """Return the debiased l2 error; see `focalibrate.metrics.debiased_ece`."""
        # with repeated rows pairs / spread is n - 1
        if not self.count.any():
            return float("nan")
        pairs = self.count**2 - self._spread
        several = pairs > 1e-9 * self.count**2
        n, accuracy = self.count[several], self.accuracy[several]
        noise = self._spread[several] / pairs[several]
        excess = self.gap[several] ** 2 - accuracy * (1.0 - accuracy) * noise
        return float(np.sqrt(max(0.0, n @ excess / self.count.sum())))

    def equal_mass(self, n_bins: int = 15) -> "ReliabilityTable":
        r"""Return a table of bins of equal mass, with this table's bins as their finest cells.

        Sizes differ by at most one, larger ones first. The examples of a cell count as
        tied: a cell that crosses a boundary gives each side its share of the sums. The
        result is exact where no cell that is cut holds two different confidences;
        otherwise its ECE is off by at most :math:`\sum_c \frac{m_c}{2N}(1 + w_c)` over the
        cells that are cut, :math:`m_c` examples in a width of :math:`w_c`.

        This is how equal-mass errors are streamed in bounded memory: keep
        ``ReliabilityTable.of(..., edges=log_odds_edges())``, add, and cut at the end.
        """
        check_n_bins(n_bins)
        filled = self.count > 0
        if not filled.any():
            return type(self).empty(n_bins=n_bins)
        sums = (self.confidence_sum[filled], self.correct_sum[filled], self._spread[filled])
        count, (confidence, correct, spread), last = split_equal_mass(
            self.count[filled], sums, n_bins
        )
        upper = self.edges[1:][filled][last]
        edges = np.concatenate([[0.0], upper[:-1], [1.0]])
        is_repeated = self.spread is None
        return ReliabilityTable(count, confidence, correct, edges, None if is_repeated else spread)

    def _mean(self, total: Floats) -> Floats:
        out = np.full_like(total, np.nan)
        return np.divide(total, self.count, out=out, where=self.count > 0)
