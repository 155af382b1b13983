import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from focalibrate.theory import focal_minimiser, recover_log_posterior, recover_posterior
from focalibrate.theory.minimiser import log_focal_minimiser

gammas = st.one_of(st.sampled_from([0.0, 1e-8, 0.5, 1.0, 5.0, 100.0]), st.floats(0.0, 30.0))


@given(
    seed=st.integers(0, 2**32 - 1),
    gamma=gammas,
    k=st.integers(2, 30),
    concentration=st.floats(0.02, 50.0),
)
def test_recovery_gives_the_posterior_back(seed, gamma, k, concentration):
    eta = np.random.default_rng(seed).dirichlet(np.full(k, concentration), size=8)
    eta /= eta.sum(-1, keepdims=True)
    back = recover_posterior(focal_minimiser(eta, gamma), gamma)
    is_normal = eta > 1e-290  # logarithms of subnormal numbers have few digits
    assert_allclose(back[is_normal], eta[is_normal], rtol=1e-10)
    assert_array_equal(back == 0, eta == 0)


@pytest.mark.parametrize("gamma", [1e-3, 0.5, 2.0, 50.0, 1000.0])
@pytest.mark.parametrize("k", [2, 3, 10, 1000])
def test_recovery_in_the_logarithm_far_beyond_floats(gamma, k):
    log_eta = log_softmax(np.random.default_rng(k).normal(size=(20, k)) * 500, axis=-1)
    log_q = log_focal_minimiser(log_eta, np.asarray(gamma))
    back = recover_log_posterior(log_q, gamma)
    assert_allclose(back, log_eta, atol=1e-12 * np.abs(log_eta).max())


@pytest.mark.parametrize("gamma", [0.5, 2.0, 5.0])
def test_it_minimises_the_focal_risk(gamma):
    eta = np.array([0.55, 0.3, 0.15])

    def risk(z):
        q = softmax(z)
        return -(eta * (1 - q) ** gamma * np.log(q)).sum()

    found = minimize(risk, np.zeros(3), method="BFGS", options={"gtol": 1e-10})
    assert_allclose(focal_minimiser(eta, gamma), softmax(found.x), atol=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 5.0])
def test_zeros_and_certainty_stay(gamma):
    eta = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.6, 0.4, 0]])
    q = focal_minimiser(eta, gamma)
    assert_array_equal(q == 0, eta == 0)
    assert_allclose(q[:2], eta[:2], rtol=1e-14)
    assert_allclose(q[2, :2], focal_minimiser(np.array([0.6, 0.4]), gamma), rtol=1e-14)


def test_shape_is_kept_and_blocks_agree(monkeypatch):
    eta = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 5))
    whole = focal_minimiser(eta, 2.0)
    assert whole.shape == eta.shape
    monkeypatch.setattr("focalibrate.theory.minimiser.BLOCK_ENTRIES", 8)
    assert_allclose(focal_minimiser(eta, 2.0), whole, rtol=1e-13)


@pytest.mark.parametrize(
    ("eta", "gamma", "message"),
    [
        ([0.5, 0.6], 1.0, r"`posterior` must be probabilities .* off by 0.1"),
        ([0.5, 0.5], -0.5, r"`gamma` must be a finite number >= 0, got -0.5"),
    ],
)
def test_bad_input_is_named(eta, gamma, message):
    with pytest.raises(ValueError, match=message):
        focal_minimiser(np.array(eta), gamma)
