import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.calibrate._engine.binned import equal_mass_error, equal_width_error
from focalibrate.metrics import adaptive_ece, ece


def as_probs(confidence):
    return np.stack([1 - confidence, confidence], axis=1)


@given(
    n=st.integers(1, 80),
    n_bins=st.integers(1, 20),
    digits=st.sampled_from([1, 2, 15]),
    seed=st.integers(0, 2**32 - 1),
)
def test_same_numbers_as_the_metrics(n, n_bins, digits, seed):
    rng = np.random.default_rng(seed)
    confidence = np.round(rng.uniform(0.5, 1.0, n), digits)  # few digits: many ties
    labels = (rng.random(n) < confidence).astype(int)
    is_right = np.where(confidence == 0.5, labels == 0, labels == 1)  # the first of a tie
    args = (as_probs(confidence), labels)
    top = args[0].max(axis=1)
    assert_allclose(
        equal_mass_error(top, is_right, n_bins), adaptive_ece(*args, n_bins=n_bins), atol=1e-12
    )
    assert_allclose(
        equal_width_error(top, is_right, n_bins), ece(*args, n_bins=n_bins), atol=1e-12
    )


@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_the_rows_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    confidence = rng.choice([0.5, 0.7, 1.0], 50)
    correct = rng.random(50) < 0.6
    order = rng.permutation(50)
    for error in (equal_mass_error, equal_width_error):
        assert_allclose(
            error(confidence, correct, 7), error(confidence[order], correct[order], 7), atol=1e-12
        )


def test_constant_confidence_scores_its_distance_from_accuracy():
    correct = np.arange(100) < 60
    assert_allclose(equal_mass_error(np.full(100, 0.9), correct, 15), 0.3, atol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 14])
def test_fewer_rows_than_bins(n):
    assert_allclose(equal_mass_error(np.full(n, 1.0), np.zeros(n, bool), 15), 1.0)
