import numpy as np
import pytest
from numpy.testing import assert_array_equal

from focalibrate.metrics.rows import COLUMN_LOOP_MAX, read_rows, top_label

SIZES = [2, 10, COLUMN_LOOP_MAX, COLUMN_LOOP_MAX + 1, 100]


def test_a_float32_matrix_is_not_copied():
    probs = np.full((4, 2), 0.5, dtype=np.float32)
    assert np.shares_memory(read_rows(probs), probs)


def test_binary_scores_lose_nothing_to_float32():
    p = np.array([0.1], dtype=np.float32)
    assert float(read_rows(p, binary=True)[0, 0]) == 1.0 - float(p[0])


@pytest.mark.parametrize("n_classes", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_top_label_is_max_and_first_argmax(n_classes, dtype):
    rng = np.random.default_rng(n_classes)
    rows = rng.integers(1, 5, size=(9000, n_classes)).astype(dtype)  # ties everywhere
    rows[:100] = rng.random((100, n_classes))  # and nowhere
    labels = rng.integers(n_classes, size=9000)
    confidence, correct = top_label(rows, labels)
    assert_array_equal(confidence, rows.max(axis=1))
    assert_array_equal(correct, rows.argmax(axis=1) == labels)
