"""Rows that belong together: no fold splits them, and they are the units of the intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.calibrate.rows import Rows, random_folds
from focalibrate.comparison import choose, compare_methods

OPTIONS = {"methods": ["identity", "temperature"], "n_resamples": 200}


def data(n_clusters=80, size=5):
    """Overconfident logits with the same label in each cluster."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(n_clusters, 3))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    logits = 2 * np.repeat(truth, size, axis=0) + 0.1 * rng.normal(size=(n_clusters * size, 3))
    return logits, np.repeat(labels, size), np.repeat(np.arange(n_clusters), size)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 12), min_size=5, max_size=60),
    st.integers(2, 5),
    st.integers(0, 2**16),
)
def test_no_fold_splits_a_cluster(sizes, n_folds, seed):
    rng = np.random.default_rng(seed)
    cluster = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    n = len(cluster)
    rows = Rows(rng.normal(size=(n, 3)), rng.integers(3, size=n))
    folds = random_folds(rows, n_folds, seed, cluster)
    assert sorted(np.concatenate(folds).tolist()) == list(range(n))
    held = [set(cluster[fold].tolist()) for fold in folds]
    assert sum(len(one) for one in held) == len(sizes)


def test_folds_are_of_similar_size():
    logits, labels, cluster = data()
    folds = random_folds(Rows(logits, labels), 5, 0, cluster)
    assert [len(fold) for fold in folds] == [80] * 5


def test_the_order_of_the_rows_within_clusters_changes_nothing():
    logits, labels, cluster = data()
    rng = np.random.default_rng(1)
    order = np.concatenate([rng.permutation(np.arange(5 * g, 5 * g + 5)) for g in range(80)])
    one = compare_methods(logits, labels, cluster=cluster, **OPTIONS)
    two = compare_methods(logits[order], labels[order], cluster=cluster[order], **OPTIONS)
    for a, b in zip(one.rows, two.rows, strict=True):
        x, y = a.scores["nll"], b.scores["nll"]
        assert_allclose([x.estimate, x.low, x.high], [y.estimate, y.low, y.high], rtol=1e-6)
    assert choose(one).row.method == choose(two).row.method
    assert (one.fold_of_row[order] == two.fold_of_row).all()


def test_intervals_are_those_of_clusters():
    logits, labels, cluster = data()
    rows = compare_methods(logits, labels, **OPTIONS).row("identity").scores["nll"]
    found = (
        compare_methods(logits, labels, cluster=cluster, **OPTIONS).row("identity").scores["nll"]
    )
    assert_allclose(found.estimate, rows.estimate)
    ratio = (found.high - found.low) / (rows.high - rows.low)
    assert 1.8 < ratio < 2.7  # the root of 5 equal rows is 2.24


def test_the_choice_counts_clusters():
    logits, labels, cluster = data(n_clusters=20, size=20)
    found = compare_methods(logits / 1.7, labels, cluster=cluster, **OPTIONS)
    assert choose(found).row.method == "identity"


def test_bad_clusters_are_named():
    logits, labels, cluster = data()
    with pytest.raises(ValueError, match="cluster of each of 400 rows, got 399"):
        compare_methods(logits, labels, cluster=cluster[1:], **OPTIONS)
    with pytest.raises(ValueError, match="at least 5 clusters to cross-validate, got 2"):
        compare_methods(logits, labels, cluster=cluster % 2, **OPTIONS)
