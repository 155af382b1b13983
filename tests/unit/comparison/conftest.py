import numpy as np
import pytest

from focalibrate.comparison import compare_methods


def problem(n, *, scale, seed=0, n_classes=4):
    """Logits that are `scale` times too large, and labels."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, n_classes)) * 2
    return scale * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.fixture(scope="session")
def make_problem():
    return problem


@pytest.fixture(scope="session")
def overconfident():
    return problem(1200, scale=2.5)


@pytest.fixture(scope="session")
def cured(overconfident):
    """A comparison of an overconfident model."""
    return compare_methods(*overconfident, methods=["temperature", "vector"], n_resamples=100)


@pytest.fixture(scope="session")
def calibrated():
    """A comparison of a calibrated model."""
    return compare_methods(
        *problem(800, scale=1.0), methods=["temperature", "vector"], n_resamples=100
    )
