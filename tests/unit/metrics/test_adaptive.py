import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.metrics import Cells, adaptive_ece, debiased_ece, ece

SEEDS = st.integers(0, 2**32 - 1)


def draw(seed: int, n: int):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(3), size=n), rng.integers(3, size=n)


@given(seed=SEEDS, n=st.integers(1, 100), n_bins=st.integers(1, 30))
def test_without_ties_the_bins_are_those_of_array_split(seed, n, n_bins):
    probs, labels = draw(seed, n)
    top, hit = probs.max(axis=1), probs.argmax(axis=1) == labels
    parts = np.array_split(np.argsort(top), n_bins)
    want = sum(abs(top[part].sum() - hit[part].sum()) for part in parts) / n
    assert_allclose(adaptive_ece(probs, labels, n_bins=n_bins), want, atol=1e-12)


def test_ties_count_with_their_mean_correctness():
    probs = np.tile([0.8, 0.2], (6, 1))
    labels = np.array([0, 0, 0, 1, 1, 1])  # sorted so that naive bins see 1, 0.5, 0
    assert adaptive_ece(probs, labels, n_bins=3) == pytest.approx(0.3)


def test_more_bins_than_rows():
    probs, labels = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1])
    assert adaptive_ece(probs, labels, n_bins=15) == pytest.approx((0.1 + 0.6) / 2)


def test_distinct_table_has_one_cell_per_confidence():
    table = Cells.of_distinct(np.array([0.5, 0.9, 0.5, 0.0]), np.array([True, True, False, False]))
    assert_array_equal(table.weight, [1, 2, 1])
    assert_allclose(table.probability, [0.0, 1.0, 0.9])
    assert_array_equal(table.outcome, [0, 1, 1])


def test_equal_mass_edges_bound_their_bins():
    probs, labels = draw(1, 300)
    top = probs.max(axis=1)
    table = Cells.of_distinct(top, probs.argmax(axis=1) == labels).equal_mass(7)
    assert_array_equal(np.histogram(top, np.nextafter(table.edges, 2))[0], table.weight)


@pytest.mark.slow
@pytest.mark.parametrize("bins", ["equal-mass", "equal-width"])
def test_debiased_square_is_unbiased(bins):
    rng = np.random.default_rng(0)
    top = np.repeat([0.55, 0.65, 0.75, 0.85], 10)
    truth = top - np.repeat([0.3, 0.25, 0.3, 0.35], 10)
    probs = np.stack([top, 1 - top], axis=1)
    squares, plain = [], []
    for _ in range(600):
        labels = (rng.random(40) > truth).astype(int)
        squares.append(debiased_ece(probs, labels, n_bins=4, bins=bins) ** 2)
        plain.append(ece(probs, labels, n_bins=4, norm="l2") ** 2)
    want = np.mean((top - truth) ** 2)
    noise = np.std(squares) / np.sqrt(600)
    assert abs(np.mean(squares) - want) < 4 * noise
    assert np.mean(plain) - want > 4 * noise


def test_single_rows_add_nothing_to_the_debiased_error():
    probs, labels = draw(2, 5)
    assert debiased_ece(probs, labels, n_bins=15) == 0.0


def test_unknown_bins_are_refused():
    with pytest.raises(ValueError, match=r"`bins` must be one of equal-mass, equal-width; got"):
        debiased_ece(*draw(0, 5), bins="kmeans")
