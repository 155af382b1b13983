"""The named tests, against formulas written out here and against simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.stats import norm

from focalibrate.metrics import tests as named


def binary(n, seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, size=n)
    return p, (rng.random(n) < p).astype(int)


SINGLE = {
    "kuiper": named.kuiper,
    "kolmogorov_smirnov": named.kolmogorov_smirnov,
    "spiegelhalter": named.spiegelhalter,
    "hosmer_lemeshow": named.hosmer_lemeshow,
    "cox": named.cox,
}


@pytest.mark.parametrize("name", SINGLE)
def test_p_values_of_calibrated_models_are_uniform_and_power_is_there(name):
    found = [SINGLE[name](*binary(400, seed), event=1).p_value for seed in range(200)]
    assert np.mean(np.array(found) <= 0.05) <= 0.1
    assert stats.kstest(found, "uniform").pvalue > 1e-4
    p, y = binary(2000, 0)
    sharp = p**2 / (p**2 + (1 - p) ** 2)  # a temperature of 1/2
    assert SINGLE[name](sharp, y, event=1).p_value < 0.01


def test_cumulative_statistics_row_by_row():
    p, y = binary(60, 1)
    order = np.argsort(p)
    path = np.concatenate([[0.0], np.cumsum(y[order] - p[order])]) / np.sqrt((p * (1 - p)).sum())
    assert_allclose(named.kuiper(p, y, event=1).statistic, np.ptp(path))
    assert_allclose(named.kolmogorov_smirnov(p, y, event=1).statistic, np.abs(path).max())


def test_tails_are_those_of_a_brownian_motion():
    rng = np.random.default_rng(0)
    path = np.cumsum(rng.normal(size=(2000, 2000)).astype(np.float32), axis=1) / np.sqrt(2000)
    top, bottom = np.maximum(path.max(axis=1), 0), np.minimum(path.min(axis=1), 0)
    for x in (1.2, 1.6, 2.2):
        assert abs(np.mean(top - bottom >= x) - named._range_tail(x + 0.03)) < 0.04
        largest = np.maximum(top, -bottom)
        assert abs(np.mean(largest >= x) - named._maximum_tail(x + 0.015)) < 0.04
    assert_allclose([named._range_tail(0.2), named._maximum_tail(0.05)], 1.0)


def test_spiegelhalter_is_blind_to_shape():
    rng = np.random.default_rng(0)
    p = np.tile([0.3, 0.5, 0.7], 2000)
    truth = np.tile([0.3, 0.8, 0.7], 2000)
    y = (rng.random(6000) < truth).astype(int)
    assert named.spiegelhalter(p, y, event=1).p_value > 0.01
    assert named.kuiper(p, y, event=1).p_value < 1e-6


def test_hosmer_lemeshow_by_hand():
    p, y = binary(200, 2)
    want = 0.0
    for at in np.array_split(np.argsort(p), 10):
        mean = p[at].mean()
        want += (y[at].sum() - p[at].sum()) ** 2 / (20 * mean * (1 - mean))
    got = named.hosmer_lemeshow(p, y, event=1)
    assert_allclose(got.statistic, want)
    assert_allclose(got.p_value, stats.chi2.sf(want, 10))
    fitted = named.hosmer_lemeshow(p, y, event=1, degrees_of_freedom=8)
    assert_allclose(fitted.p_value, stats.chi2.sf(want, 8))


def test_cox_finds_the_line():
    rng = np.random.default_rng(3)
    s = rng.normal(size=8000)
    y = (rng.random(8000) < 1 / (1 + np.exp(-(0.5 + 0.7 * s)))).astype(int)
    got = named.cox(1 / (1 + np.exp(-s)), y, event=1)
    assert got.intercept.low < 0.5 < got.intercept.high
    assert got.slope.low < 0.7 < got.slope.high
    assert got.p_value < 1e-6
    with pytest.raises(ValueError, match="use `kuiper`"):
        named.cox(np.full(10, 0.5), np.array([0, 1] * 5), event=1)


def test_a_tiny_p_value_of_kolmogorov_and_smirnov_is_not_0():
    """1 minus a sum is 0.0 from a statistic of 8.3 on; the tail itself is representable."""
    p, y = np.full(4000, 0.9), np.r_[np.ones(3000, dtype=int), np.zeros(1000, dtype=int)]
    found = named.kolmogorov_smirnov(p, y, event=1)
    assert 0.0 < found.p_value < 1e-200
    mild = named.kolmogorov_smirnov(p[:400], np.r_[y[:350], y[-50:]], event=1)
    assert_allclose(mild.p_value, 4 * norm.sf(mild.statistic), rtol=1e-3)


def test_certain_predictions():
    sure = np.ones(20)
    right, wrong = np.ones(20, dtype=int), np.r_[0, np.ones(19, dtype=int)]
    for name in ("kuiper", "kolmogorov_smirnov", "hosmer_lemeshow"):
        assert SINGLE[name](sure, right, event=1).p_value == 1.0
        assert SINGLE[name](sure, wrong, event=1).p_value == 0.0
    assert named.spiegelhalter(sure, wrong, event=1).p_value == 0.0


def test_the_top_label_is_the_default_event():
    rng = np.random.default_rng(6)
    probs = rng.dirichlet(np.ones(4), size=100)
    labels = rng.integers(4, size=100)
    right = (probs.argmax(axis=1) == labels).astype(int)
    for test in SINGLE.values():
        assert test(probs, labels) == test(probs.max(axis=1), right, event=1)
    with pytest.raises(ValueError, match="a class below 4"):
        named.kuiper(probs, labels, event=4)


@pytest.mark.parametrize(
    "test", [named.kuiper, named.kolmogorov_smirnov, named.spiegelhalter, named.hosmer_lemeshow]
)
def test_weights_that_count_copies_are_copies(test):
    p, y = binary(150, 7)
    weights = np.random.default_rng(8).integers(0, 4, size=150)
    weighted = test(p, y, event=1, sample_weight=weights, copies=True)
    repeated = test(np.repeat(p, weights), np.repeat(y, weights), event=1)
    assert_allclose(weighted.statistic, repeated.statistic, rtol=1e-12)
    assert_allclose(weighted.p_value, repeated.p_value, rtol=1e-9)
    importance = test(p, y, event=1, sample_weight=weights)
    scaled = test(p, y, event=1, sample_weight=3.5 * weights)
    assert_allclose(importance.statistic, scaled.statistic, rtol=1e-12)
    assert importance.statistic != weighted.statistic


@pytest.mark.parametrize(
    "test", [named.kuiper, named.kolmogorov_smirnov, named.spiegelhalter, named.hosmer_lemeshow]
)
def test_sampling_weights_keep_the_level(test):
    """Counted as copies, weights of 1 to 10 would reject about every calibrated model."""
    rng, n_rejected = np.random.default_rng(9), 0
    for _ in range(200):
        p = rng.uniform(0.05, 0.95, size=400)
        y, weights = (rng.random(400) < p).astype(int), rng.integers(1, 11, size=400)
        n_rejected += test(p, y, event=1, sample_weight=weights).p_value < 0.05
    assert n_rejected <= 22  # more have a chance below 0.1 %
