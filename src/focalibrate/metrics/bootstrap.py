"""Bootstrap confidence intervals of a metric, and of the difference of two methods."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from focalibrate._array import Array, Floats, to_numpy
from focalibrate._check import (
    check_choice,
    check_count,
    check_open_interval,
    check_sample_weight,
    is_whole,
)
from focalibrate.metrics._resampling import Draws, Resampler, is_prepared, resampler

IntervalMethod = Literal["basic", "percentile"]

CHUNK_INDICES = 1 << 21
"""Row indices drawn at once: 16 MB."""


@dataclass(frozen=True)
class BootstrapInterval:
    """A metric (or a difference), with the interval that holds its true value at `level`."""

    estimate: float
    low: float
    high: float
    level: float
    n_resamples: int


def bootstrap(
    metric: Callable[..., Any],
    probs: Array,
    labels: Array | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    interval: IntervalMethod = "basic",
    seed: int | np.random.Generator = 0,
    sample_weight: Array | None = None,
    **options: Any,
) -> BootstrapInterval:
    r"""Bootstrap confidence interval of any metric over examples.

    ``N`` rows are drawn with replacement `n_resamples` times. With the estimate
    :math:`\hat\theta` and the quantiles :math:`q_\alpha` of the resampled metric,
    :math:`\alpha = (1 - \mathrm{level})/2`, the interval is

    .. math:: [\,2\hat\theta - q_{1-\alpha},\ 2\hat\theta - q_\alpha\,]\ \text{(basic)},
              \qquad [\,q_\alpha,\ q_{1-\alpha}\,]\ \text{(percentile)}

    **For log loss, Brier score, error and other means over rows** the intervals cover in
    about 95 % of samples (see *Is it miscalibrated, or is it noise?* in the docs). **For
    calibration errors they do not**: an absolute value is not smooth at 0, so for calibrated
    models 95 % intervals of `ece` and its kin hold the truth in 0 to 68 % of samples. Use
    `assess` for those.

    Args:
        metric: a metric of this package, or any ``(probs, labels) -> number``.
        probs: first argument of `metric`, one entry per example.
        labels: second argument of `metric`; left out for `entropy`.
        n_resamples: number of resamples.
        level: confidence level, between 0 and 1.
        interval: ``"basic"`` or ``"percentile"``.
        seed: random seed of the resampling, or a `numpy.random.Generator`.
        sample_weight: weights ``[N]``. Whole numbers count repeated rows; rows of other
            weights are drawn equally often and keep their weight.
        options: passed on to `metric`, such as ``n_bins=10`` or ``binary=True``.

    Returns:
        `BootstrapInterval`. An infinite estimate (`nll` with a zero at a label) has the
        interval ``[inf, inf]``. For this package's metrics ``low`` is at least 0.

    Numerics:
        This package's metrics reduce each row once and resample the reductions, with the
        result of calling the metric on each resample (`smooth_ece`: on a coarser grid).
        Any other metric is called `n_resamples` times.

    Example:
        >>> import numpy as np
        >>> from focalibrate.metrics import bootstrap, error_rate
        >>> probs, labels = np.tile([0.7, 0.3], (100, 1)), np.arange(100) % 10 // 8
        >>> result = bootstrap(error_rate, probs, labels)
        >>> result.estimate, round(result.low, 2), round(result.high, 2)
        (0.2, 0.12, 0.27)

    References:
        Davison & Hinkley (1997), *Bootstrap Methods and their Application*, chapter 5.
    """
    _check(n_resamples, level, interval)
    n = _n_rows(probs, options)
    weights, (probs, labels) = _weighted(sample_weight, n, (probs, labels), options)
    estimate = _estimate(metric, probs, labels, weights, options)
    draw = resampler(metric, probs, labels, options)
    values = _replicate(draw, _n_rows(probs, options), n_resamples, seed, weights)
    least = 0.0 if is_prepared(metric) else -math.inf
    return interval_of(values, estimate, level=level, interval=interval, least=least)


def bootstrap_difference(
    metric: Callable[..., Any],
    probs_a: Array,
    probs_b: Array,
    labels: Array | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    interval: IntervalMethod = "basic",
    seed: int | np.random.Generator = 0,
    sample_weight: Array | None = None,
    **options: Any,
) -> BootstrapInterval:
    r"""Bootstrap interval of ``metric(probs_a, labels) - metric(probs_b, labels)``.

    Paired: both methods are resampled by the same rows, so what the examples have in
    common cancels, and the interval is narrower than two separate ones suggest. If the interval
    excludes 0, the methods differ significantly. For a metric whose second argument changes
    wrap it: ``lambda q, eta: kl_divergence(eta, q)``.

    Args:
        metric: a metric of this package, or any ``(probs, labels) -> number``.
        probs_a: first argument of `metric` for the first method.
        probs_b: the same examples, in the same order, for the second method.
        labels: second argument of `metric`, shared.
        n_resamples: number of resamples.
        level: confidence level, between 0 and 1.
        interval: ``"basic"`` or ``"percentile"``, see `bootstrap`.
        seed: random seed of the resampling, or a `numpy.random.Generator`.
        sample_weight: weights ``[N]``. Whole numbers count repeated rows; rows of other
            weights are drawn equally often and keep their weight.
        options: passed on to `metric`.

    Returns:
        `BootstrapInterval` of the difference; negative where the first method is better
        (lower).

    Numerics:
        See `bootstrap`.

    Example:
        >>> import numpy as np
        >>> from focalibrate.metrics import bootstrap_difference, nll
        >>> labels = np.arange(100) % 10 // 8
        >>> sharp, blunt = np.tile([0.8, 0.2], (100, 1)), np.tile([0.5, 0.5], (100, 1))
        >>> bootstrap_difference(nll, sharp, blunt, labels).high < 0
        True
    """
    _check(n_resamples, level, interval)
    n = _n_rows(probs_a, options)
    if n != _n_rows(probs_b, options):
        raise ValueError(
            f"`probs_a` and `probs_b` must be of the same examples, got {n} and "
            f"{_n_rows(probs_b, options)} rows. Evaluate both methods on one set."
        )
    weights, arrays = _weighted(sample_weight, n, (probs_a, probs_b, labels), options)
    probs_a, probs_b, labels = arrays
    n = _n_rows(probs_a, options)
    estimate = _estimate(metric, probs_a, labels, weights, options)
    estimate -= _estimate(metric, probs_b, labels, weights, options)
    draw_a = resampler(metric, probs_a, labels, options)
    draw_b = resampler(metric, probs_b, labels, options)
    values = _replicate(lambda rows: draw_a(rows) - draw_b(rows), n, n_resamples, seed, weights)
    return interval_of(values, estimate, level=level, interval=interval)


def draw_rows(
    n: int, n_resamples: int, seed: int | np.random.Generator, weights: Floats | None = None
) -> Iterator[Draws]:
    """Yield `n_resamples` resamples of `n` rows, some at a time; a seed draws the same rows.

    So the replicates of two methods are paired.
    """
    rng = np.random.default_rng(seed)
    step = max(1, CHUNK_INDICES // n)
    for start in range(0, n_resamples, step):
        yield Draws(rng.integers(n, size=(min(step, n_resamples - start), n)), weights)


def interval_of(
    values: Floats,
    estimate: float,
    *,
    level: float = 0.95,
    interval: IntervalMethod = "basic",
    least: float = -math.inf,
) -> BootstrapInterval:
    """Return the interval that replicates `values` give for `estimate`, cut off at `least`."""
    low, high = _limits(values, estimate, level, interval)
    return BootstrapInterval(estimate, max(low, least), max(high, least), level, len(values))


def _check(n_resamples: int, level: float, interval: IntervalMethod) -> None:
    check_count(n_resamples, name="n_resamples")
    check_choice(interval, ("basic", "percentile"), name="interval")
    check_open_interval(level, low=0.0, high=1.0, name="level")


def _weighted(
    sample_weight: Array | None, n: int, arrays: tuple[Array | None, ...], options: dict[str, Any]
) -> tuple[Floats | None, tuple[Array | None, ...]]:
    """Return weights and arrays; rows of whole weights are repeated and have none."""
    if sample_weight is None:
        return None, arrays
    weights = check_sample_weight(sample_weight, n_rows=n)
    if not is_whole(weights):
        return weights, arrays
    lead = 1 if options.get("binary") else len(arrays[0].shape) - 1  # type: ignore[union-attr]
    if lead > 1:
        raise ValueError("`sample_weight` needs examples along one axis; reshape to [N, K].")
    times = weights.astype(np.intp)
    return None, tuple(
        None if x is None else np.repeat(to_numpy(x), times, axis=0) for x in arrays
    )


def _estimate(
    metric: Callable[..., Any],
    probs: Array,
    labels: Array | None,
    weights: Floats | None,
    options: dict[str, Any],
) -> float:
    if weights is not None:
        options = {**options, "sample_weight": weights}
    value = metric(probs, **options) if labels is None else metric(probs, labels, **options)
    try:
        return float(value)
    except TypeError as error:
        raise ValueError(
            f"`metric` must return one number, got {type(value).__name__}. Wrap it to pick "
            "one: `lambda p, y: confident_fraction(p, y).fraction`."
        ) from error


def _n_rows(probs: Array, options: dict[str, Any]) -> int:
    return math.prod(probs.shape) if options.get("binary") else math.prod(probs.shape[:-1])


def _replicate(
    draw: Resampler,
    n: int,
    n_resamples: int,
    seed: int | np.random.Generator,
    weights: Floats | None,
) -> Floats:
    return np.concatenate([draw(draws) for draws in draw_rows(n, n_resamples, seed, weights)])


def _limits(
    values: Floats, estimate: float, level: float, interval: IntervalMethod
) -> tuple[float, float]:
    if not math.isfinite(estimate):
        return estimate, estimate
    tail = (1.0 - level) / 2.0
    low, high = (float(q) for q in np.quantile(values, [tail, 1.0 - tail]))
    if interval == "basic":
        low, high = 2 * estimate - high, 2 * estimate - low
    return low, high
