from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression

from focalibrate.calibrate import CalibrationWarning, IsotonicCalibration, fit

fit_isotonic = partial(fit, method="isotonic")


@pytest.mark.parametrize("digits", [1, 15])  # one digit: many ties
def test_each_class_equals_scikit_learn(rows_of, digits):
    logits, labels = rows_of(400, 4, dtype=np.float64)
    logits = np.log(np.maximum(np.round(softmax(logits, axis=1), digits), 1e-3))
    found = fit_isotonic(logits, labels)
    probs = np.round(softmax(logits, axis=1), 12)
    for k in range(4):
        x, is_label = probs[:, k], labels == k
        theirs = IsotonicRegression(out_of_bounds="clip").fit(
            np.append(x, [x.min(), x.max()]),  # one more row, of the class by its frequency
            np.append(is_label, [1.0, 0.0]),
            np.append(np.ones(400), [is_label.mean(), 1 - is_label.mean()]),
        )
        grid = np.linspace(0, 1, 501)
        ours = np.interp(grid, found.scores[k], found.values[k])
        assert_allclose(ours, theirs.predict(grid), atol=1e-9)


def test_a_row_mapped_to_zero_keeps_the_model(rows_of):
    calibrator = IsotonicCalibration(((0.0, 1.0),) * 2, ((0.0, 0.0),) * 2)
    logits = np.log([[0.3, 0.7]])
    assert_allclose(calibrator.probs(logits), [[0.3, 0.7]])
    assert_allclose(np.exp(calibrator.log_probs(logits)), [[0.3, 0.7]])


def test_missing_classes_are_named(rows_of):
    logits, labels = rows_of(200, 8)
    with pytest.warns(CalibrationWarning, match=r"4 of 8 classes never occur .*\(4, 5, 6, 7\)"):
        found = fit_isotonic(logits, labels % 4)
    assert (found.probs(logits)[:, 4:] == 0).all()
    assert (found.log_probs(logits)[:, 4:] == -np.inf).all()


def test_one_class_is_refused(rows_of):
    logits, _ = rows_of(20, 3)
    with pytest.raises(ValueError, match=r"at least two classes .* found only class 1"):
        fit_isotonic(logits, np.ones(20, dtype=int))


def test_columns_taken_in_pieces_give_the_same(rows_of, monkeypatch):
    logits, labels = rows_of(300, 6)
    whole = fit_isotonic(logits, labels)
    monkeypatch.setattr("focalibrate.calibrate.one_vs_rest.COLUMN_FLOOR", 1)
    assert fit_isotonic(logits, labels) == whole


@pytest.mark.parametrize(
    ("scores", "values", "message"),
    [
        (((0.0, 1.0),), ((0.0, 1.0),), "one curve per class"),
        (((0.0, 1.0),) * 2, ((0.0,),) * 2, "must match"),
        (((1.0, 0.0),) * 2, ((0.0, 1.0),) * 2, "must not decrease"),
        (((0.0, 1.0),) * 2, ((0.0, 2.0),) * 2, r"must lie in \[0, 1\]"),
        ((1.0, 2.0), (1.0, 2.0), "`scores` must hold lists of finite numbers, got 1.0"),
    ],
)
def test_bad_curves_are_refused(scores, values, message):
    with pytest.raises(ValueError, match=message):
        IsotonicCalibration(scores, values)


def test_a_probability_rounded_up_to_a_knot_is_not_below_the_curve():
    calibrator = IsotonicCalibration(((0.0, 2e-12, 3e-12, 1.0),) * 2, ((0.0, 0.0, 0.5, 1.0),) * 2)
    found = calibrator.probs(probs=np.array([[1.8e-12, 1 - 1.8e-12]]))
    assert_allclose(found, [[0.0, 1.0]], atol=1e-9)
    assert found.min() >= 0
