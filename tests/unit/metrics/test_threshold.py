import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import binom

from focalibrate.metrics import Costs, choose_threshold, selective_accuracy


def answers(rng, n_clusters, size, correlation):
    """Confidences, whether they were right (less often than stated), and their clusters."""
    cluster = np.repeat(np.arange(n_clusters), size)
    n = len(cluster)

    def noise(share):
        common = rng.normal(size=n_clusters)[cluster]
        return np.sqrt(share) * common + np.sqrt(1 - share) * rng.normal(size=n)

    c = 0.5 + 0.5 * ndtr(noise(0.5))
    return c, ndtr(noise(correlation)) < c**1.3, cluster


def precision_above(t):
    return (np.linspace(t, 1, 400) ** 1.3).mean()


@pytest.mark.parametrize(
    ("n_clusters", "size", "correlation"), [(1000, 1, 0.0), (200, 5, 0.3), (150, 20, 0.8)]
)
def test_the_promise_is_rarely_broken(n_clusters, size, correlation):
    """In at most 5 % of samples; more than 13 of 100 have a chance below 0.1 %."""
    rng, broken, kept = np.random.default_rng(n_clusters), 0, 0
    for _ in range(100):
        c, y, cluster = answers(rng, n_clusters, size, correlation)
        groups = None if size == 1 else cluster
        found = choose_threshold(c, y, precision=0.9, cluster=groups)
        kept += found.is_kept
        broken += found.is_kept and precision_above(found.threshold) < 0.9
    assert broken <= 13
    assert kept >= 30


def test_the_bound_is_that_of_clopper_and_pearson():
    c = np.r_[np.full(60, 0.9), np.full(40, 0.2)]
    y = np.r_[np.ones(59), 0, np.zeros(40)]
    found = choose_threshold(c, y, precision=0.9)
    assert found.threshold == 0.9
    assert_allclose(found.coverage, 0.6)
    assert_allclose(binom.sf(58, 60, found.bound), 0.05)
    assert "60.0 % of the rows pass, with a precision of at least 90.0 %" in found.summary


def test_where_nothing_can_be_promised_the_best_bound_is_said():
    rng = np.random.default_rng(0)
    found = choose_threshold(rng.random(500), rng.random(500) < 0.5, precision=0.9)
    assert found.threshold is None
    assert 0.4 < found.best_bound < 0.7
    assert found.summary.startswith("No threshold promises a precision of at least 90.0 %")
    json.dumps(found.to_dict(), allow_nan=False)


def test_recall_and_costs():
    rng = np.random.default_rng(1)
    c = rng.random(4000)
    y = rng.random(4000) < c
    recall = choose_threshold(c, y, recall=0.9)
    assert 0.2 < recall.threshold < 0.35  # a share t² of the right answers lies below t
    cheap = choose_threshold(c, y, max_cost=0.35, costs=Costs(1.0, 1.0))
    assert 0.4 < cheap.threshold < 0.6
    assert choose_threshold(c, y, max_cost=0.2).threshold is None


def test_groups_have_promises_of_their_own():
    rng = np.random.default_rng(2)
    c, group = rng.uniform(0.5, 1, size=8000), np.repeat(["a", "b"], 4000)
    y = rng.random(8000) < np.where(group == "a", c, c - 0.2)
    found = choose_threshold(c, y, precision=0.85, by=group)
    assert 0.65 < found.by["a"].threshold < 0.8
    assert found.by["b"].threshold is None


def test_bad_requests_are_named():
    with pytest.raises(ValueError, match="exactly one of `precision`, `recall` and `max_cost`"):
        choose_threshold([0.5], [1])
    with pytest.raises(ValueError, match="only 0 and 1"):
        choose_threshold([0.5], [0.5], precision=0.9)
    with pytest.raises(ValueError, match="cluster of each of 2 rows, got 1"):
        choose_threshold([0.5, 0.6], [0, 1], precision=0.9, cluster=["a"])


def test_selective_accuracy_is_its_definition():
    rng = np.random.default_rng(3)
    c = rng.permutation(np.linspace(0, 1, 300))
    y = rng.random(300) < c
    wrong = ~y[np.argsort(-c)]
    expected = np.mean(np.cumsum(wrong) / np.arange(1, 301))
    found = selective_accuracy(c, y)
    assert_allclose(found.aurc.estimate, expected, rtol=1e-12)
    assert found.aurc.low < expected < found.aurc.high
    assert_allclose(found.accuracy[-1].estimate, y.mean())
    tied = selective_accuracy(np.full(10, 0.5), np.arange(10) < 7)
    assert_allclose(tied.aurc.estimate, 0.3)
    alone = selective_accuracy(c, y, cluster=np.arange(300))
    assert_allclose(alone.aurc.low, found.aurc.low, rtol=1e-9)
