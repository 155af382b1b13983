import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.metrics import Cells, multilabel_ece


@pytest.fixture
def example():
    rng = np.random.default_rng(0)
    probs = rng.beta(0.6, 1.5, size=(400, 5))
    labels = (rng.random((400, 5)) < probs**1.5).astype(int)
    return probs, labels


def test_each_label_is_the_error_of_its_column(example):
    probs, labels = example
    table = Cells.of_labels(probs, labels)
    columns = [Cells.of(probs[:, c], labels[:, c]).ece() for c in range(5)]
    assert_allclose(table.ece(), columns, rtol=1e-12)
    assert_allclose(multilabel_ece(probs, labels), np.mean(columns), rtol=1e-12)
    pooled = Cells.of(probs.ravel(), labels.ravel()).ece()
    assert_allclose(multilabel_ece(probs, labels, average="micro"), pooled, rtol=1e-12)
    assert_allclose(table[2].ece(), columns[2], rtol=1e-12)


def test_unknown_labels_do_not_count(example):
    probs, labels = example
    known = np.ones((400, 5))
    known[100:, 2] = 0
    known[:, 4] = 0
    table = Cells.of_labels(probs, labels, sample_weight=known)
    few = Cells.of(probs[:100, 2], labels[:100, 2])
    assert_allclose(table.ece()[2], few.ece(), rtol=1e-12)
    assert np.isnan(table.ece()[4])
    assert_allclose(
        multilabel_ece(probs, labels, sample_weight=known), table.ece()[:4].mean(), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("probs", "labels", "options", "message"),
    [
        (
            np.ones((2, 3)),
            np.zeros(2),
            {},
            r"must both have shape \[N, C\], got \[2, 3\] and \[2\]",
        ),
        (np.ones((2, 3)), np.full((2, 3), 2), {}, r"`labels` must be 0 or 1"),
        (np.full((2, 3), 1.5), np.zeros((2, 3)), {}, r"`probs` must lie in \[0, 1\]"),
        (np.ones((2, 3)), np.zeros((2, 3)), {"average": "mean"}, r"one of macro, micro"),
        (
            np.ones((2, 3)),
            np.zeros((2, 3)),
            {"sample_weight": np.ones(3)},
            r"must be \[N\] or \[N, C\]",
        ),
    ],
)
def test_bad_input_is_named(probs, labels, options, message):
    with pytest.raises(ValueError, match=message):
        multilabel_ece(probs, labels, **options)
    one, other = (Cells.of_labels(np.ones((2, c)), np.ones((2, c))) for c in (2, 3))
    with pytest.raises(ValueError, match="same `edges` and events"):
        _ = one + other


def test_lists_and_data_frames_are_taken(example):
    pd = pytest.importorskip("pandas")
    probs, labels = example
    want = multilabel_ece(probs, labels)
    assert multilabel_ece(probs.tolist(), labels.tolist()) == want
    assert multilabel_ece(pd.DataFrame(probs), pd.DataFrame(labels)) == want
