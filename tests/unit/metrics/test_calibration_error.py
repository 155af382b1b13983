import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.metrics import (
    adaptive_ece,
    brier_score,
    classwise_ece,
    debiased_ece,
    ece,
    error_rate,
    mce,
    nll,
    smooth_ece,
)

SEEDS = st.integers(0, 2**32 - 1)
TOP_LABEL = [ece, mce, adaptive_ece, debiased_ece, smooth_ece]
ALL = [*TOP_LABEL, classwise_ece]
SCORES = [nll, brier_score, error_rate]


def draw(seed: int, n: int, k: int = 4):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k), size=n), rng.integers(k, size=n)


@pytest.mark.parametrize("metric", ALL)
@given(seed=SEEDS, n=st.integers(1, 80))
def test_bounds(metric, seed, n):
    assert 0.0 <= metric(*draw(seed, n)) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize("metric", ALL)
@given(seed=SEEDS, n=st.integers(1, 80), levels=st.integers(1, 12))
def test_row_order_does_not_matter(metric, seed, n, levels):
    probs, labels = draw(seed, n)
    probs = np.ceil(probs * levels)
    probs /= probs.sum(axis=1, keepdims=True)  # many equal confidences
    order = np.random.default_rng(seed).permutation(n)
    assert_allclose(metric(probs[order], labels[order]), metric(probs, labels), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ALL)
@given(seed=SEEDS, n=st.integers(1, 80))
def test_renaming_the_classes_does_not_matter(metric, seed, n):
    probs, labels = draw(seed, n)
    name = np.random.default_rng(seed).permutation(4)
    renamed = np.empty_like(probs)
    renamed[:, name] = probs
    assert_allclose(metric(renamed, name[labels]), metric(probs, labels), atol=1e-12)


@pytest.mark.parametrize("metric", ALL + SCORES)
def test_every_library_gives_the_same_float(metric, xp):
    probs, labels = draw(3, 200)
    got = metric(xp.asarray(probs), xp.asarray(labels))
    assert type(got) is float
    assert got == metric(probs, labels)


@pytest.mark.parametrize("metric", ALL)
def test_float32_is_used_at_its_exact_value(metric):
    probs, labels = draw(4, 3000)
    single = probs.astype(np.float32)
    assert metric(single, labels) == pytest.approx(metric(single.astype(float), labels), abs=1e-15)
    assert metric(single, labels) == pytest.approx(metric(probs, labels), abs=1e-4)


@pytest.mark.parametrize("metric", ALL)
def test_bfloat16_and_gradients_pass_the_door(metric):
    probs, labels = draw(5, 400)
    half = torch.tensor(probs, dtype=torch.bfloat16, requires_grad=True)
    assert metric(half, torch.tensor(labels)) == pytest.approx(metric(probs, labels), abs=0.02)


@pytest.mark.parametrize("metric", ALL + SCORES)
def test_leading_axes_are_examples(metric):
    probs, labels = draw(6, 60)
    got = metric(probs.reshape(3, 20, 4), labels.reshape(3, 20))
    assert got == pytest.approx(metric(probs, labels), abs=1e-15)


@pytest.mark.parametrize("metric", ALL + SCORES)
def test_binary_door_is_two_columns(metric):
    rng = np.random.default_rng(7)
    p, labels = rng.random(300), rng.integers(2, size=300)
    assert metric(p, labels, binary=True) == metric(np.stack([1 - p, p], axis=1), labels)


@pytest.mark.parametrize("metric", TOP_LABEL)
def test_perfectly_calibrated_constant_scores_zero(metric):
    probs = np.tile([0.75, 0.25], (8, 1))
    assert metric(probs, np.array([0, 0, 0, 1] * 2)) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("metric", [ece, mce, adaptive_ece, smooth_ece])
@pytest.mark.parametrize("n", [4, 10, 16, 1000])
def test_constant_confidence_scores_its_gap(metric, n):
    labels = (np.arange(n) % 4 == 0).astype(int)
    gap = abs(0.9 - np.mean(labels == 0))
    assert metric(np.tile([0.9, 0.1], (n, 1)), labels) == pytest.approx(gap, abs=1e-12)


@pytest.mark.parametrize("metric", ALL)
def test_certain_and_right_scores_zero(metric):
    labels = np.arange(40) % 3
    assert metric(np.eye(3)[labels], labels) == 0.0


@pytest.mark.parametrize("metric", TOP_LABEL)
def test_certain_and_wrong_scores_one(metric):
    labels = np.arange(40) % 3
    assert metric(np.eye(3)[(labels + 1) % 3], labels) == pytest.approx(1.0, abs=1e-12)


@given(seed=SEEDS, n=st.integers(1, 80), n_bins=st.integers(1, 20))
def test_norms_are_ordered(seed, n, n_bins):
    probs, labels = draw(seed, n)
    l1, l2, top = (ece(probs, labels, n_bins=n_bins, norm=name) for name in ("l1", "l2", "max"))
    assert l1 <= l2 + 1e-15
    assert l2 <= top + 1e-15
    assert top == mce(probs, labels, n_bins=n_bins)


def test_one_bin_compares_the_means():
    probs, labels = draw(8, 100)
    gap = abs(probs.max(axis=1).mean() - np.mean(probs.argmax(axis=1) == labels))
    assert ece(probs, labels, n_bins=1) == pytest.approx(gap, abs=1e-14)
    assert adaptive_ece(probs, labels, n_bins=1) == pytest.approx(gap, abs=1e-14)


def test_mce_ignores_empty_bins():
    assert mce(np.array([[0.9, 0.1]]), np.array([0])) == pytest.approx(0.1)


def test_unknown_norm_is_refused():
    with pytest.raises(ValueError, match=r"`norm` must be one of l1, l2, max; got 'l3'"):
        ece(*draw(0, 5), norm="l3")
