import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from numpy.testing import assert_allclose

from focalibrate.boosting import focal_derivatives
from focalibrate.boosting.objective import FOCAL_FLOOR


def loss(z, label, gamma):
    total = mp.fsum(mp.exp(x) for x in z)
    p = mp.exp(z[label]) / total
    return -((1 - p) ** gamma) * mp.log(p)


def by_high_precision(z, label, gamma):
    """Central differences in 60 digits: gradient and diagonal of the Hessian."""
    with mp.workdps(60):
        step, z = mpf(10) ** -15, [mpf(x) for x in z]
        first, second = [], []
        for k in range(len(z)):
            up, down = list(z), list(z)
            up[k] += step
            down[k] -= step
            a, b, c = (loss(x, label, mpf(gamma)) for x in (up, z, down))
            first.append(float((a - c) / (2 * step)))
            second.append(float((a - 2 * b + c) / step**2))
    return np.array(first), np.array(second)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize(
    "z", [[0.0, 0.0, 0.0], [2.0, -1.0, 0.5], [12.0, 0.0, -3.0], [-9.0, 0.0, 1.0], [30.0, 0.0, 0.0]]
)
def test_derivatives_against_sixty_digits(z, gamma):
    for label in range(3):
        want_g, want_h = by_high_precision(z, label, gamma)
        g, h = focal_derivatives(np.array([z]), np.array([label]), gamma)
        _, bound = focal_derivatives(np.array([z]), np.array([label]), gamma, curvature="bound")
        assert_allclose(g[0], want_g, rtol=1e-9, atol=1e-300)
        assert_allclose(h[0], np.maximum(want_h, FOCAL_FLOOR * bound[0]), rtol=1e-8, atol=1e-24)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("s", [0.0, -3.0, 12.0, 35.0])
def test_derivatives_of_one_log_odds_against_sixty_digits(s, gamma):
    for label in range(2):
        want_g, want_h = by_high_precision([0.0, s], label, gamma)
        g, h = focal_derivatives(np.array([s]), np.array([label]), gamma)
        _, bound = focal_derivatives(np.array([s]), np.array([label]), gamma, curvature="bound")
        assert_allclose(g[0], want_g[1], rtol=1e-9, atol=1e-300)
        assert_allclose(h[0], np.maximum(want_h[1], FOCAL_FLOOR * bound[0]), rtol=1e-8, atol=1e-24)


@given(seed=st.integers(0, 2**32 - 1), gamma=st.floats(0.0, 8.0), scale=st.floats(0.1, 1e4))
def test_finite_and_never_negative_at_any_margin(seed, gamma, scale):
    rng = np.random.default_rng(seed)
    g, h = focal_derivatives(rng.normal(size=(5, 4)) * scale, rng.integers(4, size=5), gamma)
    assert np.isfinite(g).all()
    assert np.isfinite(h).all()
    assert (h >= 0).all()
    assert_allclose(g.sum(axis=1), 0.0, atol=1e-12)


def test_gamma_zero_is_the_log_loss():
    z, y = np.random.default_rng(0).normal(size=(6, 3)), np.arange(6) % 3
    v = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    g, h = focal_derivatives(z, y, 0.0)
    assert_allclose(g, v - np.eye(3)[y], rtol=1e-12, atol=1e-15)
    assert_allclose(h, v * (1 - v), rtol=1e-12)


def test_a_bad_exponent_or_curvature_is_refused():
    with pytest.raises(ValueError, match="`gamma` must be a finite number >= 0, got -1"):
        focal_derivatives(np.zeros(1), np.zeros(1), -1.0)
    with pytest.raises(ValueError, match="`curvature` must be one of exact, bound; got 'best'"):
        focal_derivatives(np.zeros(1), np.zeros(1), 1.0, curvature="best")
