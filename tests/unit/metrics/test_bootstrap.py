import math

import numpy as np
import pytest

from focalibrate.metrics import (
    bootstrap,
    brier_score,
    confident_fraction,
    ece,
    entropy,
    error_rate,
    nll,
)
from focalibrate.metrics.scores import kl_rows, nll_rows


def draw(n: int = 400, seed: int = 0, sharpness: float = 1.0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.normal(size=(n, 4))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    e = np.exp(sharpness * z)
    return e / e.sum(axis=1, keepdims=True), labels


def test_same_seed_same_interval():
    probs, labels = draw()
    first = bootstrap(nll, probs, labels, n_resamples=50, seed=7)
    assert first == bootstrap(nll, probs, labels, n_resamples=50, seed=7)
    assert first != bootstrap(nll, probs, labels, n_resamples=50, seed=8)


def test_result_says_what_was_done():
    probs, labels = draw()
    got = bootstrap(nll, probs, labels, n_resamples=30, level=0.8)
    assert got.level == 0.8
    assert got.estimate == nll(probs, labels)
    weights = np.linspace(0, 1, len(labels))
    weighted = bootstrap(nll, probs, labels, sample_weight=weights, n_resamples=30)
    assert weighted.estimate == pytest.approx(nll(probs, labels, sample_weight=weights))


def test_terms_of_rows_and_lists_give_the_interval_of_the_metric():
    probs, labels = draw()
    fast = bootstrap(nll, probs, labels, n_resamples=40)
    assert bootstrap(nll_rows, probs, labels, n_resamples=40) == fast
    assert bootstrap(nll, probs.tolist(), labels.tolist(), n_resamples=40) == fast


def test_interval_of_a_mean_is_the_normal_one():
    probs, labels = draw(5000)
    got = bootstrap(error_rate, probs, labels, n_resamples=2000)
    half_width = 1.96 * math.sqrt(got.estimate * (1 - got.estimate) / 5000)
    assert got.low == pytest.approx(got.estimate - half_width, abs=0.1 * half_width)
    assert got.high == pytest.approx(got.estimate + half_width, abs=0.1 * half_width)


def test_low_end_of_our_own_metrics_is_not_negative():
    probs = np.tile([0.99, 0.01], (40, 1))
    labels = (np.arange(40) == 0).astype(int)
    assert bootstrap(error_rate, probs, labels, n_resamples=200).low == 0.0


def test_coverage_is_near_the_level():
    truth = 0.3
    rng = np.random.default_rng(0)
    probs = np.tile([0.9, 0.1], (200, 1))
    hits = 0
    for seed in range(200):
        labels = (rng.random(200) < truth).astype(int)
        got = bootstrap(error_rate, probs, labels, n_resamples=200, level=0.9, seed=seed)
        hits += got.low <= truth <= got.high
    assert 0.82 <= hits / 200 <= 0.96


def test_infinite_nll_has_an_infinite_interval():
    got = bootstrap(nll, np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 0]), n_resamples=20)
    assert got.estimate == got.low == got.high == math.inf


def test_entropy_needs_no_labels():
    probs, _ = draw()
    got = bootstrap(entropy, probs, n_resamples=50)
    assert got.low < got.estimate == entropy(probs) < got.high


@pytest.mark.parametrize("metric", [nll, nll_rows], ids=["prepared", "any"])
def test_difference_is_paired(metric):
    probs, labels = draw(1000)
    near = 0.99 * probs + 0.01 / 4
    both = bootstrap(metric, probs, labels, minus=near, n_resamples=100)
    alone = bootstrap(metric, probs, labels, n_resamples=100)
    assert both.estimate == pytest.approx(nll(probs, labels) - nll(near, labels))
    assert both.high - both.low < 0.1 * (alone.high - alone.low)


def test_difference_of_a_method_from_itself_is_exactly_zero():
    probs, labels = draw()
    got = bootstrap(nll, probs, labels, minus=probs, n_resamples=50)
    assert (got.estimate, got.low, got.high) == (0.0, 0.0, 0.0)


def test_difference_tells_methods_apart():
    (honest, labels), (sharp, _) = draw(3000), draw(3000, sharpness=3.0)
    got = bootstrap(brier_score, honest, labels, minus=sharp, n_resamples=200)
    assert got.low < got.high < 0


def test_difference_of_a_wrapped_divergence():
    eta, _ = draw()
    sharp, _ = draw(sharpness=2.0)
    got = bootstrap(lambda q, truth: kl_rows(truth, q), eta, eta, minus=sharp, n_resamples=50)
    assert got.high < 0


def test_every_library_and_leading_axes(xp):
    probs, labels = draw()
    want = bootstrap(nll, probs, labels, n_resamples=20)
    cube = xp.asarray(probs.reshape(20, 20, 4))
    assert bootstrap(nll, cube, xp.asarray(labels.reshape(20, 20)), n_resamples=20) == want


def test_binary_door():
    rng = np.random.default_rng(0)
    p, labels = rng.random(100), rng.integers(2, size=100)
    got = bootstrap(nll, p, labels, n_resamples=20, binary=True)
    assert got == bootstrap(nll, np.stack([1 - p, p], axis=1), labels, n_resamples=20)


@pytest.mark.parametrize("metric", [ece, confident_fraction])
def test_a_metric_that_is_no_mean_over_rows_is_refused(metric):
    with pytest.raises(ValueError, match=r"`metric` must be a mean over rows .* use `assess`"):
        bootstrap(metric, *draw())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": 0}, r"`n_resamples` must be a whole number >= 1, got 0"),
        ({"level": 95}, r"`level` must be a number in \(0, 1\), got 95"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap(nll, *draw(), **options)


def test_other_examples_are_refused():
    (a, _), (b, _) = draw(10), draw(12)
    with pytest.raises(ValueError, match=r"must be of the same examples, got 10 and 12 rows"):
        bootstrap(entropy, a, minus=b)


def test_whole_clusters_are_drawn():
    """Five identical tries per question are one, not five: the interval is as wide as of one."""
    probs, labels = draw(300)
    five = [np.repeat(x, 5, axis=0) for x in (probs, labels)]
    one = bootstrap(nll, probs, labels, n_resamples=400)
    clustered = bootstrap(nll, *five, cluster=np.repeat(np.arange(300), 5), n_resamples=400)
    assert clustered.estimate == pytest.approx(one.estimate)
    assert clustered.low == pytest.approx(one.low)
    assert bootstrap(nll, *five, n_resamples=400).low > one.low
    pair = [np.repeat(draw(300, sharpness=2.0)[0], 5, axis=0), five[0]]
    alone = bootstrap(nll, pair[0][::5], labels, minus=probs, n_resamples=400)
    both = bootstrap(
        nll, pair[0], five[1], minus=pair[1], cluster=np.repeat(np.arange(300), 5), n_resamples=400
    )
    assert both.high == pytest.approx(alone.high)
