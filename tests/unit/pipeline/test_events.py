"""A confidence and whether it was right, given as arrays."""

import json

import numpy as np
import pytest

import focalibrate
from focalibrate.io import read_predictions
from focalibrate.metrics import choose_threshold, selective_accuracy
from focalibrate.pipeline import Examples, evaluate_predictions, evaluation_page


@pytest.fixture
def answers():
    rng = np.random.default_rng(0)
    c = rng.uniform(0.3, 1.0, 2000)
    return c, rng.random(2000) < c - 0.1


def test_events_are_the_probability_of_class_1(answers):
    c, y = answers
    event = {"confidence": c, "correct": y}
    assert focalibrate.fit(**event) == focalibrate.fit(probs=c, labels=y.astype(int))
    limits = {"max_ece": 0.05}
    mine = focalibrate.check_predictions(**event, **limits)
    assert mine.checks == focalibrate.check_predictions(c, y.astype(int), **limits).checks
    options = {"n_resamples": 20, "methods": ["platt"]}
    found = focalibrate.calibrate_predictions(**event, **options)
    assert found.class_names == ("wrong", "correct")
    assert "too high" in found.verdict.headline


def test_clusters_of_arrays_widen_intervals(answers):
    c, y = (np.repeat(x[:400], 5) for x in answers)
    options = {"n_resamples": 50, "methods": ["platt"]}
    rows = focalibrate.calibrate_predictions(confidence=c, correct=y, **options)
    cluster = np.arange(2000) // 5
    clustered = focalibrate.calibrate_predictions(
        confidence=c, correct=y, cluster=cluster, **options
    )
    assert clustered.assessment.p_value >= rows.assessment.p_value
    gaps = [found.assessment.gap for found in (rows, clustered)]
    assert gaps[1].high - gaps[1].low > 1.5 * (gaps[0].high - gaps[0].low)


def test_bad_events_are_named(answers):
    c, y = answers
    with pytest.raises(ValueError, match="correct"):
        focalibrate.check_predictions(confidence=c, max_ece=0.1)
    with pytest.raises(ValueError, match="not both"):
        focalibrate.fit(confidence=c, correct=y, labels=y)
    with pytest.raises(ValueError, match="0 or 1"):
        focalibrate.check_predictions(confidence=c, correct=np.full(2000, 0.5), max_ece=0.1)
    with pytest.raises(ValueError, match="one value per row"):
        focalibrate.calibrate_predictions(confidence=c, correct=y, cluster=[1, 2])


def test_selective_accuracy_is_part_of_an_evaluation(answers):
    c, y = answers
    found = evaluate_predictions(Examples.of_arrays(confidence=c, correct=y))
    expected = selective_accuracy(c, y)  # never folded at one half
    assert found.rows.selective.aurc.estimate == pytest.approx(expected.aurc.estimate)
    record = found.to_dict()["selective"]
    assert record["aurc"]["low"] < expected.aurc.estimate < record["aurc"]["high"]
    assert [a["coverage"] for a in record["accuracy_at_coverage"]] == list(expected.coverage)


def test_answers_of_a_file_are_never_folded_at_one_half(answers, tmp_path):
    c, y = answers[0] - 0.3, answers[1]
    file = tmp_path / "answers.csv"
    rows = (f"{p},{'Correct' if right else 'Wrong'}\n" for p, right in zip(c, y, strict=True))
    file.write_text("confidence,grade\n" + "".join(rows))
    found = evaluate_predictions(read_predictions(file))
    expected = selective_accuracy(c, y)
    assert found.rows.selective.aurc.estimate == pytest.approx(expected.aurc.estimate)
    assert found.assessment.summary.startswith("Probabilities of being right are too low")


def test_the_report_hands_on_answers_of_least_probability_first(answers):
    c, y = answers[0] - 0.3, answers[1]
    found = focalibrate.calibrate_predictions(
        confidence=c, correct=y, methods=["platt"], n_resamples=10
    )
    risk = found.page_data().document["before"]["risk"]
    assert risk["risk"][-1] == pytest.approx(1 - y.mean(), abs=1e-4)
    assert risk["stated"][-1] == pytest.approx(1 - c.mean(), abs=1e-4)


def test_the_page_promises_what_threshold_promises(answers):
    """Risk and coverage on the page: each level of error is that of `choose_threshold`."""
    c, y = answers
    page = evaluation_page(evaluate_predictions(Examples.of_arrays(confidence=c, correct=y)))
    text = page.split('id="focalibrate-data">')[1].split("</script>")[0]
    promised = json.loads(text)["models"][0]["promised"]
    assert promised
    for one in promised:
        want = choose_threshold(c, y, precision=1 - one["error"])
        assert (one["threshold"], one["coverage"]) == (want.threshold, want.coverage)
