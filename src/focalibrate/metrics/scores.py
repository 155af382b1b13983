"""Scores that are means over examples, and bootstrap intervals of them.

NLL, Brier, error, entropy, KL, confident fraction. Their arguments are those of `nll`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, array_of
from focalibrate._check import check_count, check_open_interval, check_unit_interval
from focalibrate.metrics.binning import divided
from focalibrate.metrics.interval import Interval
from focalibrate.metrics.rows import (
    cluster_codes,
    read,
    read_rows,
    read_weights,
    row_chunks,
    top_label,
    true_class,
)


def nll(
    probs: Array | None = None,
    labels: Array | None = None,
    *,
    log_probs: Array | None = None,
    sample_weight: Array | None = None,
    binary: bool = False,
) -> float:
    r"""Negative log likelihood :math:`-\frac1N\sum_i \log v_{i,y_i}`, in nats.

    Args:
        probs: probabilities ``[..., K]``, any array library; ``[N]`` with `binary`.
        labels: class indices ``[...]``.
        log_probs: log-probabilities ``[..., K]`` instead of `probs`; exact also where the
            probabilities themselves would round to 0.
        sample_weight: weights ``[...]``; whole numbers count repeated rows.
        binary: `probs` are probabilities of class 1, the same as ``[1 - p, p]``.

    Returns:
        A float ``>= 0``; ``inf`` if a label has probability 0. Nothing is clipped.

    Numerics:
        Float64. A softmax that has underflowed to 0 gives ``inf``: pass `log_probs`.

    Example:
        >>> import numpy as np
        >>> probs, labels = np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0, 1])
        >>> round(nll(probs, labels), 4), round(nll(labels=labels, log_probs=np.log(probs)), 4)
        (0.4581, 0.4581)
    """
    if labels is None or (probs is None) == (log_probs is None):
        raise ValueError("`nll` takes `labels` and either `probs` or `log_probs`.")
    if log_probs is None:
        return weighted_mean(nll_rows(probs, labels, binary=binary), sample_weight)
    if binary:
        raise ValueError(
            "`binary` is for one probability per example; `log_probs` must be [..., K]."
        )
    terms = -true_class(*read(log_probs, labels, given="log_probs"))
    return weighted_mean(terms, sample_weight)


def brier_score(
    probs: Array, labels: Array, *, sample_weight: Array | None = None, binary: bool = False
) -> float:
    r"""Brier score :math:`\frac1N\sum_i\sum_k (v_{ik} - [k = y_i])^2`, summed over classes.

    For two classes this is twice scikit-learn's ``brier_score_loss``, which is of class 1
    only: see `binary_brier_score`. Arguments are those of `nll`.

    Numerics:
        Float64, in row chunks; accurate also for saturated rows, as ``1 - v_y`` is formed
        before it is squared.

    Example:
        >>> import numpy as np
        >>> round(brier_score(np.array([[0.5, 0.5], [0.2, 0.8]]), np.array([0, 1])), 4)
        0.29

    References:
        Brier (1950), *Verification of forecasts expressed in terms of probability*.
    """
    return weighted_mean(brier_rows(probs, labels, binary=binary), sample_weight)


def binary_brier_score(
    probs: Array, labels: Array, *, sample_weight: Array | None = None
) -> float:
    r"""Brier score of class 1 only, :math:`\frac1N\sum_i (p_i - y_i)^2`, as in scikit-learn.

    Half of `brier_score`, which sums over both classes; `probs` are probabilities of class 1
    ``[N]``, or ``[N, 2]``.

    Example:
        >>> import numpy as np
        >>> round(binary_brier_score(np.array([0.5, 0.8]), np.array([0, 1])), 4)
        0.145
    """
    probs = array_of(probs)
    is_one = len(probs.shape) == 1
    if not is_one and probs.shape[-1] != 2:
        raise ValueError(
            f"`probs` must be of two classes, [N] or [N, 2], got shape {tuple(probs.shape)}. "
            "Use `brier_score`."
        )
    return brier_score(probs, labels, sample_weight=sample_weight, binary=is_one) / 2.0


def error_rate(
    probs: Array, labels: Array, *, sample_weight: Array | None = None, binary: bool = False
) -> float:
    r"""Fraction of rows whose largest probability is not the label's.

    If several classes share the largest probability, the first is predicted. Arguments
    are those of `nll`.

    Example:
        >>> import numpy as np
        >>> error_rate(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
        0.5
    """
    return weighted_mean(error_rows(probs, labels, binary=binary), sample_weight)


def entropy(probs: Array, *, sample_weight: Array | None = None, binary: bool = False) -> float:
    r"""Mean entropy :math:`-\frac1N\sum_i\sum_k v_{ik}\log v_{ik}`, in nats; 0 log 0 = 0.

    Example:
        >>> import numpy as np
        >>> round(entropy(np.array([[0.5, 0.5], [1.0, 0.0]])), 4)
        0.3466
    """
    return weighted_mean(entropy_rows(probs, binary=binary), sample_weight)


def kl_divergence(
    posterior: Array, probs: Array, *, sample_weight: Array | None = None, binary: bool = False
) -> float:
    r"""Mean divergence :math:`\frac1N\sum_i\sum_k \eta_{ik}\log(\eta_{ik}/v_{ik})`, in nats.

    Distance of the probabilities from the true posterior, if that is known: `posterior` are the
    true probabilities, of the shape of `probs`. Entries with :math:`\eta = 0` add 0; the mean
    is ``inf`` if :math:`v = 0 < \eta` anywhere. Other arguments are those of `nll`.

    Example:
        >>> import numpy as np
        >>> round(kl_divergence(np.array([[0.5, 0.5]]), np.array([[0.9, 0.1]])), 4)
        0.5108

    References:
        Charoenphakdee et al. (2021), *On Focal Loss for Class-Posterior Probability
        Estimation*, the KLD of the synthetic experiment.
    """
    return weighted_mean(kl_rows(posterior, probs, binary=binary), sample_weight)


@dataclass(frozen=True)
class ConfidentFraction:
    """How many rows are confident, and how often those are right (nan if there are none)."""

    fraction: float
    accuracy: float


def confident_fraction(
    probs: Array,
    labels: Array,
    *,
    threshold: float = 0.99,
    sample_weight: Array | None = None,
    binary: bool = False,
) -> ConfidentFraction:
    r"""Fraction of rows with confidence ``>= threshold``, and their accuracy (S99 for 0.99).

    Arguments are those of `nll`.

    Example:
        >>> import numpy as np
        >>> confident_fraction(np.array([[1.0, 0.0], [0.2, 0.8]]), np.array([0, 1]))
        ConfidentFraction(fraction=0.5, accuracy=1.0)
    """
    check_unit_interval(threshold, name="threshold")
    confidence, correct = top_label(*read(probs, labels, binary=binary))
    weights = read_weights(sample_weight, len(confidence))
    if weights is None:
        weights = np.ones(len(confidence))
    sure = weights * (confidence >= threshold)
    mass = float(sure.sum())
    accuracy = float(sure @ correct) / mass if mass else float("nan")
    return ConfidentFraction(mass / float(weights.sum()), accuracy)


def nll_rows(probs: Array, labels: Array, *, binary: bool = False) -> Floats:
    """Return each row's term of `nll`."""
    with np.errstate(divide="ignore"):
        return -np.log(true_class(*read(probs, labels, binary=binary)))


def brier_rows(probs: Array, labels: Array, *, binary: bool = False) -> Floats:
    """Return each row's term of `brier_score`."""
    rows, y = read(probs, labels, binary=binary)

    def term(part: slice) -> Floats:
        off = rows[part].astype(np.float64)
        off[np.arange(len(off)), y[part]] -= 1.0
        return _row_dot(off, off)

    return _by_chunk(rows, term)


def error_rows(probs: Array, labels: Array, *, binary: bool = False) -> Floats:
    """Return 1 for each row that is wrong, else 0."""
    _, correct = top_label(*read(probs, labels, binary=binary))
    return (~correct).astype(np.float64)


def entropy_rows(probs: Array, *, binary: bool = False) -> Floats:
    """Return each row's entropy."""
    rows = read_rows(probs, binary=binary)

    def term(part: slice) -> Floats:
        v = rows[part].astype(np.float64)
        return -_row_dot(v, np.log(v, out=np.zeros_like(v), where=v > 0))

    return _by_chunk(rows, term)


def kl_rows(posterior: Array, probs: Array, *, binary: bool = False) -> Floats:
    """Return each row's divergence."""
    posterior, probs = array_of(posterior), array_of(probs)
    truth = read_rows(posterior, binary=binary, name="posterior")
    rows = read_rows(probs, binary=binary)
    if tuple(posterior.shape) != tuple(probs.shape):
        raise ValueError(
            f"`posterior` must have the shape of `probs`, {tuple(probs.shape)}, got "
            f"{tuple(posterior.shape)}. Pass one true distribution per row."
        )

    def term(part: slice) -> Floats:
        eta, v = truth[part].astype(np.float64), rows[part].astype(np.float64)
        log_ratio = np.zeros_like(eta)
        with np.errstate(divide="ignore"):
            # a difference of logs: the ratio itself overflows for a subnormal `v`
            np.subtract(np.log(eta), np.log(v), out=log_ratio, where=eta > 0)
        return _row_dot(eta, log_ratio)

    return _by_chunk(rows, term)


ROWS: Mapping[Callable[..., float], Callable[..., Floats]] = {
    nll: nll_rows,
    brier_score: brier_rows,
    error_rate: error_rows,
    entropy: entropy_rows,
    kl_divergence: kl_rows,
}
"""the term of each row, of the metrics that are means of them"""


def _by_chunk(rows: NDArray[Any], term: Callable[[slice], Floats]) -> Floats:
    return np.concatenate([term(part) for part in row_chunks(*rows.shape)])


def _row_dot(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("nk,nk->n", a, b))


def weighted_mean(values: Floats, sample_weight: Array | None = None) -> float:
    """Return the mean of `values`; a weight of 0 leaves out an infinite value too."""
    weights = read_weights(sample_weight, len(values))
    if weights is None:
        return float(values.mean())
    counts = weights > 0
    return float(weights[counts] @ values[counts] / weights.sum())


CHUNK = 1 << 21
"""Row indices drawn at once: 16 MB."""


def bootstrap(
    metric: Callable[..., Any],
    probs: Array,
    labels: Array | None = None,
    *,
    minus: Array | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    seed: int | np.random.Generator = 0,
    sample_weight: Array | None = None,
    copies: bool = False,
    cluster: Array | None = None,
    **options: Any,
) -> Interval:
    r"""Bootstrap confidence interval of a mean over rows, or of the difference of two such means.

    ``N`` rows are drawn with replacement `n_resamples` times. With the estimate
    :math:`\hat\theta` and the quantiles :math:`q_\alpha` of the resampled means,
    :math:`\alpha = (1 - \mathrm{level})/2`, the (basic) interval is

    .. math:: [\,2\hat\theta - q_{1-\alpha},\ 2\hat\theta - q_\alpha\,]

    It covers in about 95 % of samples (see *Is it miscalibrated, or is it noise?* in the docs).
    Calibration errors are no means and have no valid bootstrap interval: use `assess`.

    A difference (`minus`) is paired: both methods are resampled by the same rows, so what the
    examples have in common cancels, and the interval is narrower than two separate ones suggest.
    If it excludes 0, the methods differ significantly.

    Args:
        metric: `nll`, `brier_score`, `error_rate`, `entropy`, `kl_divergence`, or any function
            that returns one number per row of ``(probs, labels)``.
        probs: first argument of `metric`, one entry per example.
        labels: second argument of `metric`; left out for `entropy`.
        minus: what another method says of the same examples in the same order: the result is the
            metric of `probs` minus the metric of these, negative where `probs` is better (lower).
        n_resamples: number of resamples.
        level: confidence level, between 0 and 1.
        seed: random seed of the resampling, or a `numpy.random.Generator`.
        sample_weight: weights ``[N]``: rows are drawn equally often and keep their weight.
        copies: whether weights are numbers of identical, independent rows instead.
        cluster: names of the clusters ``[N]``: whole clusters are drawn.
        options: passed on to `metric`, such as ``binary=True``.

    Returns:
        `Interval`. An infinite estimate (`nll` with a zero at a label) has the interval
        ``[inf, inf]``. For this package's metrics ``low`` is at least 0 without `minus`.

    Example:
        >>> import numpy as np
        >>> from focalibrate.metrics import bootstrap, error_rate, nll
        >>> probs, labels = np.tile([0.7, 0.3], (100, 1)), np.arange(100) % 10 // 8
        >>> result = bootstrap(error_rate, probs, labels)
        >>> result.estimate, round(result.low, 2), round(result.high, 2)
        (0.2, 0.12, 0.27)
        >>> bootstrap(nll, probs, labels, minus=np.full((100, 2), 0.5)).high < 0
        True

    References:
        Davison & Hinkley (1997), *Bootstrap Methods and their Application*, chapter 5.
    """
    terms = _terms(metric, probs, labels, options)
    if minus is not None:
        others = _terms(metric, minus, labels, options)
        if len(terms) != len(others):
            raise ValueError(
                f"`probs` and `minus` must be of the same examples, got {len(terms)} and "
                f"{len(others)} rows. Evaluate both methods on one set."
            )
        with np.errstate(invalid="ignore"):  # where both are infinite: nan
            terms = terms - others
    found = bootstrap_mean(
        *_units(terms, sample_weight, cluster, copies=copies),
        n_resamples=n_resamples, level=level, seed=seed,
    )  # fmt: skip
    if minus is not None or metric not in ROWS:
        return found
    return replace(found, low=max(found.low, 0.0), high=max(found.high, 0.0))


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
    table = np.stack([np.where(counts, w * terms, 0.0), w], axis=1)
    sums = resampled_sums(table, n_resamples, np.random.default_rng(seed))
    tail = (1.0 - level) / 2.0
    low, high = (float(q) for q in np.quantile(sums[:, 0] / sums[:, 1], [tail, 1.0 - tail]))
    return Interval(estimate, 2 * estimate - high, 2 * estimate - low, level)


def resampled_sums(table: Floats, n_resamples: int, rng: np.random.Generator) -> Floats:
    """Return the sums of `table` ``[N, M]`` over rows drawn with replacement, ``[R, M]``."""
    n = len(table)
    step = max(1, CHUNK // n)
    found = []
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        at = rng.integers(n, size=(size, n)) + n * np.arange(size)[:, None]
        times = np.bincount(at.reshape(-1), minlength=size * n).reshape(size, n)
        found.append(times.astype(np.float64) @ table)
    return np.concatenate(found)


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
