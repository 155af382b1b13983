"""The automatic choice: pool, one simple method, or the model as it is."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import focalibrate
from focalibrate.calibrate import (
    Calibrator,
    Identity,
    Pool,
    explain_auto,
    fit_auto,
    fit_pool,
    read_scores,
)
from focalibrate.calibrate.rule import candidates, pool_members


@pytest.fixture(scope="module")
def calibrated():
    rng = np.random.default_rng(0)
    truth = 2.0 * rng.standard_normal((600, 3))
    return truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


def test_it_is_at_the_top_level_and_takes_logits_or_probs(calibrated):
    truth, labels = calibrated
    logits = 2.5 * truth
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    by_logits = focalibrate.fit_auto(labels=labels, logits=logits)
    by_probs = focalibrate.fit_auto(labels=labels, probs=probs)
    assert isinstance(by_logits, Pool)
    assert_allclose(by_logits.probs(logits), by_probs.probs(probs=probs), atol=1e-4)


def test_a_calibrated_model_is_kept(calibrated):
    truth, labels = calibrated
    found = explain_auto(labels=labels, logits=truth)
    assert found.calibrator == Identity(n_classes=3)
    assert "the model is kept as it is" in found.reason


def test_a_simple_choice_is_one_method(calibrated):
    truth, labels = calibrated
    found = explain_auto(labels=labels, logits=3.0 * truth, simple=True)
    assert found.method == "temperature"
    assert found.losses["temperature"] < found.losses["identity"]


def test_zeros_and_a_focal_model(calibrated, tmp_path):
    truth, labels = calibrated
    votes = np.round(np.exp(truth) / np.exp(truth).sum(axis=1, keepdims=True) ** 1, 1)
    votes /= votes.sum(axis=1, keepdims=True)
    assert (votes == 0).any()
    found = fit_auto(labels=labels, probs=votes, trained_gamma=2.0)
    assert found.zero_mix > 0
    assert np.isfinite(found.log_probs(probs=votes)).all()
    found.save(tmp_path / "auto.json")
    again = Calibrator.load(tmp_path / "auto.json")
    assert again == found
    assert_allclose(again.probs(probs=votes), found.probs(probs=votes))


def test_a_model_without_an_error_is_kept_and_a_pool_of_it_stays_finite():
    labels = np.arange(60) % 3
    logits = 5.0 * np.eye(3)[labels] + np.random.default_rng(0).normal(size=(60, 3))
    found = explain_auto(labels=labels, logits=logits)
    assert found.method == "identity"
    assert "Every one of the 60 predictions is right" in found.reason
    wrong = fit_pool(logits, labels).log_probs(np.array([[9.0, 0.0, -3.0]]))
    assert np.isfinite(wrong).all()
    assert wrong.min() > -30


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
def test_whole_weights_are_copies_in_any_order(n_classes):
    rng = np.random.default_rng(3)
    truth = 1.5 * rng.normal(size=(150, n_classes))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    weights = rng.integers(0, 5, size=150)
    copied = [np.repeat(2.5 * truth, weights, axis=0), np.repeat(labels, weights)]
    order = rng.permutation(len(copied[1]))
    weighted = fit_auto(logits=2.5 * truth, labels=labels, sample_weight=weights)
    for rows in (slice(None), order):
        one = fit_auto(logits=copied[0][rows], labels=copied[1][rows])
        assert one.kind == weighted.kind != "identity"
        np.testing.assert_allclose(one.probs(truth), weighted.probs(truth), atol=1e-5)


def test_large_data_and_many_classes_leave_out_what_takes_too_long():
    rows = read_scores(np.zeros((4000, 1000), dtype=np.float32), np.zeros(4000, dtype=int))
    assert pool_members(rows) == ("identity", "temperature")
    small = read_scores(np.zeros((400, 2)), np.arange(400) % 2)
    assert "spline" in pool_members(small)
    assert candidates(small, 2.0)[-2:] == ("focal_loss_temperature", "posterior_recovery")
