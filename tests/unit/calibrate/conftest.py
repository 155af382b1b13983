"""Rows like those of a trained network, of any size."""

import numpy as np
import pytest


def make_rows(n, k, *, scale=1.8, seed=0, dtype=np.float32):
    """Gaussian logits with the true class lifted by a random amount, then over-confident."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((n, k))
    labels = rng.integers(k, size=n)
    logits[np.arange(n), labels] += rng.uniform(0, 2 * np.log(k) + 2, n)
    return (scale * logits).astype(dtype), labels


@pytest.fixture(scope="session")
def rows_of():
    return make_rows
