"""Matrices with a known spectrum."""

import numpy as np
import pytest


def with_spectrum(eigenvalues, seed=0):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((len(eigenvalues), len(eigenvalues))))
    return Q @ np.diag(np.asarray(eigenvalues, float)) @ Q.T


@pytest.fixture
def make_matrix():
    return with_spectrum
