"""`fit`, the command's job and the estimators make the same choice."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate import calibrate_predictions, fit
from focalibrate.estimators import LogitCalibrator
from focalibrate.metrics import brier_score, nll


def predictions(n_classes, scale, bend, *, n=300, seed=0):
    rng = np.random.default_rng(seed)
    truth = 2.0 * rng.standard_normal((n, n_classes))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return scale * truth + bend * np.tanh(truth) + bend * np.arange(n_classes), labels


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "scale", "bend", "gamma"),
    [(3, 1.0, 0.0, None), (3, 2.5, 0.0, None), (4, 1.3, 0.8, None), (2, 2.0, 0.5, 2.0)],
    ids=["calibrated", "overconfident", "skewed", "two classes, focal"],
)
def test_three_doors_one_choice(n_classes, scale, bend, gamma):
    logits, labels = predictions(n_classes, scale, bend, n=200)
    for simple in (False, True)[: 1 if gamma else 2]:
        auto = fit(labels=labels, logits=logits, trained_gamma=gamma, simple=simple)
        job = calibrate_predictions(
            logits=logits,
            labels=labels,
            methods=["auto"],
            trained_gamma=gamma,
            simple=simple,
            n_resamples=10,
        )
        estimator = LogitCalibrator("auto", gamma=gamma, options={"simple": simple})
        estimator.fit(logits, labels)
        assert job.calibrator.kind == estimator.calibrator_.kind == auto.kind
        want = auto.probs(logits)
        assert_allclose(job.calibrator.probs(logits), want, atol=1e-6)
        assert_allclose(estimator.predict_proba(logits), want, atol=1e-12)
        if simple:
            assert auto.kind != "average"


@pytest.mark.slow
def test_a_default_comparison_shows_more_than_it_chooses_from():
    logits, labels = predictions(3, 2.5, 0.0)
    job = calibrate_predictions(logits=logits, labels=labels, n_resamples=10)
    shown = {row.method for row in job.comparison.rows}
    assert {"vector", "isotonic", "focal_temperature"} <= shown
    marked = {row.method for row in job.comparison.rows if row.why_not}
    assert {"vector", "isotonic", "focal_temperature"} <= marked
    assert job.choice.row.method == fit(logits, labels).kind


def voted(n=240, k=3, n_votes=12, seed=3):
    """Return shares of a few votes: probabilities with zeros, as of a small forest."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, 0.5), n)
    labels = np.array([rng.choice(k, p=p) for p in truth])
    probs = np.array([rng.multinomial(n_votes, p**2 / (p**2).sum()) for p in truth]) / n_votes
    return probs, labels


def test_zeros_have_one_rule():
    probs, labels = voted()
    assert (probs == 0).any()
    auto = fit(labels=labels, probs=probs)
    job = calibrate_predictions(probs=probs, labels=labels, methods=["auto"], n_resamples=10)
    assert job.calibrator.zero_mix == auto.zero_mix == pytest.approx(0.5 * 3 / 12)
    assert_allclose(job.calibrator.probs(probs=probs), auto.probs(probs=probs), atol=1e-6)


def test_the_model_is_compared_and_kept_with_the_rule_for_zeros():
    probs, labels = voted()
    job = calibrate_predictions(probs=probs, labels=labels, choose="identity", n_resamples=9)
    smoothed = (1 - 0.125) * probs + 0.125 / 3
    assert_allclose(job.calibrator.probs(probs=probs), smoothed, atol=1e-12)
    row = job.comparison.row("identity")
    assert row.scores["nll"].estimate == pytest.approx(nll(smoothed, labels))
    assert row.scores["brier"].estimate == pytest.approx(brier_score(smoothed, labels), rel=1e-9)
    assert fit(labels=labels, probs=probs).report.held_out["identity"] == pytest.approx(
        row.scores["nll"].estimate
    )
