import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate import metrics
from focalibrate.metrics import (
    adaptive_ece,
    brier_score,
    classwise_ece,
    debiased_ece,
    ece,
    entropy,
    error_rate,
    kl_divergence,
    mce,
    nll,
    smooth_ece,
)
from focalibrate.metrics._resampling import Draws, is_prepared, resampler

CASES = [
    (ece, {}),
    (ece, {"n_bins": 4, "norm": "l2"}),
    (mce, {"n_bins": 5}),
    (adaptive_ece, {}),
    (adaptive_ece, {"n_bins": 7, "norm": "max"}),
    (debiased_ece, {}),
    (debiased_ece, {"n_bins": 6, "bins": "equal-width"}),
    (classwise_ece, {}),
    (classwise_ece, {"n_bins": 3}),
    (nll, {}),
    (brier_score, {}),
    (error_rate, {}),
]
IDS = [f"{metric.__name__}-{options}" for metric, options in CASES]


def draw(n: int = 120, k: int = 5):
    rng = np.random.default_rng(0)
    probs = np.ceil(rng.dirichlet(np.full(k, 0.4), size=n) * 20)  # with tied confidences
    return probs / probs.sum(axis=1, keepdims=True), rng.integers(k, size=n)


def indices(n: int = 120):
    return np.random.default_rng(1).integers(n, size=(6, n))


@pytest.mark.parametrize(("metric", "options"), CASES, ids=IDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_prepared_equals_calling_the_metric(metric, options, dtype):
    probs, labels = draw()
    probs = probs.astype(dtype)
    want = [metric(probs[i], labels[i], **options) for i in indices()]
    assert_allclose(resampler(metric, probs, labels, options)(Draws(indices())), want, atol=1e-12)


@pytest.mark.parametrize(("metric", "options"), CASES, ids=IDS)
def test_prepared_binary_equals_calling_the_metric(metric, options):
    rng = np.random.default_rng(2)
    p, labels = rng.random(120), rng.integers(2, size=120)
    options = {**options, "binary": True}
    want = [metric(p[i], labels[i], **options) for i in indices()]
    assert_allclose(resampler(metric, p, labels, options)(Draws(indices())), want, atol=1e-12)


def test_prepared_smooth_ece_agrees_to_its_coarser_grid():
    probs, labels = draw()
    want = [smooth_ece(probs[i], labels[i]) for i in indices()]
    assert_allclose(resampler(smooth_ece, probs, labels, {})(Draws(indices())), want, rtol=1e-4)


def test_unlabelled_scores_are_prepared_too():
    probs, _ = draw()
    other = probs[::-1] * 0.9 + 0.02
    want = [entropy(probs[i]) for i in indices()]
    assert_allclose(resampler(entropy, probs, None, {})(Draws(indices())), want)
    want = [kl_divergence(probs[i], other[i]) for i in indices()]
    assert_allclose(resampler(kl_divergence, probs, other, {})(Draws(indices())), want)


def test_every_declared_metric_is_prepared():
    assert all(is_prepared(metric.function) for metric in metrics.METRICS.values())


def test_any_metric_sees_resampled_rows_of_its_own_library(xp):
    seen = []

    def metric(probs, labels):
        seen.append((type(probs), tuple(probs.shape), tuple(labels.shape)))
        return float(xp.sum(probs[:, 0] * xp.astype(labels, probs.dtype)))

    probs, labels = draw()
    cube = xp.asarray(probs.reshape(3, 40, 5))
    got = resampler(metric, cube, xp.asarray(labels.reshape(3, 40)), {})(Draws(indices()))
    assert_allclose(got, [(probs[i, 0] * labels[i]).sum() for i in indices()], rtol=1e-12)
    assert set(seen) == {(type(cube), (120, 5), (120,))}


def test_times_count_the_rows_drawn():
    draws = Draws(np.array([[0, 2, 2], [1, 1, 1]]))
    assert draws.times.tolist() == [[1, 0, 2], [0, 3, 0]]


def test_a_row_of_infinite_loss_counts_only_where_it_is_drawn():
    probs, labels = np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]), np.array([1, 0, 1])
    got = resampler(nll, probs, labels, {})(Draws(np.array([[1, 2, 2], [0, 1, 2]])))
    assert_allclose(got, [np.log(2), np.inf])
