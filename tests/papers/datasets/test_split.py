import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from focalibrate_papers.datasets._split import (
    check_fraction,
    split_sizes,
    stratified_order,
    thinned,
)

LABELS = st.lists(st.integers(0, 3), min_size=1, max_size=80).map(np.array)


@given(labels=LABELS, seed=st.integers(0, 2**32 - 1), share=st.floats(0, 1))
def test_every_prefix_has_the_shares_of_the_classes(labels, seed, share):
    order = stratified_order(labels, seed=seed)
    assert sorted(order.tolist()) == list(range(len(labels)))
    prefix = labels[order[: round(share * len(labels))]]
    for k in np.unique(labels):
        # Each class keeps within one row of its share of the prefix, and the prefix rounds.
        expected = len(prefix) * np.mean(labels == k)
        assert abs(np.sum(prefix == k) - expected) <= 2


def test_equal_classes_are_divided_equally():
    labels = np.repeat(np.arange(10), 50)
    train, held_out = split_sizes(labels, [450, 50], seed=0)
    assert np.bincount(labels[train]).tolist() == [45] * 10
    assert np.bincount(labels[held_out]).tolist() == [5] * 10
    assert not set(train.tolist()) & set(held_out.tolist())
    assert (np.diff(train) > 0).all()


def test_a_lone_example_trains():
    labels = np.array([0] * 99 + [1])
    for seed in range(20):
        train, _, _ = split_sizes(labels, [60, 20, 20], seed=seed)
        assert 99 in train


def test_the_seed_decides():
    labels = np.repeat([0, 1], 50)
    one, again, other = (split_sizes(labels, [80, 20], seed=s)[1].tolist() for s in (1, 1, 2))
    assert one == again != other


@given(labels=LABELS, small=st.floats(0.01, 1), large=st.floats(0.01, 1))
def test_smaller_fractions_are_parts_of_larger_ones(labels, small, large):
    small, large = sorted((small, large))
    few, many = (thinned(labels, fraction=f, seed=3) for f in (small, large))
    assert set(few.tolist()) <= set(many.tolist())
    assert len(few) >= 1


@pytest.mark.parametrize("fraction", [0, -0.1, 1.5, float("nan")])
def test_a_fraction_must_be_one(fraction):
    with pytest.raises(ValueError, match=r"`fraction` must be in \(0, 1\], got"):
        check_fraction(fraction)
