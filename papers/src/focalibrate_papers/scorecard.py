"""Every metric of one set of predictions, resampled so that sets can be compared.

Intervals of calibration errors are part of the published comparison; they are not valid
(`focalibrate.metrics.bootstrap` gives none), which the page of the experiment says.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate.metrics import METRICS, Interval
from focalibrate.metrics.errors import MetricName

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scorecard:
    """All metrics of one set of predictions, with their resamples."""

    estimates: dict[MetricName, float]
    replicates: dict[MetricName, Floats]
    """each metric of each resample ``[n_resamples]``; empty for none"""

    def interval(self, name: MetricName) -> Interval:
        """Return a metric with its basic bootstrap interval at 95 %, at least 0."""
        found = _basic(self.estimates[name], self.replicates[name])
        return Interval(found.estimate, max(found.low, 0.0), max(found.high, 0.0))

    def difference(self, other: "Scorecard", name: MetricName) -> Interval:
        """Return a metric minus that of `other`, resampled by the same rows."""
        gap = self.estimates[name] - other.estimates[name]
        return _basic(gap, self.replicates[name] - other.replicates[name])


def scorecard(
    probs: Floats, labels: NDArray[np.integer], *, n_resamples: int = 0, seed: int = 0
) -> Scorecard:
    """Return every metric of probabilities ``[N, K]``; the same seed draws the same rows."""
    estimates = {name: metric.function(probs, labels) for name, metric in METRICS.items()}
    drawn: dict[MetricName, list[float]] = {name: [] for name in METRICS}
    rng = np.random.default_rng(seed)
    for _ in range(n_resamples):
        rows = rng.integers(len(labels), size=len(labels))
        for name, values in drawn.items():
            values.append(METRICS[name].function(probs[rows], labels[rows]))
    return Scorecard(estimates, {name: np.array(values) for name, values in drawn.items()})


def _basic(estimate: float, values: Floats) -> Interval:
    if not np.isfinite(estimate):
        return Interval(estimate, estimate, estimate)
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(estimate, 2 * estimate - float(high), 2 * estimate - float(low))
