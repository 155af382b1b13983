import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.metrics import ReliabilityTable, adaptive_ece, ece, log_odds_edges

SEEDS = st.integers(0, 2**32 - 1)


def draw(seed: int, n: int, k: int = 3, power: float = 1.0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, power), size=n), rng.integers(k, size=n)


def assert_same(a: ReliabilityTable, b: ReliabilityTable) -> None:
    for name in ("count", "confidence_sum", "correct_sum", "edges"):
        assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12, atol=1e-12)


@given(n=st.integers(2, 60), cut=st.floats(0, 1), seed=SEEDS, n_bins=st.integers(1, 30))
def test_merging_equals_concatenating(n, cut, seed, n_bins):
    probs, labels = draw(seed, n)
    k = 1 + int(cut * (n - 2))
    first = ReliabilityTable.of(probs[:k], labels[:k], n_bins=n_bins)
    second = ReliabilityTable.of(probs[k:], labels[k:], n_bins=n_bins)
    whole = ReliabilityTable.of(probs, labels, n_bins=n_bins)
    assert_same(first + second, whole)
    assert_same(second + first, whole)
    assert_allclose((first + second).ece(), ece(probs, labels, n_bins=n_bins), atol=1e-12)


def test_streaming_in_any_chunk_order_equals_one_shot():
    probs, labels = draw(1, 10_000, 10, 0.3)
    chunks = np.array_split(np.random.default_rng(0).permutation(10_000), 37)
    table = ReliabilityTable.of(probs[chunks[0]], labels[chunks[0]])
    for chunk in chunks[1:]:
        table = table + ReliabilityTable.of(probs[chunk], labels[chunk])
    assert table.n == 10_000
    assert_same(table, ReliabilityTable.of(probs, labels))


def test_confidence_and_correctness_give_the_same_table():
    probs, labels = draw(2, 500)
    table = ReliabilityTable.of_confidence(probs.max(axis=1), probs.argmax(axis=1) == labels)
    assert_same(table, ReliabilityTable.of(probs, labels))


def test_confidence_of_every_library(xp):
    confidence = xp.asarray([0.2, 0.9], dtype=xp.float64)
    table = ReliabilityTable.of_confidence(confidence, xp.asarray([0, 1]), n_bins=2)
    assert_array_equal(table.count, [1, 1])
    assert_array_equal(table.correct_sum, [0, 1])


def test_means_are_nan_only_where_a_bin_is_empty():
    table = ReliabilityTable.of(np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([0, 1]), n_bins=5)
    assert_allclose(table.confidence, [np.nan, np.nan, np.nan, 0.7, 0.9])
    assert_allclose(table.accuracy, [np.nan, np.nan, np.nan, 0.0, 1.0])
    assert_allclose(table.gap, [np.nan, np.nan, np.nan, 0.7, -0.1])


def test_given_edges_replace_equal_widths():
    table = ReliabilityTable.of(
        np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 0]), edges=[0.0, 0.6, 1.0]
    )
    assert_array_equal(table.count, [1, 1])


def test_a_table_is_frozen():
    table = ReliabilityTable.of(np.array([[0.9, 0.1]]), np.array([0]))
    with pytest.raises(AttributeError, match="cannot assign"):
        table.count = np.zeros(15)


def test_tables_of_different_bins_do_not_merge():
    probs, labels = draw(0, 5)
    with pytest.raises(ValueError, match=r"same `edges` to be merged, got 10 and 15 bins"):
        _ = ReliabilityTable.of(probs, labels, n_bins=10) + ReliabilityTable.of(probs, labels)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([0.0, 0.6, 0.5, 1.0], r"`edges` must be non-decreasing from 0 to 1, got \[0.0, 0.6"),
        ([0.1, 1.0], r"`edges` must be non-decreasing .* Put 0 first and 1 last"),
        ([0.0], r"`edges` must be a list of at least two numbers, got shape \(1,\)"),
    ],
)
def test_bad_edges_are_refused(edges, message):
    probs, labels = draw(0, 5)
    with pytest.raises(ValueError, match=message):
        ReliabilityTable.of(probs, labels, edges=edges)


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        (np.array([1.5]), np.array([1]), r"`confidence` must lie in \[0, 1\], found \[1.5, 1.5\]"),
        (np.array([np.nan]), np.array([1]), r"`confidence` must lie in \[0, 1\]"),
        (np.array([0.5]), np.array([1, 0]), r"`correct` must have shape \(1,\) .* got \(2,\)"),
        (np.array([0.5]), np.array([2]), r"`correct` must hold only 0 and 1"),
        (np.array([0.5]), [1], r"`correct` must have shape \(1,\) .* got list"),
        (np.array([]), np.array([]), r"`confidence` must not be empty"),
    ],
)
def test_bad_confidence_is_refused(confidence, correct, message):
    with pytest.raises(ValueError, match=message):
        ReliabilityTable.of_confidence(confidence, correct)


@given(n=st.integers(1, 300), seed=SEEDS, n_bins=st.integers(1, 20), levels=st.integers(1, 40))
def test_equal_mass_of_cells_that_hold_one_confidence_is_exact(n, seed, n_bins, levels):
    rng = np.random.default_rng(seed)
    top = 0.5 + rng.integers(levels, size=n) / (2 * levels)
    probs, labels = np.stack([top, 1 - top], axis=1), rng.integers(2, size=n)
    edges = np.concatenate([[0.0], np.linspace(0.5, 1, 2 * levels + 1)])
    table = ReliabilityTable.of(probs, labels, edges=edges).equal_mass(n_bins)
    assert_allclose(table.ece(), adaptive_ece(probs, labels, n_bins=n_bins), atol=1e-12)


@given(seed=SEEDS, n=st.integers(50, 3000), n_cells=st.integers(4, 200))
def test_equal_mass_of_cells_is_within_its_bound(seed, n, n_cells):
    probs, labels = draw(seed, n, 4, 0.3)
    edges = log_odds_edges(n_cells)
    cells = ReliabilityTable.of(probs, labels, edges=edges)
    got = cells.equal_mass(15).ece()
    ends = np.cumsum(cells.count)
    cuts = np.cumsum([len(part) for part in np.array_split(np.arange(n), 15)])[:-1]
    cut = np.unique(np.searchsorted(ends, cuts))
    bound = np.sum(cells.count[cut] * (1 + np.diff(edges)[cut])) / (2 * n)
    assert abs(got - adaptive_ece(probs, labels)) <= bound + 1e-12


def test_streamed_adaptive_ece_is_close_for_a_saturated_model():
    rng = np.random.default_rng(5)
    margin = rng.normal(6, 3, size=20_000)
    p = 1 / (1 + np.exp(-margin))
    probs, labels = np.stack([p, 1 - p], axis=1), (rng.random(20_000) > p**1.2).astype(int)
    parts = [
        ReliabilityTable.of(a, b, edges=log_odds_edges())
        for a, b in zip(np.array_split(probs, 9), np.array_split(labels, 9), strict=True)
    ]
    table = sum(parts[1:], start=parts[0])
    assert table.equal_mass(15).n == 20_000
    assert abs(table.equal_mass(15).ece() - adaptive_ece(probs, labels)) < 1e-4
