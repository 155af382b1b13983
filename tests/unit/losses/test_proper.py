import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import log_softmax

from focalibrate._array import to_numpy
from focalibrate.losses import cross_entropy, proper_focal_loss
from focalibrate.theory import focal_minimiser, phi

GAMMAS = [0.0, 0.5, 1.0, 3.0]


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1), gamma=st.sampled_from([0.3, 1.0, 4.0]))
def test_the_truth_minimises_its_expectation(seed, gamma):
    rng = np.random.default_rng(seed)
    eta = rng.dirichlet(np.ones(4))
    other = np.log(eta) + rng.normal(size=4) * 0.1
    at_truth = proper_focal_loss(np.log(eta), eta, gamma)
    assert at_truth <= proper_focal_loss(other, eta, gamma) + 1e-15


def test_gamma_zero_is_cross_entropy():
    z = np.random.default_rng(0).normal(size=(5, 4)) * 5
    y = np.array([0, 1, 2, 3, 0])
    assert_allclose(proper_focal_loss(z, y, 0.0), cross_entropy(z, y), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 5.0, 30.0])
def test_derivatives_in_torch(scale):
    rng = np.random.default_rng(1)
    z = torch.tensor(rng.normal(size=(12, 4)) * scale, requires_grad=True)
    y = torch.tensor([0, 2, 3] * 4)
    gamma = torch.tensor(GAMMAS, dtype=torch.float64).repeat_interleave(3)

    def f(z):
        return proper_focal_loss(z, y, gamma)

    assert torch.autograd.gradcheck(f, (z,), atol=1e-7, fast_mode=True)
    assert torch.autograd.gradgradcheck(f, (z,), atol=1e-6, fast_mode=True)


@pytest.mark.slow
def test_derivatives_in_jax_equal_those_in_torch(jax, monkeypatch):
    # JAX compiles every Newton step: both libraries take only the last two, which carry the
    # derivatives. All gammas are compiled at once, one per row.
    monkeypatch.setattr("focalibrate.theory.minimiser.MAX_STEPS", 0)
    z = np.random.default_rng(2).normal(size=(12, 4))
    y = np.array([0, 2, 3] * 4)
    gamma = np.repeat(GAMMAS, 3)
    jnp = jax.numpy

    def f(z):
        return proper_focal_loss(z, jnp.asarray(y), jnp.asarray(gamma)).sum()

    t = torch.tensor(z, requires_grad=True)
    loss = proper_focal_loss(t, torch.tensor(y), torch.tensor(gamma))
    (want,) = torch.autograd.grad(loss.sum(), t)
    assert_allclose(jax.jit(jax.grad(f))(jnp.asarray(z)), want, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_gradient_is_the_implicit_one(gamma):
    r"""The formula of the docstring, from the minimiser alone."""
    z = np.random.default_rng(3).normal(size=5) * 2
    v = focal_minimiser(np.exp(log_softmax(z)), gamma)
    r = -v * np.log(v) / (1 - v)
    slope = (1 - v) + gamma * v - gamma * (r - v) / (1 + gamma * r)
    w = v * (1 - v) / slope
    y = 1
    want = -phi(v[y : y + 1], gamma) / v[y] * w[y] * (np.eye(5)[y] - w / w.sum())
    t = torch.tensor(z, requires_grad=True)
    (got,) = torch.autograd.grad(proper_focal_loss(t, torch.tensor(y), gamma), t)
    assert_allclose(got, want, rtol=1e-10)


@pytest.mark.slow
def test_every_library_class_indices_and_soft_targets(xp, whole, monkeypatch):
    monkeypatch.setattr("focalibrate.theory.minimiser.MAX_STEPS", 0)  # as above, in all libraries
    loss = whole(lambda z, target: proper_focal_loss(z, target, 2.0))
    z = np.random.default_rng(0).normal(size=(3, 4))
    y = np.array([0, 1, 2])
    soft = np.eye(4)[y]
    want = proper_focal_loss(z, y, 2.0)
    got = loss(xp.asarray(z), xp.asarray(y))
    assert_allclose(to_numpy(got), want, rtol=1e-12)
    got = loss(xp.asarray(z), xp.asarray(soft))
    assert_allclose(to_numpy(got), want, rtol=1e-12)


def test_one_gamma_per_row():
    z, y = np.random.default_rng(0).normal(size=(3, 4)), np.array([0, 1, 2])
    gamma = np.array([0.0, 0.5, 3.0])
    each = [proper_focal_loss(z[i], y[i], float(gamma[i])) for i in range(3)]
    assert_allclose(proper_focal_loss(z, y, gamma), each, rtol=1e-12)
