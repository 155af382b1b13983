import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.metrics import (
    brier_score,
    confident_fraction,
    entropy,
    error_rate,
    kl_divergence,
    nll,
)

SEEDS = st.integers(0, 2**32 - 1)
LABELLED = [nll, brier_score, error_rate]


def draw(seed: int, n: int, k: int = 4):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(k), size=n), rng.integers(k, size=n)


@given(seed=SEEDS, n=st.integers(1, 30), k=st.integers(2, 6))
def test_scores_equal_plain_loops(seed, n, k):
    probs, labels = draw(seed, n, k)
    rows = [(row.tolist(), int(y)) for row, y in zip(probs, labels, strict=True)]
    assert_allclose(nll(probs, labels), math.fsum(-math.log(p[y]) for p, y in rows) / n)
    assert_allclose(
        brier_score(probs, labels),
        math.fsum((v - (c == y)) ** 2 for p, y in rows for c, v in enumerate(p)) / n,
    )
    assert_allclose(error_rate(probs, labels), sum(max(p) != p[y] for p, y in rows) / n)
    assert_allclose(entropy(probs), math.fsum(-v * math.log(v) for p, _ in rows for v in p) / n)


def test_unlabelled_scores_of_every_library(xp):
    probs, _ = draw(1, 50)
    other, _ = draw(2, 50)
    assert entropy(xp.asarray(probs)) == entropy(probs)
    assert kl_divergence(xp.asarray(probs), xp.asarray(other)) == kl_divergence(probs, other)


def test_binary_door_of_unlabelled_scores():
    p = np.random.default_rng(3).random(50)
    two = np.stack([1 - p, p], axis=1)
    assert entropy(p, binary=True) == entropy(two)
    assert kl_divergence(p, p**2, binary=True) == kl_divergence(two, np.stack([1 - p**2, p**2], 1))


@pytest.mark.parametrize("metric", LABELLED)
def test_float32_is_summed_in_float64(metric):
    probs, labels = draw(4, 20_000, 10)
    single = probs.astype(np.float32)
    assert_allclose(metric(single, labels), metric(single.astype(float), labels), rtol=1e-14)


def test_nll_of_an_impossible_label_is_infinite():
    assert nll(np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 0])) == math.inf


@pytest.mark.parametrize("metric", [*LABELLED, lambda p, y: entropy(p)])
def test_certain_and_right_is_plain_zero(metric):
    got = metric(np.eye(3), np.arange(3))
    assert got == 0.0
    assert math.copysign(1, got) == 1


def test_brier_of_saturated_rows_keeps_its_digits():
    probs = np.array([[1 - 2.0**-40, 2.0**-40]])
    assert brier_score(probs, np.array([0])) == 2 * 2.0**-80


def test_entropy_of_extremes():
    assert entropy(np.full((3, 8), 1 / 8)) == pytest.approx(math.log(8))
    assert entropy(np.eye(4)) == 0.0


@given(seed=SEEDS)
def test_divergence_is_zero_only_from_itself(seed):
    (eta, _), (probs, _) = draw(seed, 20), draw(seed + 1, 20)
    assert kl_divergence(eta, probs) > 0
    assert kl_divergence(eta, eta) == 0


def test_divergence_at_zeros():
    one, half = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
    assert kl_divergence(one, half) == pytest.approx(math.log(2))
    assert kl_divergence(one, one) == 0.0
    assert kl_divergence(half, one) == math.inf


def test_divergence_from_a_subnormal_is_finite():
    eta, probs = np.array([[0.5, 0.5]]), np.array([[1.0, 5e-324]])
    assert kl_divergence(eta, probs) == pytest.approx(0.5 * (-math.log(5e-324)) + math.log(0.5))


def test_divergence_needs_equal_shapes():
    with pytest.raises(ValueError, match=r"`posterior` must have the shape of `probs`, \(5, 4\)"):
        kl_divergence(draw(0, 6)[0], draw(0, 5)[0])


def test_confident_rows_include_the_threshold():
    probs = np.array([[0.99, 0.01], [0.5, 0.5], [0.0, 1.0]])
    got = confident_fraction(probs, np.array([0, 0, 0]))
    assert got.fraction == pytest.approx(2 / 3)
    assert got.accuracy == 0.5


def test_no_confident_row_has_no_accuracy():
    got = confident_fraction(np.array([[0.6, 0.4]]), np.array([0]))
    assert got.fraction == 0.0
    assert math.isnan(got.accuracy)


def test_threshold_must_be_a_probability():
    with pytest.raises(ValueError, match=r"`threshold` must be a number in \[0, 1\], got 99"):
        confident_fraction(np.array([[0.6, 0.4]]), np.array([0]), threshold=99)
