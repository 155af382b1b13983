import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.curvature import hutchinson_trace


def decaying(n=200):
    return 1.0 / np.arange(1, n + 1) ** 2


@pytest.mark.slow
def test_estimates_are_unbiased_and_their_error_is_right(make_matrix):
    A = make_matrix([*decaying(60), -0.5])
    runs = [hutchinson_trace(lambda v: A @ v, 61, seed=s, n_vectors=24) for s in range(400)]
    values = np.array([r.value for r in runs])
    spread = values.std(ddof=1)
    assert abs(values.mean() - np.trace(A)) < 4 * spread / np.sqrt(len(runs))
    claimed = np.sqrt(np.mean([r.standard_error**2 for r in runs]))
    assert 1 / 1.25 < claimed / spread < 1.25
    assert all(r.n_products == 24 for r in runs)


@given(
    n=st.integers(16, 40), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-8, 1.0, 1e8])
)
def test_a_block_function_changes_nothing(n, seed, scale):
    A = np.random.default_rng(seed).standard_normal((n, n)) * scale
    A = A + A.T
    one, block = (
        hutchinson_trace(lambda v: A @ v, n, seed=seed, n_vectors=20, block_matvec=products)
        for products in (None, lambda V: A @ V)
    )
    assert_allclose(one.value, block.value, rtol=1e-8, atol=1e-8 * scale * n)
    assert one.n_products == block.n_products


def test_a_diagonal_matrix_has_no_error():
    d = np.arange(1.0, 50.0)
    got = hutchinson_trace(lambda v: d * v, 49, n_vectors=2)
    assert got.value == d.sum()
    assert got.standard_error == 0.0
    assert got.n_products == 2


def test_tolerance_stops_on_the_standard_error(make_matrix):
    A = make_matrix(decaying())
    got = hutchinson_trace(lambda v: A @ v, 200, n_vectors=5000, tolerance=0.05)
    assert got.standard_error <= 0.05
    assert 100 < got.n_products < 5000
    with_little = hutchinson_trace(lambda v: A @ v, 200, n_vectors=20, tolerance=0.001)
    assert with_little.n_products == 20
    assert with_little.standard_error > 0.001


def test_running_means_that_come_close_do_not_stop_it():
    """Tr = 0, every term +-2: running means move by 2/M, under 1e-3 of anything early on."""
    A = np.array([[0.0, 1.0], [1.0, 0.0]])
    got = hutchinson_trace(lambda v: A @ v, 2, n_vectors=3000, tolerance=0.04)
    assert got.n_products > 2000


def test_vectors_before_a_tolerance_may_stop():
    got = hutchinson_trace(lambda v: v, 3, n_vectors=100, tolerance=1.0)
    assert 10 <= got.n_products <= 16


def test_a_seed_decides_the_answer(make_matrix):
    A = make_matrix(decaying(40))
    a, b, c = (
        hutchinson_trace(lambda v: A @ v, 40, seed=s, n_vectors=12).value for s in (1, 1, 2)
    )
    assert a == b != c


class TestBadInput:
    def test_no_symmetry(self):
        A = np.random.default_rng(0).standard_normal((500, 500))
        with pytest.raises(ValueError, match=r"`matvec` must be a symmetric matrix, .* eval mode"):
            hutchinson_trace(lambda v: A @ v, 500, n_vectors=30)

    def test_float32_rounding_is_not_taken_for_it(self, make_matrix):
        A = make_matrix([*decaying(), -3.0, 1e4]).astype(np.float32)
        found = hutchinson_trace(lambda v: A @ v.astype(np.float32), 202, n_vectors=30)
        assert abs(found.value - np.trace(A)) < 4 * found.standard_error + 1e-5 * 1e4

    def test_nan(self):
        with pytest.raises(ValueError, match=r"finite numbers, but product 1 has nan or inf"):
            hutchinson_trace(lambda v: v * np.nan, 9, n_vectors=6)

    def test_shape(self):
        with pytest.raises(ValueError, match=r"shape it is given, \[9\], got \[8\]"):
            hutchinson_trace(lambda v: v[1:], 9, n_vectors=6)

    @pytest.mark.parametrize("size", [0, -1, 2.5])
    def test_size(self, size):
        with pytest.raises(ValueError, match=r"`size` must be a whole number >= 1"):
            hutchinson_trace(lambda v: v, size, n_vectors=6)

    def test_budget(self):
        with pytest.raises(ValueError, match=r"must be a whole number >= \d, got 1"):
            hutchinson_trace(lambda v: v, 5, n_vectors=1)

    def test_tolerance(self):
        with pytest.raises(ValueError, match="`tolerance` must be a finite number > 0"):
            hutchinson_trace(lambda v: v, 5, n_vectors=3, tolerance=0.0)
