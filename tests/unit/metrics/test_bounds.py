import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from focalibrate.metrics import adaptive_ece, calibration_bounds


def drawn(rng, n, k, *, off=0.0, sharp=2.0):
    """Probabilities and labels of a model whose confidence is `off` too high."""
    probs = softmax(sharp * rng.normal(size=(n, k)), axis=1)
    top, confidence = probs.argmax(axis=1), probs.max(axis=1)
    hit = rng.uniform(size=n) < np.clip(confidence - off, 0, 1)
    return probs, np.where(hit, top, (top + rng.integers(1, k, size=n)) % k)


def test_the_estimate_is_the_adaptive_ece():
    probs, labels = drawn(np.random.default_rng(0), 3000, 5)
    found = calibration_bounds(probs, labels)
    assert_allclose(found.estimate, adaptive_ece(probs, labels), rtol=1e-9)
    assert found.low <= found.estimate <= found.high


@pytest.mark.parametrize("error", ["ece", "rms"])
def test_bounds_close_in_on_a_large_error(error):
    probs, labels = drawn(np.random.default_rng(1), 40_000, 4, off=0.1)
    found = calibration_bounds(probs, labels, error=error)
    assert 0.085 < found.low < 0.1 < found.high < 0.115


@pytest.mark.parametrize("error", ["ece", "rms"])
@pytest.mark.parametrize(("n", "k", "off"), [(300, 2, 0.03), (300, 10, 0.03), (300, 3, 0.0)])
def test_a_model_at_its_limit_rarely_fails(error, n, k, off, monkeypatch):
    """The rate is at most 0.05; more than 8 of 60 have a chance of 0.4 %."""
    monkeypatch.setattr("focalibrate.metrics.bounds.N_DRAWS", 199)
    rng = np.random.default_rng([n, k])
    failed = 0
    for _ in range(60):
        probs, labels = drawn(rng, n, k, off=off)
        low = calibration_bounds(probs, labels, error=error, seed=rng).low
        failed += low > off  # with off = 0: no calibrated model may look worse than 0
    assert failed <= 8


def test_the_lower_bound_sees_errors_that_cancel_on_average():
    rng = np.random.default_rng(2)
    confidence = rng.uniform(0.5, 1.0, size=40_000)
    truth = confidence + np.where(confidence > 0.75, -0.05, 0.05)
    labels = (rng.uniform(size=40_000) > truth).astype(int)
    probs = np.stack([confidence, 1 - confidence], axis=1)
    assert abs(np.mean(confidence - (labels == 0))) < 0.01
    assert calibration_bounds(probs, labels).low > 0.03


def test_errors_of_two_classes_that_cancel_by_confidence_are_seen():
    """P(class 1) is too high everywhere, so that confidences of both classes average out."""
    rng = np.random.default_rng(7)
    p = rng.uniform(0.1, 0.9, size=40_000)
    labels = (rng.uniform(size=40_000) < p - 0.08).astype(int)
    found = calibration_bounds(p, labels)
    assert 0.06 < found.low < 0.08 < found.high < 0.09


def test_few_sure_rows_without_an_error_prove_little():
    """Of 50 rows at 99.9 %, none wrong: the true rate of errors may still be 5 %."""
    probs = np.tile([0.0005, 0.0005, 0.999], (50, 1))
    labels = np.full(50, 2)
    assert calibration_bounds(probs, labels, limit=0.02).high > 0.02
    probs, labels = np.tile(probs, (4, 1)), np.tile(labels, 4)
    assert calibration_bounds(probs, labels, limit=0.02).high < 0.02  # 0.98**200 = 1.8 %


def test_whole_weights_are_repeated_rows():
    rng = np.random.default_rng(4)
    probs, labels = drawn(rng, 400, 3, off=0.1)
    weights = rng.integers(0, 4, size=400)
    repeated = calibration_bounds(np.repeat(probs, weights, 0), np.repeat(labels, weights))
    weighted = calibration_bounds(probs, labels, sample_weight=weights, copies=True)
    assert_allclose(
        [weighted.estimate, weighted.low, weighted.high],
        [repeated.estimate, repeated.low, repeated.high],
        atol=2e-3,
    )


def test_a_smaller_alpha_widens_the_bounds():
    probs, labels = drawn(np.random.default_rng(5), 2000, 3, off=0.1)
    wide, narrow = (calibration_bounds(probs, labels, alpha=a) for a in (0.001, 0.2))
    assert wide.low < narrow.low
    assert wide.high > narrow.high


def test_alpha_is_checked():
    with pytest.raises(ValueError, match="`alpha` must"):
        calibration_bounds(np.full((4, 2), 0.5), np.zeros(4, int), alpha=0.0)


def test_rare_error_rates_are_on_the_safe_side():
    """Far in the tail the bound is that of many draws, or below it."""
    rng = np.random.default_rng(6)
    p = rng.uniform(0.5, 1, size=3000)
    labels = (rng.uniform(size=3000) < p - 0.2).astype(int)
    lows = [calibration_bounds(p, labels, alpha=a).low for a in (0.05, 0.01, 1e-3, 1e-4, 1e-6)]
    assert all(a > b > 0.05 for a, b in itertools.pairwise(lows))


@pytest.mark.slow
def test_the_tail_beyond_the_draws_is_borells():
    """Against half a million draws of the noise of 32 equal bins."""
    rng = np.random.default_rng(7)
    noise = np.abs(rng.standard_normal((500_000, 32))).sum(axis=1)
    at, far = np.quantile(noise, [1 - 0.005, 1 - 1e-4])
    assert far <= at + np.sqrt(32) * (3.7190 - 2.5758)


@pytest.mark.parametrize("error", ["ece", "rms"])
def test_clusters_of_one_row_change_nothing_but_noise(error):
    probs, labels = drawn(np.random.default_rng(5), 4000, 3, off=0.05)
    rows = calibration_bounds(probs, labels, error=error)
    alone = calibration_bounds(probs, labels, error=error, cluster=np.arange(4000))
    assert_allclose(alone.estimate, rows.estimate, rtol=1e-9)
    assert abs(alone.low - rows.low) < 0.01
    assert abs(alone.high - rows.high) < 0.015


@pytest.mark.slow
@pytest.mark.parametrize("error", ["ece", "rms"])
def test_a_clustered_model_at_its_limit_rarely_fails(error):
    """Ten rows of a cluster share one draw; the rate is at most 0.05, 7 of 60 have 1.2 %."""
    rng = np.random.default_rng(8)
    failed = naive = 0
    for _ in range(60):
        q = np.repeat(rng.uniform(0.1, 0.9, size=150), 10)
        y = (np.repeat(rng.random(150), 10) < q).astype(int)
        p, code = q + 0.05, np.repeat(np.arange(150), 10)
        options = {"error": error, "limit": 0.05}
        failed += calibration_bounds(p, y, cluster=code, **options).low > 0.05
        naive += calibration_bounds(p, y, **options).low > 0.05
    assert failed <= 6 < naive
