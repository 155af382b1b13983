"""Bootstrap intervals of means over rows, and of the difference of two methods."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from focalibrate._array import Array, Floats, array_of
from focalibrate._check import check_count, check_open_interval
from focalibrate.metrics.binning import divided
from focalibrate.metrics.interval import Interval
from focalibrate.metrics.rows import cluster_codes, read_weights
from focalibrate.metrics.scores import ROWS

CHUNK = 1 << 21
"""Row indices drawn at once: 16 MB."""


def bootstrap(
    metric: Callable[..., Any],
    probs: Array,
    labels: Array | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int | np.random.Generator = 0,
    sample_weight: Array | None = None,
    copies: bool = False,
    cluster: Array | None = None,
    **options: Any,
) -> Interval:
    r"""Bootstrap confidence interval of a mean over rows.

    ``N`` rows are drawn with replacement `n_resamples` times. With the estimate
    :math:`\hat\theta` and the quantiles :math:`q_\alpha` of the resampled means,
    :math:`\alpha = (1 - \mathrm{level})/2`, the (basic) interval is

    .. math:: [\,2\hat\theta - q_{1-\alpha},\ 2\hat\theta - q_\alpha\,]

    It covers in about 95 % of samples (see *Is it miscalibrated, or is it noise?* in the docs).
    Calibration errors are no means and have no valid bootstrap interval: use `assess`.

    Args:
        metric: `nll`, `brier_score`, `error_rate`, `entropy`, `kl_divergence`, or any function
            that returns one number per row of ``(probs, labels)``.
        probs: first argument of `metric`, one entry per example.
        labels: second argument of `metric`; left out for `entropy`.
        n_resamples: number of resamples.
        level: confidence level, between 0 and 1.
        seed: random seed of the resampling, or a `numpy.random.Generator`.
        sample_weight: weights ``[N]``: rows are drawn equally often and keep their weight.
        copies: whether weights are numbers of identical, independent rows instead.
        cluster: names of the clusters ``[N]``: whole clusters are drawn.
        options: passed on to `metric`, such as ``binary=True``.

    Returns:
        `Interval`. An infinite estimate (`nll` with a zero at a label) has the interval
        ``[inf, inf]``. For this package's metrics ``low`` is at least 0.

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
    terms = _terms(metric, probs, labels, options)
    least = 0.0 if metric in ROWS else -math.inf
    found = bootstrap_mean(
        *_units(terms, sample_weight, cluster, copies=copies),
        n_resamples=n_resamples, level=level, seed=seed,
    )  # fmt: skip
    return Interval(found.estimate, max(found.low, least), max(found.high, least), level)


def bootstrap_difference(
    metric: Callable[..., Any],
    probs_a: Array,
    probs_b: Array,
    labels: Array | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int | np.random.Generator = 0,
    sample_weight: Array | None = None,
    copies: bool = False,
    cluster: Array | None = None,
    **options: Any,
) -> Interval:
    r"""Bootstrap interval of ``metric(probs_a, labels) - metric(probs_b, labels)``.

    Paired: both methods are resampled by the same rows, so what the examples have in
    common cancels, and the interval is narrower than two separate ones suggest. If the interval
    excludes 0, the methods differ significantly. Arguments are those of `bootstrap`; `probs_a`
    and `probs_b` are of the same examples in the same order.

    Returns:
        `Interval` of the difference; negative where the first method is better (lower).

    Example:
        >>> import numpy as np
        >>> from focalibrate.metrics import bootstrap_difference, nll
        >>> labels = np.arange(100) % 10 // 8
        >>> sharp, blunt = np.tile([0.8, 0.2], (100, 1)), np.tile([0.5, 0.5], (100, 1))
        >>> bootstrap_difference(nll, sharp, blunt, labels).high < 0
        True
    """
    first, second = (_terms(metric, p, labels, options) for p in (probs_a, probs_b))
    if len(first) != len(second):
        raise ValueError(
            f"`probs_a` and `probs_b` must be of the same examples, got {len(first)} and "
            f"{len(second)} rows. Evaluate both methods on one set."
        )
    with np.errstate(invalid="ignore"):  # where both are infinite: nan
        terms = first - second
    return bootstrap_mean(
        *_units(terms, sample_weight, cluster, copies=copies),
        n_resamples=n_resamples, level=level, seed=seed,
    )  # fmt: skip


def bootstrap_mean(
    terms: Floats,
    weights: Floats | None = None,
    *,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int | np.random.Generator = 0,
) -> Interval:
    """Return the interval of the mean of one number per row ``[N]``."""
    check_count(n_resamples, name="n_resamples")
    check_open_interval(level, low=0.0, high=1.0, name="level")
    w = np.ones(len(terms)) if weights is None else weights
    counts = w > 0
    estimate = float(w[counts] @ terms[counts] / w.sum() if weights is not None else terms.mean())
    if not math.isfinite(estimate):
        return Interval(estimate, estimate, estimate, level)
    rng, n = np.random.default_rng(seed), len(terms)
    means, step = [], max(1, CHUNK // n)
    weighted = np.where(counts, w * terms, 0.0)
    for start in range(0, n_resamples, step):
        drawn = rng.integers(n, size=(min(step, n_resamples - start), n))
        means.append(
            weighted[drawn].sum(axis=1) / (n if weights is None else w[drawn].sum(axis=1))
        )
    tail = (1.0 - level) / 2.0
    low, high = (float(q) for q in np.quantile(np.concatenate(means), [tail, 1.0 - tail]))
    return Interval(estimate, 2 * estimate - high, 2 * estimate - low, level)


def _terms(
    metric: Callable[..., Any], probs: Array, labels: Array | None, options: dict[str, Any]
) -> Floats:
    """Return one number per row."""
    given = (probs,) if labels is None else (probs, labels)
    function: Callable[..., Any] = ROWS.get(metric, metric)
    found = array_of(function(*given, **options))
    if np.ndim(found) != 1:
        raise ValueError(
            "`metric` must be a mean over rows (`nll`, `brier_score`, `error_rate`, `entropy`, "
            f"`kl_divergence`) or return one number per row, got {type(found).__name__} of "
            f"{np.ndim(found)} axes. Calibration errors have no valid bootstrap interval: use "
            "`assess`."
        )
    return np.asarray(found, dtype=np.float64)


def _units(
    terms: Floats, sample_weight: Array | None, cluster: Array | None, *, copies: bool
) -> tuple[Floats, Floats | None]:
    """Return what is drawn, with its weight: rows, copies of rows, or means of clusters."""
    weights = read_weights(sample_weight, len(terms))
    if cluster is not None:
        code = cluster_codes(cluster, len(terms))
        w = np.ones(len(terms)) if weights is None else weights
        total, mass = (np.bincount(code, x).astype(np.float64) for x in (w * terms, w))
        return divided(total, mass), mass
    if weights is not None and copies:
        return np.repeat(terms, np.rint(weights).astype(np.intp)), None
    return terms, weights
