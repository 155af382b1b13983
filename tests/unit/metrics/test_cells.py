import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from focalibrate.metrics import Cells, adaptive_ece, ece
from focalibrate.metrics.binning import log_odds_edges

SEEDS = st.integers(0, 2**32 - 1)


def draw(seed: int, n: int, k: int = 3, power: float = 1.0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, power), size=n), rng.integers(k, size=n)


def assert_same(a: Cells, b: Cells) -> None:
    for name in ("sums", "edges"):
        assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-12, atol=1e-12)


BUILDERS = {
    "top label": Cells.of_top_label,
    "classes": Cells.of_classes,
    "labels": lambda p, y, **o: Cells.of_labels(p, np.eye(p.shape[1])[y], **o),
}


@pytest.mark.parametrize("of", BUILDERS.values(), ids=BUILDERS)
@given(n=st.integers(2, 60), pieces=st.integers(2, 5), seed=SEEDS, n_bins=st.integers(1, 30))
def test_merging_in_any_order_equals_concatenating(of, n, pieces, seed, n_bins):
    probs, labels = draw(seed, n)
    rng = np.random.default_rng(seed)
    for weights in (np.ones(n), rng.integers(1, 4, size=n), rng.gamma(1.0, size=n)):
        whole = of(probs, labels, bins=n_bins, sample_weight=weights)
        merged = None
        for at in np.array_split(rng.permutation(n), min(n, pieces)):
            part = of(probs[at], labels[at], bins=n_bins, sample_weight=weights[at])
            merged = part if merged is None else merged + part
        assert_same(merged, whole)
        assert_allclose(merged.ece(), whole.ece(), atol=1e-12)
        assert_allclose(merged.debiased_square(), whole.debiased_square(), atol=1e-12)
    events = max(1, whole.n_events)
    effective = whole.weight.sum() ** 2 / whole.spread.sum()
    assert_allclose(effective, events * weights.sum() ** 2 / (weights**2).sum())


@pytest.mark.parametrize("of", BUILDERS.values(), ids=BUILDERS)
def test_cells_of_different_bins_do_not_merge(of):
    with pytest.raises(ValueError, match=r"same `edges` and events .*10,?\) and \(.*15,?\)"):
        of(*draw(0, 5), bins=10) + of(*draw(0, 5))


def test_confidence_and_correctness_give_the_same_table():
    probs, labels = draw(2, 500)
    table = Cells.of(probs.max(axis=1), probs.argmax(axis=1) == labels)
    assert_same(table, Cells.of_top_label(probs, labels))


def test_means_are_nan_only_where_a_bin_is_empty():
    table = Cells.of_top_label(np.array([[0.9, 0.1], [0.7, 0.3]]), np.array([0, 1]), bins=5)
    assert_allclose(table.confidence, [np.nan, np.nan, np.nan, 0.7, 0.9])
    assert_allclose(table.accuracy, [np.nan, np.nan, np.nan, 0.0, 1.0])
    assert_allclose(table.gap, [np.nan, np.nan, np.nan, 0.7, -0.1])


def test_given_edges_replace_equal_widths():
    table = Cells.of_top_label(
        np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 0]), bins=[0.0, 0.6, 1.0]
    )
    assert_array_equal(table.weight, [1, 1])


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
        Cells.of_top_label(probs, labels, bins=edges)


@pytest.mark.parametrize(
    ("confidence", "correct", "message"),
    [
        (np.array([1.5]), np.array([1]), r"`confidence` must lie in \[0, 1\], but row 0 has 1.5"),
        (np.array([np.nan]), np.array([1]), r"`confidence` must lie in \[0, 1\]"),
        (np.array([0.5]), np.array([1, 0]), r"same length, got 1 and 2"),
        (np.array([0.5]), np.array([2]), r"`correct` must lie in \[0, 1\]"),
        (np.array([0.5]), [1, 1], r"same length, got 1 and 2"),
        (np.array([]), np.array([]), r"one number per row, got shape \(0,\)"),
    ],
)
def test_bad_confidence_is_refused(confidence, correct, message):
    with pytest.raises(ValueError, match=message):
        Cells.of(confidence, correct)


