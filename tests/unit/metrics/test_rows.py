from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from focalibrate.metrics.rows import COLUMN_LOOP_MAX, read, read_rows, row_chunks, top_label

SIZES = [2, 10, COLUMN_LOOP_MAX, COLUMN_LOOP_MAX + 1, 100]


def test_every_library_gives_the_same_rows(xp):
    probs = xp.asarray([[0.25, 0.75], [0.5, 0.5]], dtype=xp.float64)
    rows, labels = read(probs, xp.asarray([1, 0]))
    assert_array_equal(rows, [[0.25, 0.75], [0.5, 0.5]])
    assert_array_equal(labels, [1, 0])


def test_leading_axes_are_flattened():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3))
    rows, labels = read(probs, np.arange(6).reshape(2, 3) % 4)
    assert_array_equal(rows, probs.reshape(6, 4))
    assert_array_equal(labels, [0, 1, 2, 3, 0, 1])


def test_a_float32_matrix_is_not_copied():
    probs = np.full((4, 2), 0.5, dtype=np.float32)
    assert np.shares_memory(read_rows(probs), probs)


@pytest.mark.parametrize(
    "half",
    [
        np.array([[0.25, 0.75]], dtype=np.float16),
        torch.tensor([[0.25, 0.75]], dtype=torch.bfloat16),
        torch.tensor([[0.25, 0.75]], dtype=torch.float16, requires_grad=True),
    ],
    ids=["float16", "torch bfloat16", "torch float16 with gradient"],
)
def test_half_precision_becomes_float32(half):
    rows = read_rows(half)
    assert rows.dtype == np.float32
    assert_array_equal(rows, [[0.25, 0.75]])


@pytest.mark.slow
def test_half_precision_of_jax_becomes_float32(jax):
    test_half_precision_becomes_float32(jax.numpy.asarray([[0.25, 0.75]], jax.numpy.bfloat16))


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


@given(n=st.integers(0, 200_000), k=st.integers(1, 70_000))
def test_chunks_cover_every_row_once(n, k):
    parts = list(row_chunks(n, k))
    assert sum(part.stop - part.start for part in parts) == n
    assert all(a.stop == b.start for a, b in pairwise(parts))
