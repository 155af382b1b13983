"""Every metric of one set of predictions, resampled on the same rows as any other's."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate._check import check_count, check_n_bins
from focalibrate.metrics._binning import Floats
from focalibrate.metrics._resampling import Resampler, resampler
from focalibrate.metrics._rows import read, top_label
from focalibrate.metrics.adaptive import adaptive_ece
from focalibrate.metrics.bootstrap import BootstrapInterval, draw_rows, interval_of
from focalibrate.metrics.calibration_error import ece, mce
from focalibrate.metrics.classwise import classwise_ece
from focalibrate.metrics.scores import brier_score, error_rate, nll
from focalibrate.metrics.smooth import smooth_ece

MetricName = Literal[
    "ece", "adaptive_ece", "classwise_ece", "smooth_ece", "mce", "nll", "brier", "error"
]
METRIC_NAMES: tuple[MetricName, ...] = get_args(MetricName)
_FUNCTIONS: dict[MetricName, Callable[..., float]] = {
    "ece": ece,
    "adaptive_ece": adaptive_ece,
    "classwise_ece": classwise_ece,
    "smooth_ece": smooth_ece,
    "mce": mce,
    "nll": nll,
    "brier": brier_score,
    "error": error_rate,
}
_BINNED: tuple[MetricName, ...] = ("ece", "adaptive_ece", "classwise_ece", "mce")


@dataclass(frozen=True, eq=False)
class Scorecard:
    """All metrics of one set of predictions, with their resamples."""

    estimates: dict[MetricName, float]
    replicates: dict[MetricName, Floats]
    """each metric of each resample ``[n_resamples]``"""
    predictions: NDArray[np.intp]
    """the predicted classes ``[N]``"""
    confidence_gap: float
    """mean confidence less accuracy; positive is overconfident"""

    def interval(self, name: MetricName) -> BootstrapInterval:
        """Return a metric with its 95 % interval."""
        return interval_of(self.replicates[name], self.estimates[name], least=0.0)

    def difference(self, other: "Scorecard", name: MetricName) -> BootstrapInterval:
        """Return a metric less that of `other`, with its paired 95 % interval.

        Both cards must be of the same examples, resampled by the same seed.
        """
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


def scorecard(
    probs: Array, labels: Array, *, n_bins: int = 15, n_resamples: int = 300, seed: int = 0
) -> Scorecard:
    """Return every metric of `probs`, resampled so that cards can be compared in pairs.

    Args:
        probs: probabilities ``[N, K]``, any array library.
        labels: class indices ``[N]``.
        n_bins: bins of the binned metrics.
        n_resamples: bootstrap resamples.
        seed: of the resamples; the same seed draws the same rows for every card.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> probs = rng.dirichlet(np.ones(3), size=200)
        >>> labels = np.array([rng.choice(3, p=p) for p in probs])
        >>> card = scorecard(probs, labels, n_resamples=50)
        >>> card.interval("error").estimate == error_rate(probs, labels)
        True
        >>> card.difference(card, "nll").estimate
        0.0
    """
    check_n_bins(n_bins)
    check_count(n_resamples, name="n_resamples")

    def prepare(name: MetricName) -> tuple[float, Resampler]:
        metric = _FUNCTIONS[name]
        options = {"n_bins": n_bins} if name in _BINNED else {}
        return metric(rows, targets, **options), resampler(metric, rows, targets, options)

    for module in ("scipy.fft", "scipy.optimize", "scipy.sparse"):
        import_module(module)  # once, here: two threads that import SciPy at a time can see half
    rows, targets = read(probs, labels)
    confidence, _ = top_label(rows, targets)
    parts: dict[MetricName, list[Floats]] = {name: [] for name in METRIC_NAMES}
    with ThreadPoolExecutor(max_workers=2) as pool:
        prepared = dict(zip(METRIC_NAMES, pool.map(prepare, METRIC_NAMES), strict=True))
        for draws in draw_rows(len(rows), n_resamples, seed):
            _ = draws.times  # before threads ask for it at a time
            found = pool.map(lambda name, draws=draws: prepared[name][1](draws), METRIC_NAMES)
            for name, values in zip(METRIC_NAMES, found, strict=True):
                parts[name].append(values)
    return Scorecard(
        {name: prepared[name][0] for name in METRIC_NAMES},
        {name: np.concatenate(parts[name]) for name in METRIC_NAMES},
        rows.argmax(axis=-1),
        float(np.mean(confidence, dtype=np.float64)) - (1.0 - prepared["error"][0]),
    )