@given(n=st.integers(1, 300), seed=SEEDS, n_bins=st.integers(1, 20), levels=st.integers(1, 40))
def test_equal_mass_of_cells_that_hold_one_confidence_is_exact(n, seed, n_bins, levels):
    rng = np.random.default_rng(seed)
    top = 0.5 + rng.integers(levels, size=n) / (2 * levels)
    probs, labels = np.stack([top, 1 - top], axis=1), rng.integers(2, size=n)
    edges = np.concatenate([[0.0], np.linspace(0.5, 1, 2 * levels + 1)])
    table = Cells.of_top_label(probs, labels, bins=edges).equal_mass(n_bins)
    assert_allclose(table.ece(), adaptive_ece(probs, labels, n_bins=n_bins), atol=1e-12)


@given(seed=SEEDS, n=st.integers(50, 3000), n_cells=st.integers(4, 200))
def test_equal_mass_of_cells_is_within_its_bound(seed, n, n_cells):
    probs, labels = draw(seed, n, 4, 0.3)
    edges = log_odds_edges(n_cells)
    cells = Cells.of_top_label(probs, labels, bins=edges)
    got = cells.equal_mass(15).ece()
    ends = np.cumsum(cells.weight)
    cuts = np.cumsum([len(part) for part in np.array_split(np.arange(n), 15)])[:-1]
    cut = np.unique(np.searchsorted(ends, cuts))
    bound = np.sum(cells.weight[cut] * (1 + np.diff(edges)[cut])) / (2 * n)
    assert abs(got - adaptive_ece(probs, labels)) <= bound + 1e-12


def test_streamed_adaptive_ece_is_close_for_a_saturated_model():
    rng = np.random.default_rng(5)
    margin = rng.normal(6, 3, size=20_000)
    p = 1 / (1 + np.exp(-margin))
    probs, labels = np.stack([p, 1 - p], axis=1), (rng.random(20_000) > p**1.2).astype(int)
    parts = [
        Cells.of_top_label(a, b, bins=log_odds_edges())
        for a, b in zip(np.array_split(probs, 9), np.array_split(labels, 9), strict=True)
    ]
    table = sum(parts[1:], start=parts[0])
    assert table.equal_mass(15).n == 20_000
    assert abs(table.equal_mass(15).ece() - adaptive_ece(probs, labels)) < 1e-4


def test_a_probability_of_a_class_and_bins_closed_on_the_left():
    p, y = np.array([0.2, 0.4, 0.4, 0.9]), np.array([0, 1, 0, 1])
    want = Cells.of(p, y, bins=5).ece()
    assert ece(p, y, n_bins=5, binary=True, event=1) == want
    left = Cells.of(p, y, bins=5, closed="left")
    assert_array_equal(left.weight, [0, 1, 2, 0, 1])
    assert_array_equal(Cells.of(p, y, bins=5).weight, [1, 2, 0, 0, 1])
    assert_array_equal(Cells.of(np.array([0.0, 1.0]), y[:2], closed="left").weight[[0, -1]], 1)
    with pytest.raises(ValueError, match=r'must be "top label" or a class below 2, got 2'):
        ece(p, y, binary=True, event=2)


def test_outcomes_may_be_shares():
    cells = Cells.of(np.array([0.3, 0.8]), np.array([0.5, 1.0]), bins=1)
    assert_allclose([cells.outcome[0], cells.hits[0], cells.ece()], [1.5, 0.95, 0.2])
    with pytest.raises(ValueError, match=r"`correct` must lie in \[0, 1\], but row 0"):
        Cells.of(np.array([0.3]), np.array([1.5]))


@given(
    n=st.integers(1, 80), n_bins=st.integers(1, 20), digits=st.sampled_from([1, 2, 15]), seed=SEEDS
)
def test_equal_mass_of_rows_is_that_of_their_distinct_cells(n, n_bins, digits, seed):
    rng = np.random.default_rng(seed)
    c = np.round(rng.uniform(size=n), digits)  # few digits: many ties
    y = rng.random(n) < c
    order = rng.permutation(n)
    want = Cells.of_distinct(c, y).equal_mass(n_bins)
    for found in (
        Cells.of_equal_mass(c, y, n_bins),
        Cells.of_equal_mass(c[order], y[order], n_bins),
        Cells.of_equal_mass(c, y, n_bins, np.full(n, 1.0)),
    ):
        assert_allclose(found.sums, want.sums, atol=1e-12)
