"""Means of per-example values, and differences between them, paired by example."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate.choice import standard_error
from focalibrate.metrics.errors import MetricName
from focalibrate.metrics.scores import resampled_sums

MAX_GROUPS = 20_000
"""If there are more examples than this, random groups of them are resampled."""


@dataclass(frozen=True)
class Score:
    """A score, with the ends of its 95 % interval where it has one."""

    estimate: float
    low: float | None = None
    high: float | None = None

    def clipped(self, metric: MetricName) -> "Score":
        """Return the interval limited to the range of `metric`: at least 0, an error at most 1."""
        if self.low is None or self.high is None:
            return self
        most = {"error": 1.0, "brier": 2.0}.get(metric, math.inf)
        return Score(self.estimate, max(self.low, 0.0), min(self.high, most))


def by_cluster(
    values: Floats, weights: Floats | None, cluster: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Return the weighted mean of each cluster ``[G, M]`` and its weight, 1 on average ``[G]``."""
    w = np.ones(len(values)) if weights is None else weights
    mass = np.bincount(cluster, w)
    sums = np.stack([np.bincount(cluster, w * column) for column in values.T], axis=1)
    return sums / mass[:, None], mass / mass.mean()


def paired_p_value(
    first: Floats,
    second: Floats,
    weights: Floats | None = None,
    cluster: NDArray[np.intp] | None = None,
) -> float:
    """Return the two-sided p-value of a mean difference, by the normal law.

    With the number of each row's `cluster`, the standard error is that of clusters.
    """
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        return 0.0 if np.isfinite(first).all() != np.isfinite(second).all() else 1.0
    gap = first - second
    if cluster is not None:
        means, weights = by_cluster(gap[:, None], weights, cluster)
        gap = means[:, 0]
    error = float(standard_error(gap, weights))
    if error == 0.0:
        return 1.0
    return math.erfc(abs(float(np.average(gap, weights=weights))) / error / math.sqrt(2))


@dataclass(frozen=True, eq=False)
class PairedMeans:
    """Means of several columns of values, resampled on the same examples."""

    estimates: Floats
    """``[M]``"""
    replicates: Floats
    """``[n_resamples, M]``"""

    @classmethod
    def of(
        cls,
        values: Floats,
        *,
        weights: Floats | None = None,
        cluster: NDArray[np.intp] | None = None,
        n_resamples: int = 300,
        seed: int | np.random.Generator = 0,
    ) -> "PairedMeans":
        """Resample the rows of `values` ``[N, M]``.

        Args:
            values: one column per mean; infinite values make a mean infinite.
            weights: one number per row, ``[N]``.
            cluster: number of the cluster of each row ``[N]``: whole clusters are resampled.
            n_resamples: bootstrap resamples.
            seed: random seed, or a generator.
        """
        rng = np.random.default_rng(seed)
        if cluster is not None:
            values, weights = by_cluster(values, weights, cluster)
        is_finite = np.isfinite(values).all(axis=0)
        finite = np.where(is_finite, values, 0.0)
        sums = finite if weights is None else finite * weights[:, None]
        mass = np.ones(len(values)) if weights is None else weights
        table = _grouped(np.column_stack([sums, mass]), rng)
        drawn = resampled_sums(table, n_resamples, rng)
        # All weight may be left out of a resample of few rows.
        with np.errstate(divide="ignore", invalid="ignore"):
            replicates = drawn[:, :-1] / drawn[:, -1:]
        return cls(
            np.where(is_finite, np.average(finite, axis=0, weights=weights), np.inf),
            np.where(is_finite, replicates, np.inf),
        )

    def interval(self, column: int) -> Score:
        """Return a mean with its 95 % bootstrap interval."""
        return _basic_interval(float(self.estimates[column]), self.replicates[:, column])

    def difference(self, first: int, second: int) -> Score:
        """Return the first mean minus the second, paired, with its 95 % interval."""
        a, b = float(self.estimates[first]), float(self.estimates[second])
        if first == second:
            return Score(0.0, 0.0, 0.0)
        if math.isinf(a) or math.isinf(b):
            gap = math.nan if math.isinf(a) and math.isinf(b) else a - b
            return Score(gap, gap, gap)
        return _basic_interval(a - b, self.replicates[:, first] - self.replicates[:, second])


def _basic_interval(estimate: float, replicates: Floats) -> Score:
    if not math.isfinite(estimate):
        return Score(estimate, estimate, estimate)
    low, high = np.nanquantile(replicates, [0.025, 0.975])
    return Score(estimate, float(2 * estimate - high), float(2 * estimate - low))


def _grouped(table: Floats, rng: np.random.Generator) -> Floats:
    """Return sums over random groups of rows, at most `MAX_GROUPS` of them.

    Sums of groups drawn at random are as independent as rows are, and their resampled mean
    has the same variance.
    """
    n = len(table)
    if n <= MAX_GROUPS:
        return table
    group = rng.permutation(n) % MAX_GROUPS
    columns = [np.bincount(group, column, minlength=MAX_GROUPS) for column in table.T]
    return np.stack(columns, axis=1)
