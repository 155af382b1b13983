import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.metrics import assess, rms_difference


def two_models(n, seed, *, sharpness=1.0):
    """An overconfident model, and a calibrated one with less information; both of 3 classes."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(n, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    first = np.exp(sharpness * logits)
    return first / first.sum(axis=1, keepdims=True), np.full((n, 3), [0.34, 0.33, 0.33]), labels


def test_two_calibrated_models_are_told_apart_at_most_one_time_in_twenty():
    found = [rms_difference(*two_models(300, seed)).excludes_zero for seed in range(60)]
    assert np.mean(found) <= 0.05


def test_a_miscalibrated_model_is_told_from_a_calibrated_one():
    first, second, labels = two_models(2000, 0, sharpness=2.0)
    result = rms_difference(first, second, labels)
    assert result.low > 0.03
    assert_allclose(
        result.estimate, assess(first, labels).rms.estimate - assess(second, labels).rms.estimate
    )
    turned = rms_difference(second, first, labels)
    assert_allclose([turned.low, turned.high], [-result.high, -result.low])


def test_whole_weights_are_repeated_rows():
    first, second, labels = two_models(300, 1, sharpness=1.5)
    weights = np.random.default_rng(0).integers(0, 3, size=300)
    one = rms_difference(first, second, labels, sample_weight=weights)
    two = rms_difference(*(np.repeat(x, weights, axis=0) for x in (first, second, labels)))
    assert_allclose([one.low, one.high], [two.low, two.high], rtol=1e-10)


def test_a_model_does_not_differ_from_itself():
    first, _, labels = two_models(2000, 0, sharpness=2.0)
    result = rms_difference(first, first, labels)
    assert result.estimate == 0.0
    assert result.low < 0.0 < result.high


def test_models_must_be_of_the_same_rows():
    first, second, labels = two_models(50, 0)
    with pytest.raises(ValueError, match="must have shape"):
        rms_difference(first, second[:40], labels)
