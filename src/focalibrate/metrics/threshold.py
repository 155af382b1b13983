"""The lowest threshold that keeps a promise, and what answering selectively costs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit

from focalibrate._array import Array, Floats, to_numpy
from focalibrate._check import check_open_interval
from focalibrate.metrics.interval import NORMAL_95, Interval
from focalibrate.metrics.residuals import cluster_sums
from focalibrate.metrics.rows import cluster_codes, read_outcomes, renumbered

STEPS = 100
"""Most thresholds that are tried: quantiles of the confidences."""
START = 0.2
"""The search begins where this share of the allowed mistakes would keep the promise."""
LEAST_CLUSTERS = 20
"""Fewer clusters above a threshold promise nothing."""

Promise = Literal["precision", "recall", "cost"]


@dataclass(frozen=True)
class Costs:
    """What a mistake costs: an accepted answer that is wrong, a rejected one that is right."""

    false_positive: float
    false_negative: float


@dataclass(frozen=True)
class Threshold:
    """A confidence from which on answers are accepted, and what is promised of them."""

    promise: Promise
    target: float
    certainty: float
    threshold: float | None
    """accept confidences of at least this; None where nothing can be promised"""
    coverage: float
    """share of the rows that pass"""
    estimate: float
    """precision, recall or mean cost at the threshold, on these rows"""
    bound: float
    """the same, as far as it is certain: a lower bound, an upper one for a cost"""
    best_bound: float
    """what can be promised at all: the bound where the search begins, of a cost the lowest; NaN
    where there are too few rows to begin"""
    n: int
    n_clusters: int | None = None
    by: Mapping[str, "Threshold"] | None = None
    """one for each group, each with its own promise"""

    @property
    def is_kept(self) -> bool:
        """Whether there is a threshold that keeps the promise."""
        return self.threshold is not None

    @property
    def summary(self) -> str:
        """The finding as a sentence."""
        sign, name = ("at most", "a mean cost") if self.promise == "cost" else ("at least", "")
        what = f"{name or f'a {self.promise}'} of {sign} {self._text(self.target)}"
        sure = f"{100 * self.certainty:g} % certainty"
        if self.threshold is None:
            best = f"the best that can be promised is {self._text(self.best_bound)}"
            if math.isnan(self.best_bound):
                best = "there are too few for any promise of this size"
            rows = "this 1 row" if self.n == 1 else f"these {self.n:,} rows"
            return f"No threshold promises {what} with {sure} on {rows}: {best}."
        return (
            f"Accept confidences of at least {self.threshold:.4g}: {100 * self.coverage:.1f} % of "
            f"the rows pass, with {what} ({sure}; {self._text(self.estimate)} on these rows)."
        )

    def _text(self, value: float) -> str:
        return f"{value:.4g}" if self.promise == "cost" else f"{100 * value:.1f} %"

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        record: dict[str, Any] = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        }
        if self.by is not None:
            record["by"] = {name: found.to_dict() for name, found in self.by.items()}
        return record | {"is_kept": self.is_kept, "summary": self.summary}


def choose_threshold(
    confidence: Array,
    correct: Array,
    *,
    precision: float | None = None,
    recall: float | None = None,
    max_cost: float | None = None,
    costs: Costs | None = None,
    certainty: float = 0.95,
    cluster: Array | None = None,
    by: Array | None = None,
) -> Threshold:
    r"""Choose the lowest threshold of the confidence that keeps a promise about new rows.

    Thresholds are tried from the top, at up to 100 quantiles of the confidences (ties together).
    At each, the promise is tested at level ``1 - certainty``; the first failure ends the search
    (fixed-sequence testing). A broken promise needs a false rejection at the *first* threshold
    that does not keep it, so that no correction for the number of thresholds is needed:

    .. math:: P(\text{promise broken}) \le 1 - \text{certainty}

    - **precision**: the share of right answers above the threshold is at least this. Bound of
      Clopper and Pearson. The search begins where there are enough rows to keep the promise with a
      fifth of the mistakes it allows, which depends on the number of rows only.
    - **recall**: the share of the right answers that pass is at least this; the *highest* such
      threshold is chosen, from the bottom.
    - **max_cost**: the mean over all rows of `costs`, of wrong answers that pass and right ones
      that do not, is at most this. It need not fall with the threshold, so all are tested, each
      at the level divided by their number, and the one of the lowest bound is chosen.

    With clusters (tries at one question, boxes of one image) the bound is that of the effective
    number of rows, from the cluster-robust variance.

    Args:
        confidence: ``[N]`` in [0, 1].
        correct: whether the answer was right, ``[N]`` of 0 and 1.
        precision: the promise, in (0, 1).
        recall: or this one.
        max_cost: or this one.
        costs: of a wrong answer that passes and a right one that does not. Default: 1 and 1.
        certainty: probability that the promise holds.
        cluster: names of the clusters ``[N]``; rows of one are dependent.
        by: names of groups ``[N]``: one threshold for each, each with its own promise.

    Returns:
        `Threshold`; its `threshold` is None where nothing can be promised.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> c = rng.uniform(0.5, 1, size=5000)
        >>> found = choose_threshold(c, rng.random(5000) < c, precision=0.9)
        >>> found.is_kept, 0.75 < found.threshold < 0.85
        (True, True)

    References:
        Clopper & Pearson (1934); Maurer, Hothorn, Lehmacher (1995), *Multiple comparisons in drug
        clinical trials*, on fixed sequences; Angelopoulos, Bates, Candès, Jordan, Lei (2021),
        *Learn then test*.
    """
    asked = {"precision": precision, "recall": recall, "cost": max_cost}
    given = [(name, float(value)) for name, value in asked.items() if value is not None]
    if len(given) != 1:
        raise ValueError("pass exactly one of `precision`, `recall` and `max_cost`.")
    promise, target = given[0]
    if promise != "cost":
        check_open_interval(target, low=0.0, high=1.0, name=promise)
    check_open_interval(certainty, low=0.5, high=1.0, name="certainty")
    c, y = read_outcomes(confidence, correct)
    if not ((y == 0) | (y == 1)).all():
        raise ValueError("`correct` must hold only 0 and 1 (or booleans) to promise a share.")
    codes = None if cluster is None else cluster_codes(cluster, len(c))
    rule = _Rule(promise, target, certainty, costs or Costs(1.0, 1.0))  # type: ignore[arg-type]

    def chosen(at: Any) -> Threshold:
        return rule.chosen(c[at], y[at], None if codes is None else codes[at])

    if by is None:
        return chosen(slice(None))
    names = np.asarray(to_numpy(by)).reshape(-1).astype(str)
    if len(names) != len(c):
        raise ValueError(f"`by` must have {len(c)} rows, got {len(names)}.")
    parts = {str(name): chosen(names == name) for name in np.unique(names)}
    return replace(chosen(slice(None)), by=parts)


@dataclass(frozen=True)
class _Rule:
    promise: Promise
    target: float
    certainty: float
    costs: Costs

    def chosen(self, c: Floats, y: Floats, codes: NDArray[np.intp] | None) -> Threshold:
        """Return the last threshold before the first failure."""
        grid = np.unique(np.quantile(c, np.arange(STEPS) / STEPS, method="higher"))
        is_cost = self.promise == "cost"
        level = (1.0 - self.certainty) / (len(grid) if is_cost else 1)
        tried = [
            (float(t), *self.bound(c >= t, y, codes, level))
            for t in (grid if self.promise == "recall" else grid[::-1])
        ]
        known = [(t, estimate, bound) for t, estimate, bound, is_enough in tried if is_enough]
        if is_cost:
            lowest = min(known, key=lambda one: one[2])
            kept, best = [lowest] * (lowest[2] <= self.target), lowest[2]
        else:
            kept = list(takewhile(lambda one: one[2] >= self.target, known))
            # not the best of all bounds: picked by its value, it would not hold so surely
            best = known[0][2] if known else math.nan
        threshold, estimate, bound = kept[-1] if kept else (None, math.nan, math.nan)
        return Threshold(
            self.promise,
            self.target,
            self.certainty,
            threshold,
            coverage=float((c >= kept[-1][0]).mean()) if kept else 0.0,
            estimate=estimate,
            bound=bound,
            best_bound=best,
            n=len(c),
            n_clusters=None if codes is None else len(np.unique(codes)),
        )

    def bound(
        self, passes: NDArray[np.bool_], y: Floats, codes: NDArray[np.intp] | None, alpha: float
    ) -> tuple[float, float, bool]:
        """Return estimate and bound, and whether there are enough rows to keep the promise."""
        if self.promise == "cost":
            loss = np.where(
                passes, self.costs.false_positive * (1 - y), self.costs.false_negative * y
            )
            mean, error, _ = _mean_and_error(loss, codes)
            return mean, mean + float(ndtri(1.0 - alpha)) * error, True
        among = passes if self.promise == "precision" else y == 1
        hit = (y if self.promise == "precision" else passes.astype(np.float64))[among]
        n, k = len(hit), float(hit.sum())
        if n == 0:
            return math.nan, 0.0, False
        if codes is None:
            return k / n, _lower(k, n, alpha), _is_enough(n, alpha, self.target)
        return _clustered_bound(hit, codes[among], alpha, self.target)


def _clustered_bound(
    hit: Floats, codes: NDArray[np.intp], alpha: float, target: float
) -> tuple[float, float, bool]:
    r"""Return mean, lower bound and whether this many clusters could keep the promise.

    The effective number of rows is :math:`n_e = \hat p(1-\hat p)/\widehat{\mathrm{var}}` with the
    cluster-robust variance, at most the number of rows and, where no row or few are wrong and the
    variance says nothing, the number of clusters. Clopper–Pearson with that many rows.
    """
    n = len(hit)
    mean, error, g = _mean_and_error(hit, codes)
    if g < LEAST_CLUSTERS:
        return mean, 0.0, False
    wrong = len(np.unique(codes[hit == 0]))
    effective = float(g)
    if wrong >= 10 and error > 0.0:
        # Student's quantile instead of the normal one: a variance of few clusters is uncertain
        wider = float(stdtrit(min(g, wrong) - 1, 1.0 - alpha)) / float(ndtri(1.0 - alpha))
        effective = min(float(n), mean * (1.0 - mean) / (error * wider) ** 2)
    low = _lower(mean * effective, effective, alpha)
    return mean, low, _is_enough(g, alpha, target)


def _lower(k: float, n: float, alpha: float) -> float:
    """Return the bound of Clopper and Pearson for `k` hits in `n` rows."""
    return float(betaincinv(k, n - k + 1.0, alpha)) if k > 0 else 0.0


def _is_enough(n: int, alpha: float, target: float) -> bool:
    return _lower(n * (1.0 - START * (1.0 - target)), n, alpha) >= target


def _mean_and_error(x: Floats, codes: NDArray[np.intp] | None) -> tuple[float, float, int]:
    """Return mean, its standard error and the number of independent pieces."""
    mean = float(x.mean())
    sums = x - mean
    if codes is not None:
        sums = cluster_sums(sums, renumbered(codes))[:, 0]
    g = len(sums)
    if g < 2:
        return mean, math.inf, g
    return mean, math.sqrt(float(sums @ sums) * g / (g - 1)) / len(x), g


def _interval(x: Floats, residual: Floats, codes: NDArray[np.intp] | None) -> Interval:
    """Return the interval of the mean of `x`; its error is that of the mean of `residual`."""
    mean, half = float(x.mean()), NORMAL_95 * _mean_and_error(residual, codes)[1]
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half))


@dataclass(frozen=True)
class Selective:
    """What answering only the most confident rows gives."""

    aurc: Interval
    """mean error over all coverages, the area under the risk-coverage curve; less is better"""
    coverage: Floats
    """shares of the rows that are answered"""
    accuracy: tuple[Interval, ...]
    """of the rows answered, at each of those coverages"""


def selective_accuracy(
    confidence: Array,
    correct: Array,
    *,
    coverage: tuple[float, ...] = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0),
    cluster: Array | None = None,
) -> Selective:
    r"""Return the accuracy of the most confident rows, and the area under the error's curve.

    With rows in order of falling confidence, :math:`\mathrm{AURC} = \frac1N \sum_k \frac1k
    \sum_{i \le k} (1 - y_i)`; ties count with their mean. As a function of the outcomes it is
    the weighted mean :math:`\frac1N \sum_i (1 - y_i) \sum_{k \ge i} \frac1k`, whose standard
    error is that of a mean (cluster-robust where there are clusters).

    Args:
        confidence: ``[N]`` in [0, 1].
        correct: whether the answer was right, ``[N]``.
        coverage: shares of the rows.
        cluster: names of the clusters ``[N]``.

    Example:
        >>> found = selective_accuracy([0.9, 0.8, 0.6, 0.5], [1, 1, 0, 1], coverage=(0.5, 1.0))
        >>> round(found.aurc.estimate, 4), [a.estimate for a in found.accuracy]
        (0.1458, [1.0, 0.75])

    References:
        Geifman, Uziel, El-Yaniv (2019), *Bias-reduced uncertainty estimation for deep neural
        classifiers*.
    """
    c, y = read_outcomes(confidence, correct)
    n = len(c)
    codes = None if cluster is None else cluster_codes(cluster, n)
    order = np.argsort(-c, kind="stable")
    first = np.flatnonzero(np.diff(c[order], prepend=np.inf))
    size = np.diff(first, append=n)
    share = np.cumsum((1.0 / np.arange(1, n + 1))[::-1])[::-1]
    weight = np.empty(n)
    weight[order] = np.repeat(np.add.reduceat(share, first) / size, size)
    aurc = _interval(weight * (1.0 - y), weight * (y.mean() - y), codes)
    accuracy = []
    for part in coverage:
        check_open_interval(part, low=0.0, high=1.0 + 1e-12, name="coverage")
        at = np.sort(order[: max(1, math.ceil(part * n - 1e-9))])
        accuracy.append(_interval(y[at], y[at], None if codes is None else codes[at]))
    return Selective(aurc, np.asarray(coverage, dtype=np.float64), tuple(accuracy))
