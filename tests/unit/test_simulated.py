import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.metrics import kl_divergence
from focalibrate.simulated import (
    N_KNOTS,
    RANGE,
    posterior_at,
    sample,
    shares_of_knots,
    simulate,
)
from focalibrate.theory import recover_log_posterior


def test_labels_follow_the_known_posterior():
    problem = sample(50_000, seed=0)
    for k in range(3):
        for low in (0.1, 0.4, 0.7):
            near = np.abs(problem.posterior[:, k] - low) < 0.05
            frequency = (problem.labels[near] == k).mean()
            assert abs(frequency - problem.posterior[near, k].mean()) < 0.03


def test_the_posterior_is_bayes_rule():
    got = posterior_at(np.array([0.0]))[0]
    density = np.exp(-0.5 * np.array([1.5, 0.0, 1.5]) ** 2) / np.array([1.0, 0.6, 1.2])
    assert_allclose(got, density / density.sum(), rtol=1e-13)


def test_curves_are_linear_between_their_knots():
    x = sample(50, seed=0).x
    values = np.random.default_rng(0).normal(size=N_KNOTS)
    curve = np.interp(x, np.linspace(*RANGE, N_KNOTS), values)
    assert_allclose(shares_of_knots(x) @ values, curve, rtol=1e-12)
    assert_allclose(shares_of_knots(np.array(RANGE)) @ values, values[[0, -1]], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [1.0, 5.0])
def test_recovery_brings_focal_training_to_the_truth(gamma):
    made = simulate(gamma=gamma, n=5000, seed=0)

    def divergence(logits, undo):
        probs = np.exp(recover_log_posterior(logits, undo))
        return kl_divergence(made.test.posterior, probs)

    raw, recovered = divergence(made.test_logits, 0.0), divergence(made.test_logits, gamma)
    assert recovered < 0.1 * raw
    assert recovered < 3 * divergence(made.plain_test_logits, 0.0)
