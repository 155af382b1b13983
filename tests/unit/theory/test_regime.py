import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate._array import to_numpy
from focalibrate.theory import confidence_regime, recover_posterior, tau_over, tau_under


@given(seed=st.integers(0, 2**32 - 1), gamma=st.floats(0.01, 20.0), k=st.integers(2, 60))
def test_it_is_the_sign_of_the_confidence_error(seed, gamma, k):
    probs = np.random.default_rng(seed).dirichlet(np.ones(k), size=20)
    error = probs.max(-1) - recover_posterior(probs, gamma).max(-1)
    clear = np.abs(error) > 1e-12
    assert_array_equal(confidence_regime(probs, gamma)[clear], np.sign(error)[clear])


@given(seed=st.integers(0, 2**32 - 1), gamma=st.floats(0.05, 5.0))
def test_thresholds_decide(seed, gamma):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(200, rng.uniform(0.02, 20)), size=20)
    assume((np.unique(probs.max(-1)).size) > 1)
    regime, top = confidence_regime(probs, gamma), probs.max(-1)
    assert (regime[top <= tau_over(gamma)] == 1).all()
    assert (regime[top >= tau_under(gamma)] == -1).all()


@given(p=st.floats(0.5001, 0.9999), gamma=st.floats(0.01, 20.0))
def test_two_classes_are_never_overconfident(p, gamma):
    assert confidence_regime(np.array([p, 1 - p]), gamma) == -1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact_cases_are_exact(dtype):
    probs = np.array([[1 / 3] * 3, [0.5, 0.5, 0], [1, 0, 0]], dtype=dtype)
    assert_array_equal(confidence_regime(probs, 2.0), [0, 0, 0])


def test_gamma_zero_is_always_exact():
    assert_array_equal(confidence_regime(np.array([[0.7, 0.2, 0.1]]), 0.0), [0])


def test_top_rounded_to_one_is_underconfident():
    assert_array_equal(confidence_regime(np.array([[1.0, 1e-20, 1e-20]]), 2.0), [-1])


@pytest.mark.slow
def test_every_library(xp, whole):
    probs = np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0], [0.34, 0.33, 0.33]])
    got = whole(lambda probs: confidence_regime(probs, 2.0))(xp.asarray(probs))
    assert_array_equal(to_numpy(got), confidence_regime(probs, 2.0))
