"""Class weights, smoothing and priors against direct minimisation of the weighted risk."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from focalibrate.calibrate import PosteriorRecovery
from focalibrate.losses import proper_focal_loss
from focalibrate.theory import (
    estimate_prior,
    focal_minimiser,
    recover_log_odds,
    recover_log_posterior,
    recover_posterior,
    shift_prior,
)

seeds = st.integers(0, 2**32 - 1)


def minimiser_of_risk(eta, gamma, weight, smoothing):
    """Logits that minimise the weighted, smoothed focal risk: shares no code with the package."""
    k = len(eta)
    target = weight * ((1 - smoothing) * eta + smoothing / k)

    def risk(z):
        z = np.append(z, 0.0)
        v = np.exp(z - z.max())
        v /= v.sum()
        log_v, rest = np.log(v), 1 - v
        value = np.sum(target * -(rest**gamma) * log_v)
        # d/dv of -(1-v)^g log v
        slope = target * (gamma * rest ** (gamma - 1) * log_v - rest**gamma / v)
        return value, (v * (slope - np.sum(v * slope)))[:-1]

    start = np.log(eta[:-1] / eta[-1])
    found = minimize(risk, start, jac=True, method="BFGS", options={"gtol": 1e-12})
    return np.append(found.x, 0.0)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    seed=seeds,
    k=st.integers(2, 6),
    gamma=st.sampled_from([0.0, 0.5, 1.0, 2.0, 4.0]),
    smoothing=st.sampled_from([0.0, 0.05, 0.3]),
)
def test_the_posterior_comes_back_from_the_minimiser_of_the_weighted_risk(
    seed, k, gamma, smoothing
):
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.full(k, 3.0)) * 0.9 + 0.1 / k
    weight = np.exp(rng.uniform(-1.0, 1.0, size=k))
    logits = minimiser_of_risk(eta, gamma, weight, smoothing)
    got = np.exp(
        recover_log_posterior(logits[None], gamma, class_weight=weight, label_smoothing=smoothing)
    )[0]
    assert_allclose(got, eta, atol=1e-7)


@given(seed=seeds, gamma=st.floats(0.0, 6.0), smoothing=st.sampled_from([0.0, 0.1]))
def test_recovery_undoes_the_weighted_minimiser(seed, gamma, smoothing):
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.ones(5), size=4)
    weight = rng.uniform(0.1, 10.0, size=5)
    conditions = {"class_weight": weight, "label_smoothing": smoothing}
    q = focal_minimiser(eta, gamma, **conditions)
    assert_allclose(recover_posterior(q, gamma, **conditions), eta, atol=1e-10)


@pytest.mark.parametrize("gamma", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.9])
def test_alpha_of_a_sigmoid_head_is_undone(gamma, alpha):
    eta = np.array([0.02, 0.3, 0.5, 0.97])
    odds = [
        minimiser_of_risk(np.array([e, 1 - e]), gamma, np.array([alpha, 1 - alpha]), 0.0)[0]
        for e in eta
    ]
    got = recover_log_odds(np.array(odds), gamma, alpha=alpha)
    assert_allclose(1 / (1 + np.exp(-got)), eta, atol=1e-7)


def test_rows_that_smoothing_cannot_reach_are_clipped_and_counted():
    log_probs = np.log([[0.96, 0.04], [0.5, 0.5], [0.95, 0.05]])
    assert PosteriorRecovery(gamma=0.0, label_smoothing=0.1).n_clipped(log_probs) == 1
    got = np.exp(recover_log_posterior(log_probs, 0.0, label_smoothing=0.1))
    assert_allclose(got, [[1, 0], [0.5, 0.5], [1, 0]], atol=1e-12)


def test_torch_and_numpy_agree_and_gradients_are_finite():
    z = np.random.default_rng(0).normal(size=(6, 3)) * 3
    conditions = {
        "class_weight": [1.0, 2.0, 0.5],
        "label_smoothing": 0.05,
        "prior": np.array([0.2, 0.3, 0.5]),
        "target_prior": (0.4, 0.4, 0.2),
    }
    t = torch.tensor(z, requires_grad=True)
    got = recover_log_posterior(t, 2.0, **conditions)
    want = recover_log_posterior(z, 2.0, **conditions)
    assert_allclose(got.detach().numpy(), want, rtol=1e-12)
    got[torch.isfinite(got)].sum().backward()
    assert torch.isfinite(t.grad).all()


def test_a_prior_needs_its_partner_and_weights_must_be_positive():
    z = np.zeros((1, 2))
    with pytest.raises(ValueError, match="`prior` and `target_prior` must be given together"):
        recover_log_posterior(z, 1.0, prior=[0.5, 0.5])
    with pytest.raises(ValueError, match="`class_weight` must hold finite numbers > 0"):
        recover_log_posterior(z, 1.0, class_weight=[1.0, 0.0])
    with pytest.raises(ValueError, match=r"one number per class, shape \(2,\), got \(3,\)"):
        recover_log_posterior(z, 1.0, class_weight=[1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"`label_smoothing` must be a number in \[0, 1\)"):
        recover_log_posterior(z, 1.0, label_smoothing=1.0)


def test_the_weighted_proper_loss_is_least_at_the_truth():
    rng = np.random.default_rng(3)
    weight = np.array([1.0, 5.0, 0.2])
    eta = np.array([0.5, 0.2, 0.3])

    def risk(q):
        rows = np.log(np.tile(q, (3, 1)))
        return eta @ proper_focal_loss(rows, np.arange(3), 2.0, class_weight=weight)

    best = risk(eta)
    for _ in range(50):
        other = rng.dirichlet(np.ones(3))
        assert risk(other) > best


def test_shift_prior_follows_bayes():
    likelihood = np.array([[0.2, 0.5, 0.1]])
    old, new = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.1, 0.8])

    def posterior(p):
        return likelihood * p / (likelihood * p).sum()

    got = np.exp(shift_prior(np.log(posterior(old)), old, new))
    assert_allclose(got, posterior(new), rtol=1e-12)


def test_em_finds_the_prior_of_simulated_data():
    rng = np.random.default_rng(0)
    means, old, new = np.array([-1.0, 0.5, 2.0]), np.full(3, 1 / 3), np.array([0.1, 0.2, 0.7])
    y = rng.choice(3, size=20_000, p=new)
    x = rng.normal(means[y])
    density = np.exp(-0.5 * (x[:, None] - means) ** 2)
    probs = density * old / (density * old).sum(axis=1, keepdims=True)
    found = estimate_prior(probs, old)
    assert_allclose(found, new, atol=0.02)
    assert abs(found.sum() - 1) < 1e-12
    share = probs.mean(axis=0)  # what the mean of the unadjusted probabilities would say
    assert np.abs(found - new).max() < 0.3 * np.abs(share - new).max()
