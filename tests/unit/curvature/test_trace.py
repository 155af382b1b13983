import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.curvature import hutchinson_trace, hutchpp_trace, xtrace


def budget(estimator, n):
    return {"n_vectors" if estimator is hutchinson_trace else "n_products": n}


ESTIMATORS = [hutchinson_trace, hutchpp_trace, xtrace]


@pytest.fixture(params=ESTIMATORS, ids=lambda f: f.__name__)
def estimator(request):
    return request.param


def decaying(n=200):
    return 1.0 / np.arange(1, n + 1) ** 2


@pytest.mark.slow
def test_estimates_are_unbiased_and_their_error_is_right(estimator, make_matrix):
    A = make_matrix([*decaying(60), -0.5])
    runs = [estimator(lambda v: A @ v, 61, seed=s, **budget(estimator, 24)) for s in range(400)]
    values = np.array([r.value for r in runs])
    spread = values.std(ddof=1)
    assert abs(values.mean() - np.trace(A)) < 4 * spread / np.sqrt(len(runs))
    claimed = np.sqrt(np.mean([r.standard_error**2 for r in runs]))
    assert 1 / 1.25 < claimed / spread < 1.25
    assert all(r.n_products == 24 for r in runs)


@pytest.mark.slow
@pytest.mark.parametrize("n", [16, 60])
@pytest.mark.parametrize(
    "eigenvalues",
    [
        np.linspace(1, 3, 200),
        1 / np.arange(1.0, 201.0),
        0.93 ** np.arange(200),
        np.r_[np.full(20, 10.0), np.full(180, 0.1)],
        np.linspace(-1, 3, 200),
    ],
    ids=["flat", "slow decay", "fast decay", "step", "indefinite"],
)
def test_the_standard_error_of_xtrace_is_within_a_quarter(eigenvalues, n):
    def block(V):
        return eigenvalues[:, None] * V

    runs = [xtrace(block, 200, n_products=n, seed=s, block_matvec=block) for s in range(300)]
    spread = np.std([r.value for r in runs], ddof=1)
    claimed = np.sqrt(np.mean([r.standard_error**2 for r in runs]))
    assert 0.75 < claimed / spread < 1.3


@pytest.mark.slow
def test_sketches_need_fewer_products_where_few_eigenvalues_stand_out(make_matrix):
    A = make_matrix(decaying())

    def error(estimator):
        runs = [
            estimator(lambda v: A @ v, 200, seed=s, **budget(estimator, 60)) for s in range(40)
        ]
        return np.sqrt(np.mean([(r.value - np.trace(A)) ** 2 for r in runs]))

    assert error(hutchpp_trace) < error(hutchinson_trace) / 4
    assert error(xtrace) < error(hutchpp_trace)


@given(
    n=st.integers(16, 40), seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-8, 1.0, 1e8])
)
def test_a_block_function_changes_nothing(n, seed, scale):
    A = np.random.default_rng(seed).standard_normal((n, n)) * scale
    A = A + A.T
    for estimator in ESTIMATORS:
        one = estimator(lambda v: A @ v, n, seed=seed, **budget(estimator, 20))
        block = estimator(
            lambda v: A @ v, n, seed=seed, block_matvec=lambda V: A @ V, **budget(estimator, 20)
        )
        assert_allclose(one.value, block.value, rtol=1e-8, atol=1e-8 * scale * n)
        assert one.n_products == block.n_products


@given(n=st.integers(1, 12), rank=st.integers(0, 4), seed=st.integers(0, 2**32 - 1))
def test_sketches_are_exact_for_low_rank(n, rank, seed):
    X = np.random.default_rng(seed).standard_normal((n, rank))
    A = X @ X.T
    for estimator in (hutchpp_trace, xtrace):
        got = estimator(lambda v: A @ v, n, n_products=18, seed=seed)
        assert_allclose(got.value, np.trace(A), rtol=1e-9, atol=1e-12)
        assert got.standard_error <= 1e-9 * (1 + np.trace(A))


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


def test_a_seed_decides_the_answer(estimator, make_matrix):
    A = make_matrix(decaying(40))
    a, b, c = (
        estimator(lambda v: A @ v, 40, seed=s, **budget(estimator, 12)).value for s in (1, 1, 2)
    )
    assert a == b != c


class TestBadInput:
    def test_no_symmetry(self, estimator):
        A = np.random.default_rng(0).standard_normal((500, 500))
        with pytest.raises(ValueError, match=r"`matvec` must be a symmetric matrix, .* eval mode"):
            estimator(lambda v: A @ v, 500, **budget(estimator, 30))

    def test_float32_rounding_is_not_taken_for_it(self, estimator, make_matrix):
        A = make_matrix([*decaying(), -3.0, 1e4]).astype(np.float32)
        found = estimator(lambda v: A @ v.astype(np.float32), 202, **budget(estimator, 30))
        assert abs(found.value - np.trace(A)) < 4 * found.standard_error + 1e-5 * 1e4

    def test_nan(self, estimator):
        with pytest.raises(ValueError, match=r"finite numbers, but product 1 has nan or inf"):
            estimator(lambda v: v * np.nan, 9, **budget(estimator, 6))

    def test_shape(self, estimator):
        with pytest.raises(ValueError, match=r"shape it is given, \[9\], got \[8\]"):
            estimator(lambda v: v[1:], 9, **budget(estimator, 6))

    @pytest.mark.parametrize("size", [0, -1, 2.5])
    def test_size(self, estimator, size):
        with pytest.raises(ValueError, match=r"`size` must be a whole number >= 1"):
            estimator(lambda v: v, size, **budget(estimator, 6))

    def test_budget(self, estimator):
        with pytest.raises(ValueError, match=r"must be a whole number >= \d, got 1"):
            estimator(lambda v: v, 5, **budget(estimator, 1))

    def test_tolerance(self):
        with pytest.raises(ValueError, match="`tolerance` must be a finite number > 0"):
            hutchinson_trace(lambda v: v, 5, n_vectors=3, tolerance=0.0)
