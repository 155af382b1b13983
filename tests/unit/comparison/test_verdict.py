from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from focalibrate import calibrate_predictions
from focalibrate.comparison import choose, compare_methods, verdict
from focalibrate.comparison.verdict import assessed
from focalibrate.metrics import assess


@pytest.mark.parametrize(
    ("scale", "word", "side"), [(3.0, "overconfident", "above"), (0.3, "underconfident", "below")]
)
def test_side_cure_and_price(make_problem, scale, word, side):
    found = compare_methods(
        *make_problem(600, scale=scale), methods=["temperature"], n_resamples=50
    )
    text = verdict(found, choose(found))
    assert text.status == "repairable"
    rows = found.row("identity").units
    gap = abs(rows.confidence.mean() - rows.correct.mean()) * 100
    assert text.headline == (
        f"The model is {word}: its confidence is {gap:.1f} points {side} its accuracy."
    )
    assert text.gain.startswith("Temperature (T = ")
    before, after = found.row("identity").scores["nll"], choose(found).row.scores["nll"]
    assert text.gain.endswith(
        f" lowers the held-out log loss from {before.estimate:.4f} to {after.estimate:.4f} "
        f"(95 % CI {after.low:.4f} to {after.high:.4f}) and changes no prediction."
    )
    assert text.advice == "Apply calibrator.json to new predictions."


def test_a_calibrated_model_is_kept(calibrated):
    text = verdict(calibrated, choose(calibrated))
    assert text.status == "good"
    assert text.headline == "The model's confidence and accuracy agree on average."
    assert text.gain.endswith("the model is kept.")
    forced = verdict(calibrated, choose(calibrated, method="identity"))
    assert forced.gain.endswith("left uncalibrated, as requested.")


def test_no_miscalibration_and_a_gain_within_noise_is_good(make_problem):
    """The light, the headline and the advice agree, and nothing is said twice."""
    z, y = make_problem(700, scale=1.0)
    found = compare_methods(z, y, methods=["identity", "temperature"], n_resamples=50)
    before = assess(softmax(z, axis=1), y, n_draws=199)
    assert before.verdict == "no evidence of miscalibration"
    chosen = replace(choose(found, method="temperature"), is_forced=False)
    said = verdict(found, chosen, before, after=before)
    assert (said.status, said.after) == ("good", "")
    assert said.advice.endswith("applying calibrator.json is optional.")


def test_a_forced_method_that_does_not_help_says_so(calibrated):
    assert "within noise" in verdict(calibrated, choose(calibrated, method="temperature")).gain


def test_changed_predictions_are_counted(make_problem):
    z, y = make_problem(1500, scale=1.0)
    z = z + np.array([2.0, 0, 0, 0])  # a shift that only vector scaling can undo
    found = compare_methods(z, y, methods=["vector"], n_resamples=50)
    n = found.row("vector").n_predictions_changed
    assert n > 0
    assert verdict(found, choose(found)).gain.endswith(f"changes {n} of 1,500 predictions.")


def test_one_curve_per_class_comes_with_a_warning(overconfident):
    z, y = overconfident
    found = compare_methods(z[:300], y[:300], methods=["isotonic"], n_resamples=20)
    text = verdict(found, choose(found, method="isotonic"))
    assert "Beware: with more than two classes, one curve per class did worse than no" in text.gain


def test_an_average_is_described_by_the_usual_names(make_problem):
    logits, labels = make_problem(1200, scale=1.0)
    found = compare_methods(4 * np.tanh(logits), labels, methods=["average"], n_resamples=20)
    text = verdict(found, choose(found, method="average"))
    assert "Average of methods (" in text.gain
    assert "% isotonic regression" in text.gain


def test_doubts_about_the_data_come_first(overconfident):
    found = compare_methods(*overconfident, methods=["temperature"], n_resamples=20)
    said = verdict(found, choose(found), doubts=["The labels are of other rows. Join them."])
    assert said.status == "check the data"
    assert said.advice == "The labels are of other rows. Join them."


def test_what_is_found_in_few_rows_is_found():
    probs = np.tile([0.0, 1.0], (20, 1))  # always certain, half of the time wrong
    said = assessed(assess(probs, np.arange(20) % 2))
    assert (said.status, said.advice[:16]) == ("repairable", "Fit a calibrator")
    few = assess(np.tile([0.5, 0.5], (20, 1)), np.arange(20) % 2)
    assert assessed(few).status == "too few rows"


def test_a_gain_without_a_finding_is_said_to_be_one():
    labels = np.arange(200) % 2
    found = calibrate_predictions(probs=np.eye(2)[labels], labels=labels, n_resamples=20).verdict
    assert found.headline.startswith("There are too few rows to judge")
    assert found.gain.startswith("Even so: Temperature (T = ")
