import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate.focal_rows import IMPOSSIBLE, N_ATOMS, N_CELLS, N_EXACT, row_atoms


def atoms_with_weights(logits):
    gaps, tail = row_atoms(logits)
    return gaps, np.concatenate([np.ones((len(gaps), N_EXACT)), tail], axis=1)


@pytest.mark.parametrize("k", [60, 100, 1000])
@pytest.mark.parametrize("kind", ["gauss", "uniform", "ties", "constant", "two levels"])
def test_moments_up_to_the_third_are_kept(k, kind):
    rng = np.random.default_rng(0)
    z = rng.standard_normal((7, k))
    if kind == "uniform":
        z = rng.uniform(-10, 0, (7, k))
    if kind == "ties":
        z = np.round(2 * z)
    if kind == "constant":
        z[:] = 3.0
    if kind == "two levels":
        z = (z > 1).astype(float)
    gaps, weights = atoms_with_weights(z)
    assert gaps.shape == (7, N_ATOMS)
    exact = z.max(axis=1, keepdims=True) - z
    seen = np.where(weights > 0, gaps, 0.0)
    for power in range(4):
        got = (weights * seen**power).sum(axis=1)
        assert_allclose(got, (exact**power).sum(axis=1), rtol=1e-9, atol=1e-9)


def test_the_largest_logits_are_kept_as_they_are():
    z = np.random.default_rng(1).standard_normal((5, 200))
    gaps, _ = atoms_with_weights(z)
    ordered = np.sort(z, axis=1)[:, ::-1]
    assert_allclose(gaps[:, :N_EXACT], ordered[:, :1] - ordered[:, :N_EXACT], atol=1e-14)


@pytest.mark.parametrize("n_possible", [1, 2, N_EXACT, N_EXACT + 1, N_EXACT + 2, 50, 199])
def test_impossible_classes_have_no_weight(n_possible):
    z = np.random.default_rng(2).standard_normal((4, 200))
    masked = z.copy()
    masked[:, n_possible:] = -np.inf
    gaps, weights = atoms_with_weights(masked)
    possible = gaps < IMPOSSIBLE
    assert_allclose((weights * possible).sum(axis=1), n_possible, rtol=1e-12)
    exact = masked.max(axis=1, keepdims=True) - masked
    want = np.exp(-np.where(np.isfinite(exact), exact, 1e9)).sum(axis=1)
    assert_allclose((weights * np.exp(-gaps)).sum(axis=1), want, rtol=1e-6)


def test_a_mask_in_one_row_does_not_touch_its_neighbours():
    z = np.random.default_rng(3).standard_normal((3, 300))
    masked = z.copy()
    masked[1, 5:280] = -np.inf
    before, after = row_atoms(z), row_atoms(masked)
    for x, y in zip(before, after, strict=True):
        assert_allclose(x[[0, 2]], y[[0, 2]], rtol=1e-12)


def test_float16_is_computed_in_float32():
    z = np.random.default_rng(4).standard_normal((3, 300)).astype(np.float16)
    places, weights = row_atoms(z)
    assert places.shape == (3, N_ATOMS)
    assert weights.shape == (3, 2 * N_CELLS)
    assert np.isfinite(places).all()
