"""Every metric of one set of predictions, resampled so that sets can be compared."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_count, check_n_bins, is_whole
from focalibrate.metrics._resampling import Resampler, resampler
from focalibrate.metrics._rows import read, read_weights, top_label
from focalibrate.metrics.bootstrap import BootstrapInterval, draw_rows, interval_of
from focalibrate.metrics.registry import INTERVAL_METRICS, METRIC_NAMES, METRICS, MetricName
from focalibrate.metrics.scores import weighted_mean


@dataclass(frozen=True, eq=False)
class Scorecard:
    """All metrics of one set of predictions, with their resamples."""

    estimates: dict[MetricName, float]
    replicates: dict[MetricName, Floats]
    """each resampled metric of each resample ``[n_resamples]``"""
    predictions: NDArray[np.intp]
    """the predicted classes ``[N]``"""
    confidence_gap: float
    """mean confidence minus accuracy; positive is overconfident"""

    def interval(self, name: MetricName) -> BootstrapInterval:
        """Return a metric with its 95 % interval, nan where it was not resampled.

        Calibration errors are not, as their bootstrap intervals are not valid: see `assess`.
        """
        if name not in self.replicates:
            return _without_interval(self.estimates[name])
        return interval_of(self.replicates[name], self.estimates[name], least=0.0)

    def difference(self, other: "Scorecard", name: MetricName) -> BootstrapInterval:
        """Return a metric minus that of `other`, with its paired 95 % interval.

        Both cards must be of the same examples, resampled by the same seed.
        """
        if name not in self.replicates or name not in other.replicates:
            return _without_interval(self.estimates[name] - other.estimates[name])
        draws, others = self.replicates[name], other.replicates[name]
        if len(draws) != len(others) or len(self.predictions) != len(other.predictions):
            raise ValueError(
                f"`other` must be of the same {len(self.predictions)} examples and "
                f"{len(draws)} resamples, got {len(other.predictions)} and {len(others)}."
            )
        if not np.isfinite(self.estimates[name] - other.estimates[name]):
            gap = self.estimates[name] - other.estimates[name]
            return BootstrapInterval(gap, gap, gap, 0.95, len(draws))
        return interval_of(draws - others, self.estimates[name] - other.estimates[name])


def _without_interval(estimate: float) -> BootstrapInterval:
    return BootstrapInterval(estimate, float("nan"), float("nan"), 0.95, 0)


def scorecard(
    probs: Array,
    labels: Array,
    *,
    sample_weight: Array | None = None,
    n_bins: int = 15,
    n_resamples: int = 300,
    seed: int = 0,
    resampled: Sequence[MetricName] = INTERVAL_METRICS,
) -> Scorecard:
    """Return every metric of `probs`, resampled so that cards can be compared in pairs.

    Args:
        probs: probabilities ``[N, K]``, any array library.
        labels: class indices ``[N]``.
        sample_weight: weights ``[N]``; whole numbers count repeated rows.
        n_bins: bins of the binned metrics.
        n_resamples: bootstrap resamples.
        seed: random seed of the resamples; the same seed draws the same rows for every card.
        resampled: metrics that get an interval. Default: those whose interval is valid.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(3), size=200)
        >>> labels = np.array([rng.choice(3, p=p) for p in probs])
        >>> card = scorecard(probs, labels, n_resamples=50)
        >>> card.interval("error").estimate == card.estimates["error"]
        True
        >>> card.difference(card, "nll").estimate
        0.0
    """
    check_n_bins(n_bins)
    check_count(n_resamples, name="n_resamples")
    rows, targets = read(probs, labels)
    weights = read_weights(sample_weight, len(rows))
    predictions = rows.argmax(axis=-1)
    if weights is not None and is_whole(weights):
        times = weights.astype(np.intp)
        rows, targets, weights = np.repeat(rows, times, axis=0), np.repeat(targets, times), None

    def options(name: MetricName) -> dict[str, int]:
        return {"n_bins": n_bins} if METRICS[name].takes_bins else {}

    def value(name: MetricName) -> float:
        return METRICS[name].function(rows, targets, sample_weight=weights, **options(name))

    def prepare(name: MetricName) -> Resampler:
        return resampler(METRICS[name].function, rows, targets, dict(options(name)))

    for module in ("scipy.fft", "scipy.optimize", "scipy.sparse"):
        import_module(module)  # once, here: threads that import SciPy together may fail
    confidence, _ = top_label(rows, targets)
    parts: dict[MetricName, list[Floats]] = {name: [] for name in resampled}
    with ThreadPoolExecutor(max_workers=2) as pool:
        estimates = dict(zip(METRIC_NAMES, pool.map(value, METRIC_NAMES), strict=True))
        prepared = dict(zip(resampled, pool.map(prepare, resampled), strict=True))
        for draws in draw_rows(len(rows), n_resamples, seed, weights):
            _ = draws.total  # computed once, before threads need it
            found = pool.map(lambda name, draws=draws: prepared[name](draws), resampled)
            for name, values in zip(resampled, found, strict=True):
                parts[name].append(values)
    return Scorecard(
        estimates,
        {name: np.concatenate(parts[name]) for name in resampled},
        predictions,
        weighted_mean(confidence, weights) - (1.0 - estimates["error"]),
    )
