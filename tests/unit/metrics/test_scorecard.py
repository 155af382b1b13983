import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.metrics import METRIC_NAMES, bootstrap, bootstrap_difference, nll, scorecard


@pytest.fixture(scope="module")
def predictions():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=300)
    labels = np.array([rng.choice(3, p=p) for p in probs])
    return probs, np.sqrt(probs) / np.sqrt(probs).sum(-1, keepdims=True), labels


def test_intervals_and_differences_are_those_of_the_bootstrap(predictions):
    sharp, flat, labels = predictions
    a, b = (scorecard(p, labels, n_resamples=60, seed=3) for p in (sharp, flat))
    want = bootstrap(nll, sharp, labels, n_resamples=60, seed=3)
    assert a.interval("nll") == want
    got = a.difference(b, "nll")
    want = bootstrap_difference(nll, sharp, flat, labels, n_resamples=60, seed=3)
    assert_allclose([got.estimate, got.low, got.high], [want.estimate, want.low, want.high])
    assert set(a.estimates) == set(METRIC_NAMES)


def test_the_gap_is_confidence_less_accuracy(predictions):
    _, flat, labels = predictions
    card = scorecard(flat, labels, n_resamples=10)
    accuracy = (flat.argmax(-1) == labels).mean()
    assert_allclose(card.confidence_gap, flat.max(-1).mean() - accuracy, rtol=1e-12)


def test_an_infinite_score_has_an_infinite_difference(predictions):
    sharp, _, labels = predictions
    wrong = np.eye(3)[(labels + 1) % 3]
    a, b = (scorecard(p, labels, n_resamples=10) for p in (wrong, sharp))
    assert a.interval("nll").low == np.inf
    assert a.difference(b, "nll").low == np.inf


def test_cards_of_other_examples_do_not_compare(predictions):
    sharp, _, labels = predictions
    a = scorecard(sharp, labels, n_resamples=10)
    b = scorecard(sharp[:100], labels[:100], n_resamples=10)
    with pytest.raises(ValueError, match=r"same 300 examples and 10 resamples, got 100 and 10"):
        a.difference(b, "nll")


def test_calibration_errors_get_no_interval_unless_asked_for(predictions):
    sharp, _, labels = predictions
    card = scorecard(sharp, labels, n_resamples=10)
    assert set(card.replicates) == {"nll", "brier", "error"}
    assert np.isnan(card.interval("ece").low)
    assert card.interval("ece").estimate == card.estimates["ece"]
    assert np.isnan(card.difference(card, "ece").high)
    asked = scorecard(sharp, labels, n_resamples=10, resampled=["ece"])
    assert asked.interval("ece").low < asked.interval("ece").high
