import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.curvature import spectral_density


@given(n=st.integers(1, 30), seed=st.integers(0, 2**32 - 1))
def test_quadrature_gives_the_moments_each_vector_sees(n, seed):
    A = np.random.default_rng(seed).standard_normal((n, n))
    A = A + A.T
    rho = spectral_density(lambda v: A @ v, n, n_vectors=3, n_steps=4, seed=seed)
    block = spectral_density(
        lambda v: A @ v, n, n_vectors=3, n_steps=4, seed=seed, block_matvec=lambda V: A @ V
    )
    scale = np.abs(np.linalg.eigvalsh(A)).max()
    assert_allclose(rho.weights.sum(axis=1), 1.0, rtol=1e-12)
    for power in (1, 2, 5):
        moment = np.sum(rho.weights * (rho.nodes / scale) ** power, axis=1)
        again = np.sum(block.weights * (block.nodes / scale) ** power, axis=1)
        assert_allclose(moment, again, atol=1e-10)
    bits = np.random.default_rng(seed).integers(0, 2, size=(3, n), dtype=np.int8)
    V = 2.0 * bits - 1.0
    assert_allclose(
        np.sum(rho.weights * rho.nodes, axis=1),
        np.sum(V * (V @ A), axis=1) / n,
        atol=1e-10 * scale,
    )


@pytest.mark.slow
def test_the_curve_is_that_of_the_dense_matrix(make_matrix):
    eigenvalues = np.concatenate([np.linspace(-1, 1, 380), np.full(20, 4.0)])
    A = make_matrix(eigenvalues)
    rho = spectral_density(lambda v: A @ v, 400, n_vectors=40, n_steps=80, relative_width=0.03)
    bells = np.exp(-0.5 * ((rho.grid[:, None] - eigenvalues) / rho.width) ** 2)
    want = bells.mean(axis=1) / (rho.width * np.sqrt(2 * np.pi))
    assert_allclose(np.trapezoid(rho.density, rho.grid), 1.0, atol=1e-3)
    assert np.mean(np.abs(rho.density - want) <= 3 * rho.standard_error + 0.02) > 0.95
    assert rho.n_products == 40 * 80


def test_two_eigenvalues_take_two_nodes(make_matrix):
    A = make_matrix([1.0] * 30 + [3.0] * 10)
    rho = spectral_density(lambda v: A @ v, 40, n_vectors=50, n_steps=6)
    top = rho.weights[rho.nodes > 2.0].sum() / 50
    assert_allclose(top, 0.25, atol=0.05)
    assert np.all(rho.weights[np.abs(rho.nodes) < 0.5] < 1e-12)


def test_one_eigenvalue():
    rho = spectral_density(lambda v: 2.0 * v, 5, n_vectors=2, n_steps=3)
    assert_allclose(rho.grid[np.argmax(rho.density)], 2.0, atol=1e-3)


def test_no_symmetry():
    A = np.random.default_rng(0).standard_normal((300, 300))
    with pytest.raises(ValueError, match=r"`matvec` must be a symmetric matrix"):
        spectral_density(lambda v: A @ v, 300)


@pytest.mark.parametrize("name", ["n_vectors", "n_steps", "n_points", "relative_width"])
def test_bad_numbers(name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        spectral_density(lambda v: v, 5, **{name: 0})
