"""Predictions as people have them at hand: a data frame, or probabilities and labels."""

import numpy as np
import pandas as pd
import pytest

from focalibrate import calibrate_predictions, check_predictions
from focalibrate.pipeline import Examples
from focalibrate.report import reliability_diagram

NAMES = ["cat", "dog", "owl"]
QUICK = {"methods": ["temperature"], "n_resamples": 20}


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(400, 3)) * 2
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(2 * z)
    return p / p.sum(axis=1, keepdims=True), y


@pytest.fixture(scope="module")
def frame(pair):
    return pd.DataFrame(pair[0], columns=NAMES)


def test_probabilities_and_labels_by_position(pair):
    found = calibrate_predictions(*pair, **QUICK)
    named = calibrate_predictions(probs=pair[0], labels=pair[1], **QUICK)
    assert found.to_records() == named.to_records()


def test_a_data_frame_with_labels(pair, frame):
    found = calibrate_predictions(frame.assign(label=np.array(NAMES)[pair[1]]), **QUICK)
    assert found.class_names == tuple(NAMES)
    assert found.to_records() == calibrate_predictions(*pair, **QUICK).to_records()


def test_a_data_frame_of_scores_and_names_as_labels(pair, frame):
    found = calibrate_predictions(frame, np.array(NAMES)[pair[1]], **QUICK)
    assert found.class_names == tuple(NAMES)


def test_logits_by_position_are_refused(pair):
    with pytest.raises(ValueError, match="probabilities"):
        calibrate_predictions(np.log(pair[0]) * 3, pair[1], **QUICK)


def test_an_array_without_labels_says_how_to_pass_them(pair):
    with pytest.raises(ValueError, match=r"`labels` must be given .* Pass `\(probs, labels\)`"):
        calibrate_predictions(pair[0])


def test_the_check_of_probabilities_and_labels(pair, frame, calibration_check):
    by_name = check_predictions(probs=pair[0], labels=pair[1], max_ece=0.3)
    assert check_predictions(*pair, max_ece=0.3) == by_name
    assert calibration_check(*pair, max_ece=0.3).status == "pass"
    labelled = frame.assign(label=np.array(NAMES)[pair[1]])
    assert calibration_check(labelled, max_ece=0.3).status == "pass"


def test_the_diagram_of_a_data_frame_and_names(pair, frame):
    drawn = reliability_diagram(frame, np.array(NAMES)[pair[1]])
    expected = reliability_diagram(*pair)
    one, other = drawn.lines[0].get_xydata(), expected.lines[0].get_xydata()
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "cluster", [["a", "", "b"], [1.0, np.nan, 2.0], np.array(["a", None, "b"], dtype=object)]
)
def test_a_row_without_cluster_is_refused(cluster):
    given = {"probs": np.full((3, 2), 0.5), "labels": [0, 1, 0]}
    with pytest.raises(ValueError, match=r"every row, but not in 1, first in row 1\. Give each"):
        Examples.of_arrays(**given, cluster=cluster)
