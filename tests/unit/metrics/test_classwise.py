import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.metrics import Cells, classwise_ece

SEEDS = st.integers(0, 2**32 - 1)
NAMES = ("weight", "probability", "outcome")


def draw(seed: int, n: int, k: int, power: float = 0.5):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, power), size=n), rng.integers(k, size=n)


def by_loops(probs, labels, n_bins):
    n, k = probs.shape
    out = np.zeros((3, k, n_bins))
    for i in range(n):
        for c in range(k):
            b = sum(float(probs[i, c]) > j / n_bins for j in range(1, n_bins))
            out[:, c, b] += [1, float(probs[i, c]), labels[i] == c]
    return out


@given(seed=SEEDS, n=st.integers(1, 20), k=st.integers(2, 6), n_bins=st.integers(1, 20))
def test_table_equals_plain_loops(seed, n, k, n_bins):
    probs, labels = draw(seed, n, k)
    table = Cells.of_classes(probs, labels, bins=n_bins)
    for name, want in zip(NAMES, by_loops(probs, labels, n_bins), strict=True):
        assert_allclose(getattr(table, name), want, atol=1e-12)


@pytest.mark.parametrize("n_bins", [3, 5, 10, 15, 100])
def test_float32_entries_on_the_first_edge(n_bins):
    edge = np.float32(1 / n_bins)
    p = np.array([edge, np.nextafter(edge, np.float32(0)), np.nextafter(edge, np.float32(1))])
    probs, labels = np.stack([p, 1 - p], axis=1), np.array([0, 1, 0])
    table = Cells.of_classes(probs, labels, bins=n_bins)
    assert_array_equal(table.weight, by_loops(probs, labels, n_bins)[0])


def test_classes_are_columns_even_if_no_label_has_them():
    probs, labels = draw(1, 50, 6)
    table = Cells.of_classes(probs, labels % 2)
    assert table.n_events == 6
    assert_array_equal(table.edges, np.arange(16) / 15)
    assert classwise_ece(probs, labels % 2) == pytest.approx(table.ece().mean())


def test_many_chunks_of_many_classes():
    probs, labels = draw(2, 700, 300, 0.05)
    table = Cells.of_classes(probs.astype(np.float32), labels)
    assert_allclose(table.probability.sum(axis=1), probs.sum(axis=0), rtol=1e-6)
    assert_array_equal(table.weight.sum(axis=1), np.full(300, 700))
    assert_array_equal(table.outcome.sum(axis=1), np.bincount(labels, minlength=300))


def test_columns_in_fortran_order_give_the_same():
    probs, labels = draw(3, 100, 5)
    assert classwise_ece(np.asfortranarray(probs), labels) == pytest.approx(
        classwise_ece(probs, labels), abs=1e-15
    )


def test_the_debiased_norm_is_near_0_for_calibrated_probabilities():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=4000)
    labels = (probs.cumsum(axis=1) > rng.random((4000, 1))).argmax(axis=1)
    plain, debiased = (classwise_ece(probs, labels, norm=norm) for norm in ("l2", "debiased"))
    assert debiased < 0.7 * plain
    each = [Cells.of(probs[:, k], labels == k).debiased_square() for k in range(4)]
    assert debiased == pytest.approx(np.sqrt(max(0.0, np.mean(each))))
