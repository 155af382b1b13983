import numpy as np
import pytest
import torch
from mpmath import mp, mpf
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate._array import to_numpy
from focalibrate._stable import log_sigmoid, log_simplex, log_softmax, logsumexp


def test_log_sigmoid_at_the_extremes(xp):
    x = np.array([-np.inf, -1e308, -50.0, 0.0, 50.0, 1e308, np.inf])
    got = to_numpy(log_sigmoid(xp.asarray(x)))
    assert_allclose(got, [-np.inf, -1e308, -50, -np.log(2), -np.exp(-50), 0, 0], rtol=1e-15)


def test_logsumexp_with_masked_entries(xp):
    x = np.array([[1e4, 1e4, -np.inf], [-np.inf] * 3])
    got = to_numpy(logsumexp(xp.asarray(x)))
    assert_array_equal(got, [1e4 + np.log(2), -np.inf])


@pytest.mark.slow
def test_gradients_at_masks_and_ties_agree_between_libraries(jax):
    z = np.array([[2.0, 2.0, -np.inf], [0.0, -np.inf, -np.inf], [1.0, 1.0, 1.0]])
    weight = np.random.default_rng(0).normal(size=(3, 3))
    t = torch.tensor(z, requires_grad=True)

    def finite_sum(x, xp):
        log_v, log_rest, _ = log_simplex(x)
        w = xp.asarray(weight)
        return sum((xp.where(xp.isfinite(y), y, 0 * w) * w).sum() for y in (log_v, log_rest))

    (in_torch,) = torch.autograd.grad(finite_sum(t, torch), t)
    in_jax = jax.grad(lambda x: finite_sum(x, jax.numpy))(jax.numpy.asarray(z))
    assert torch.isfinite(in_torch).all()
    assert_allclose(in_torch, in_jax, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("gap", [1e-9, 1.0, 40.0, 500.0])
def test_both_ends_of_the_softmax_keep_their_digits(gap):
    z = np.array([gap, 0.0, -1.0])
    log_v, log_rest, is_major = log_simplex(z)
    with mp.workdps(400):
        e = [mp.exp(mpf(float(x))) for x in z]
        v = [x / mp.fsum(e) for x in e]
        assert_allclose(log_v, [float(mp.log(x)) for x in v], rtol=1e-13)
        assert_allclose(log_rest, [float(mp.log(1 - x)) for x in v], rtol=1e-14)
    assert is_major.tolist() == [gap >= 1, False, False]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_softmax_of_numpy_is_that_of_every_library(dtype):
    rng = np.random.default_rng(0)
    z = np.concatenate([s * rng.normal(size=(20, 7)) for s in (1e-3, 1.0, 50.0, 1e4)])
    z[::5, 2] = -np.inf
    z[3] = 1.0
    z = z.astype(dtype)
    got = log_softmax(z)
    assert got.dtype == dtype
    assert_allclose(got, log_simplex(z).log_v, rtol=64 * np.finfo(dtype).eps)
