"""Every metric: whole weights are repeated rows, and the order of rows never matters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate import metrics as m

METRICS = {name: metric.function for name, metric in m.METRICS.items()}
METRICS |= {
    "debiased": m.debiased_ece,
    "debiased, wide": lambda p, y, **o: m.debiased_ece(p, y, bins="equal-width", **o),
    "ece l2": lambda p, y, **o: m.ece(p, y, norm="l2", **o),
    "entropy": lambda p, y, **o: m.entropy(p, **o),
    "kl": lambda p, y, **o: m.kl_divergence(p[:, ::-1], p, **o),
    "s99": lambda p, y, **o: m.confident_fraction(p, y, threshold=0.5, **o).accuracy,
    "log_probs": lambda p, y, **o: m.nll(labels=y, log_probs=np.log(p), **o),
}


def rows(n, k, seed, *, ties):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(k), size=n)
    if ties:
        probs = probs[rng.integers(0, max(1, n // 3), size=n)]
    return probs, rng.integers(k, size=n), rng


@pytest.mark.slow
@pytest.mark.parametrize("name", METRICS)
@given(n=st.integers(3, 60), k=st.integers(2, 4), seed=st.integers(0, 999), ties=st.booleans())
@settings(max_examples=15, deadline=None)
def test_whole_weights_are_repeated_rows_in_any_order(name, n, k, seed, ties):
    probs, labels, rng = rows(n, k, seed, ties=ties)
    weights = rng.integers(0, 4, size=n)
    weights[0] = 1
    metric = METRICS[name]
    expected = metric(np.repeat(probs, weights, axis=0), np.repeat(labels, weights))
    order = rng.permutation(n)
    for got in (
        metric(probs, labels, sample_weight=weights),
        metric(probs[order], labels[order], sample_weight=weights[order].astype(float)),
    ):
        assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_other_weights_in_any_order_and_scale(name):
    probs, labels, rng = rows(200, 3, 0, ties=True)
    weights = rng.gamma(1.0, size=200)
    expected = METRICS[name](probs, labels, sample_weight=weights)
    order = rng.permutation(200)
    got = METRICS[name](probs[order], labels[order], sample_weight=3.7 * weights[order])
    assert_allclose(got, expected, rtol=1e-11, atol=1e-12)
    assert METRICS[name](probs, labels) != expected


def test_no_examples_have_no_error():
    empty = m.Cells.empty(bins=5)
    assert empty.n == 0
    assert np.isnan([empty.ece(), empty.ece("max"), empty.debiased_ece()]).all()
    assert np.isnan(empty.equal_mass(3).ece())


@pytest.mark.parametrize("metric", [m.nll, m.brier_score, m.error_rate])
def test_bootstrap_repeats_rows_whose_weights_are_copies(metric):
    probs, labels, rng = rows(80, 3, 2, ties=False)
    weights = rng.integers(0, 3, size=80)
    weighted = m.bootstrap(
        metric, probs, labels, n_resamples=20, sample_weight=weights, copies=True
    )
    repeated = m.bootstrap(
        metric, np.repeat(probs, weights, axis=0), np.repeat(labels, weights), n_resamples=20
    )
    assert weighted == repeated


@pytest.mark.parametrize("metric", [m.nll, m.brier_score, m.error_rate])
def test_bootstrap_keeps_other_weights(metric):
    probs, labels, rng = rows(2000, 3, 3, ties=False)
    weights = rng.gamma(1.0, size=2000)
    found = m.bootstrap(metric, probs, labels, n_resamples=2000, sample_weight=weights)
    estimate = metric(probs, labels, sample_weight=weights)
    assert_allclose(found.estimate, estimate)
    terms = np.array([metric(p[None], y[None]) for p, y in zip(probs, labels, strict=True)])
    error = np.sqrt((weights**2 * (terms - estimate) ** 2).sum()) / weights.sum()
    assert_allclose(found.high - found.low, 2 * 1.96 * error, rtol=0.1)


def test_log_probs_are_checked_and_exclude_probs():
    labels = np.array([0, 1])
    with pytest.raises(ValueError, match="apply `log_softmax` first"):
        m.nll(labels=labels, log_probs=np.array([[1.0, 2.0], [0.0, 3.0]]))
    with pytest.raises(ValueError, match="either `probs` or `log_probs`"):
        m.nll(labels=labels)
    far = np.array([[-800.0, 0.0], [0.0, -800.0]])
    assert m.nll(labels=labels, log_probs=far) == 800.0


def test_binary_brier_is_half_of_the_sum_over_both_classes():
    rng = np.random.default_rng(0)
    p, y = rng.random(50), rng.integers(2, size=50)
    assert_allclose(m.binary_brier_score(p, y), m.brier_score(p, y, binary=True) / 2)
    assert_allclose(m.binary_brier_score(np.column_stack([1 - p, p]), y), np.mean((p - y) ** 2))
    with pytest.raises(ValueError, match="two classes"):
        m.binary_brier_score(np.full((2, 3), 1 / 3), y[:2])
