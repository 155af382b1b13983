"""Position bias: does a model favour an answer because it is A, B or C?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from focalibrate._array import Floats
from focalibrate.metrics.interval import NORMAL_95
from focalibrate.metrics.residuals import cluster_sums
from focalibrate.metrics.rows import renumbered


@dataclass(frozen=True, eq=False)
class PositionBias:
    """How often each position is right, and how often the model says so."""

    stated: Floats
    """mean probability of each position, over the questions that have it, ``[K]``"""
    happened: Floats
    """share of these questions whose answer is there, ``[K]``"""
    low: Floats
    high: Floats
    """95 % interval of ``stated - happened``, ``[K]``"""
    p_value: float
    """of the test that no position is favoured"""

    def summary(self, names: Sequence[str]) -> str:
        """Return the finding in one sentence."""
        gaps = self.stated - self.happened
        k = int(np.argmax(np.abs(gaps)))
        word = "more" if gaps[k] > 0 else "less"
        found = (
            f"{names[k]} gets {100 * abs(gaps[k]):.1f} points {word} than it should "
            f"({100 * self.stated[k]:.1f} % on average, right in {100 * self.happened[k]:.1f} %; "
            f"95 % CI of the difference {100 * self.low[k]:.1f} to {100 * self.high[k]:.1f})"
        )
        if self.p_value >= 0.05:
            return f"Position bias: none found (p = {self.p_value:.2g}); {found} by chance."
        return (
            f"Position bias (p = {self.p_value:.2g}): {found}. No calibrator here corrects it: "
            "ask each question with its options in several orders and average."
        )


def position_bias(
    probs: NDArray[np.floating],
    labels: NDArray[np.integer],
    *,
    cluster: NDArray[np.generic] | None = None,
) -> PositionBias:
    r"""Measure whether positions get more probability than they are right.

    For each position k the mean of :math:`r_k = p_k - 1[y = k]`; the test is Wald's of all means
    at once, with a covariance that is robust to clusters.

    Args:
        probs: probabilities of the options in the order the model saw them, ``[N, K]``; 0 where
            a question has fewer.
        labels: positions of the right options ``[N]``.
        cluster: equal values mark rows that belong together, ``[N]``.
    """
    probs = np.asarray(probs, np.float64)
    n, n_options = probs.shape
    hit = np.zeros_like(probs)
    hit[np.arange(n), labels] = 1.0
    has = (probs > 0) | (hit > 0)
    count = np.maximum(has.sum(axis=0), 1)
    gap = (probs - hit).sum(axis=0) / count
    residual = np.where(has, probs - hit - gap, 0.0) / count
    codes = np.arange(n) if cluster is None else renumbered(cluster)
    sums = np.hstack([cluster_sums(column, codes) for column in residual.T])
    covariance = sums.T @ sums * (len(sums) / max(len(sums) - 1, 1))
    half = NORMAL_95 * np.sqrt(np.diag(covariance))
    inverse = np.linalg.pinv(covariance, rcond=1e-9, hermitian=True)
    rank = min(int(np.linalg.matrix_rank(covariance, hermitian=True)), n_options - 1)
    return PositionBias(
        probs.sum(axis=0) / count,
        hit.sum(axis=0) / count,
        gap - half,
        gap + half,
        float(chdtrc(max(rank, 1), gap @ inverse @ gap)),
    )
