import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from focalibrate.metrics import assess, assess_groups


def tries(rng, n_clusters, size, correlation, *, n_classes=2, power=1.0):
    """Probabilities, labels and clusters of a model that is calibrated for ``power=1``."""
    cluster = np.repeat(np.arange(n_clusters), size)
    n = len(cluster)
    common = rng.normal(size=n_clusters)[cluster]
    u = ndtr(np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.normal(size=n))
    z = rng.normal(size=(n_clusters, n_classes))[cluster] + rng.normal(size=(n, n_classes))
    probs = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    if n_classes == 2:
        return probs, (u < probs[:, 1] ** power).astype(int), cluster
    order = np.argsort(-probs, axis=1)
    below = (u[:, None] > np.cumsum(np.take_along_axis(probs, order, 1), axis=1)).sum(axis=1)
    place = np.minimum(below, n_classes - 1)[:, None]
    return probs, np.take_along_axis(order, place, 1)[:, 0], cluster


@pytest.mark.slow
@pytest.mark.parametrize(("size", "correlation"), [(1, 0.0), (5, 0.8), (20, 0.3)])
def test_calibrated_models_with_clusters_are_rarely_accused(size, correlation):
    """Larger runs: python -m benchmarks.coverage. Without clusters: up to all of them."""
    rng, p_values, covered = np.random.default_rng(size), [], []
    for seed in range(40):
        probs, labels, cluster = tries(rng, 100, size, correlation)
        found = assess(probs, labels, cluster=cluster, seed=seed, n_draws=99)
        p_values.append(found.p_value)
        covered.append(found.gap.low <= 0 <= found.gap.high)
    assert np.mean(np.array(p_values) <= 0.05) <= 0.15
    assert np.mean(covered) >= 0.82


def test_five_correlated_tries_are_not_five_rows():
    rng = np.random.default_rng(0)
    probs, labels, cluster = tries(rng, 300, 5, 0.8)
    found = assess(probs, labels, cluster=cluster)
    plain = assess(probs, labels)
    assert found.n_clusters == 300
    assert 0.6 < found.correlation < 0.95
    assert found.effective_n < 0.6 * plain.effective_n
    assert found.noise_floor["ece"].q95 > 1.05 * plain.noise_floor["ece"].q95
    assert found.detectable > 1.1 * plain.detectable
    assert found.gap.high - found.gap.low > 1.2 * (plain.gap.high - plain.gap.low)
    order = rng.permutation(len(labels))
    again = assess(probs[order], labels[order], cluster=[f"q{c}" for c in cluster[order]])
    assert_allclose(again.gap.low, found.gap.low, rtol=0.05)  # its error is at least the draws'


def test_clusters_of_one_row_give_what_independent_rows_give():
    probs, labels, cluster = tries(np.random.default_rng(1), 500, 1, 0.0)
    found, plain = assess(probs, labels, cluster=cluster), assess(probs, labels)
    assert found.correlation == 0.0
    assert_allclose(found.gap.high, plain.gap.high, atol=0.003)
    assert_allclose(found.rms.high, plain.rms.high, atol=0.01)
    assert_allclose(found.slope.high, plain.slope.high, rtol=0.02)
    assert_allclose(found.noise_floor["ece"].q95, plain.noise_floor["ece"].q95, rtol=0.1)
    assert abs(found.p_value - plain.p_value) < 0.15


def test_miscalibration_is_not_taken_for_correlation():
    probs, labels, cluster = tries(np.random.default_rng(2), 300, 5, 0.0, power=2.0)
    found = assess(probs, labels, cluster=cluster)
    assert found.correlation < 0.15
    assert found.verdict == "miscalibrated"
    assert found.direction == "too high"


def test_more_than_two_classes():
    probs, labels, cluster = tries(np.random.default_rng(3), 200, 5, 0.5, n_classes=4)
    found = assess(probs, labels, cluster=cluster, n_draws=199)
    assert found.verdict == "no evidence of miscalibration"
    assert set(found.p_values) == {"bins"}  # the test of all classes knows no clusters


def test_few_clusters_are_not_judged():
    probs, labels, cluster = tries(np.random.default_rng(4), 12, 50, 0.5)
    found = assess(probs, labels, cluster=cluster)
    assert found.verdict == "too few rows to judge"
    assert found.summary == (
        "There are too few clusters to judge: 12 clusters in 600 rows; at least 50 clusters are "
        "needed."
    )
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["p_value"] is None


def test_groups_of_clusters():
    probs, labels, cluster = tries(np.random.default_rng(5), 400, 5, 0.8)
    group = np.where(cluster < 200, "a", "b")
    found = assess_groups(probs, labels, group, cluster=cluster)
    plain = assess_groups(probs, labels, group)
    for one, other in zip(found, plain, strict=True):
        assert one.gap.high - one.gap.low > 1.2 * (other.gap.high - other.gap.low)


def test_sentences_name_the_clusters():
    probs, labels, cluster = tries(np.random.default_rng(5), 300, 5, 0.5)
    calm = assess(probs, labels, cluster=cluster, n_draws=199).summary
    assert calm.startswith("We find no miscalibration. With 300 clusters in 1,500 rows, an error ")
    extreme = probs**3 / (probs**3).sum(axis=1, keepdims=True)
    accused = assess(extreme, labels, cluster=cluster)
    assert accused.p_value < 0.001
    assert "p < .001, from 300 clusters in 1,500 rows)" in accused.summary


@pytest.mark.parametrize("n_clusters", [1, 2, 3])
def test_the_interval_of_few_clusters_holds_the_estimate(n_clusters):
    rng = np.random.default_rng(n_clusters)
    for _ in range(30):
        cluster = np.repeat(np.arange(n_clusters), rng.integers(2, 12, n_clusters))
        confidence = rng.random(len(cluster))
        correct = rng.random(len(cluster)) < confidence**3
        found = assess(confidence=confidence, correct=correct, cluster=cluster).rms
        assert found.low <= found.estimate <= found.high
