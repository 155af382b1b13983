import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.curvature import lambda_max, lambda_min


def test_a_larger_negative_eigenvalue_does_not_hide_it(make_matrix):
    A = make_matrix([-100.0, *np.linspace(-1, 1, 150), 2.0])
    got = lambda_max(lambda v: A @ v, 152)
    assert got.converged
    assert_allclose(got.value, 2.0, rtol=1e-7)
    assert_allclose(lambda_min(lambda v: A @ v, 152).value, -100.0, rtol=1e-7)


@given(n=st.integers(1, 40), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-9, 1, 1e9]))
def test_against_the_dense_spectrum(n, seed, scale):
    A = np.random.default_rng(seed).standard_normal((n, n)) * scale
    A = A + A.T
    eigenvalues = np.linalg.eigvalsh(A)
    tolerance = {"rtol": 1e-6, "atol": 1e-6 * np.abs(eigenvalues).max()}
    for function, want in ((lambda_max, eigenvalues[-1]), (lambda_min, eigenvalues[0])):
        got = function(lambda v: A @ v, n, seed=seed)
        assert got.converged
        assert got.n_products <= n
        assert_allclose(got.value, want, **tolerance)


def test_more_products_than_the_basis_holds():
    """Many eigenvalues near the largest: Lanczos must restart, and still converges."""
    d = 1.0 - (np.arange(600) / 600) ** 1.2
    got = lambda_max(lambda v: d * v, 600, tolerance=1e-8, max_products=1000)
    assert got.converged
    assert got.n_products > 96
    assert_allclose(got.value, 1.0, atol=1e-8)


def test_an_honest_no():
    d = np.linspace(0, 1, 800)
    got = lambda_max(lambda v: d * v, 800, max_products=10)
    assert not got.converged
    assert got.n_products == 10
    assert got.value < 1.0
    assert np.abs(d - got.value).min() <= got.residual


@pytest.mark.parametrize("rest", [np.linspace(-1, 0, 100), np.linspace(-0.05, 0.04, 100)])
def test_a_small_value_beside_a_large_negative_one(make_matrix, rest):
    """Converged means that the value itself is known, not that its error is small relative to the
    other."""
    A = make_matrix([-1e6, *rest, 0.05])
    got = lambda_max(lambda v: A @ v, 102)
    assert got.converged
    assert_allclose(got.value, 0.05, rtol=1e-5)
    few = lambda_max(lambda v: A @ v, 102, max_products=10)
    assert not few.converged
    assert few.residual > 1e-4


def test_rounding_that_hides_the_value_is_said(make_matrix):
    A = make_matrix([-1e6, *np.linspace(-1, 0, 100), 0.05]).astype(np.float32)
    A = (A + A.T) / 2
    got = lambda_max(lambda v: A @ v.astype(np.float32), 102)
    assert not got.converged
    assert got.residual > 0.005
    assert got.n_products < 100


@pytest.mark.parametrize("diagonal", [np.zeros(50), np.ones(50), -3 * np.ones(50)])
def test_one_eigenvalue_takes_one_product(diagonal):
    got = lambda_max(lambda v: diagonal * v, 50)
    assert (got.value, got.n_products, got.converged) == (
        pytest.approx(diagonal[0], abs=1e-12),
        1,
        True,
    )


def test_all_negative(make_matrix):
    A = make_matrix(-np.arange(1.0, 31.0))
    assert_allclose(lambda_max(lambda v: A @ v, 30).value, -1.0, rtol=1e-6)


def test_float32_products(make_matrix):
    A = make_matrix([*1 / np.arange(1.0, 300.0), 50.0, -80.0]).astype(np.float32)
    got = lambda_max(lambda v: A @ v.astype(np.float32), 301)
    assert got.converged
    assert_allclose(got.value, 50.0, rtol=1e-5)


def test_no_symmetry():
    A = np.random.default_rng(0).standard_normal((300, 300))
    with pytest.raises(ValueError, match=r"`matvec` must be a symmetric matrix"):
        lambda_max(lambda v: A @ v, 300)


def test_bad_numbers():
    with pytest.raises(ValueError, match=r"product 1 has nan"):
        lambda_max(lambda v: v * np.inf, 3)
    with pytest.raises(ValueError, match=r"`size`"):
        lambda_min(lambda v: v, 0)
    with pytest.raises(ValueError, match=r"`max_products`"):
        lambda_max(lambda v: v, 3, max_products=0)
    with pytest.raises(ValueError, match=r"`tolerance`"):
        lambda_max(lambda v: v, 3, tolerance=-1.0)
