"""scikit-learn's own tests of `CalibratedClassifierCV`, run with our classifier in its place.

The functions come from the installed package, so the suite follows scikit-learn's releases. What
is left out tests scikit-learn's internals; each has its reason.
"""

import pytest

from focalibrate.estimators import FocalCalibratedClassifierCV

theirs = pytest.importorskip("sklearn.tests.test_calibration")

OWN_PARTS = "tests a private class or function of scikit-learn, not the classifier"
DISPLAY = "tests a plot of scikit-learn"
LEFT_OUT = {
    "test_calibration_zero_probability": OWN_PARTS,
    "test_sigmoid_calibration": OWN_PARTS,
    "test_sigmoid_calibration_max_abs_prediction_threshold": OWN_PARTS,
    "test_temperature_scaling_input_validation": OWN_PARTS,
    "test_temperature_scaling": "reads the attribute `beta_` of a private calibrator",
    "test_temperature_scaling_array_api_compliance": "reads `beta_`: see test_classifier.py",
    "test_temperature_scaling_array_api_with_str_y_estimator_not_prefit": "as above",
    "test_calibration_ensemble_false": "compares with private calibrators, number by number; "
    "test_classifier.py does so with ours",
    "test_calibration_curve": "tests another function",
    "test_calibration_curve_pos_label_error_str": "tests another function",
    "test_calibration_curve_pos_label": "tests another function",
    "test_calibration_display_kwargs": DISPLAY,
    "test_calibration_display_compute": DISPLAY,
    "test_plot_calibration_curve_pipeline": DISPLAY,
    "test_calibration_display_default_labels": DISPLAY,
    "test_calibration_display_label_class_plot": DISPLAY,
    "test_calibration_display_name_multiple_calls": DISPLAY,
    "test_calibration_display_ref_line": DISPLAY,
    "test_calibration_display_pos_label": DISPLAY,
}

NARROWED = ("test_calibration_multiclass",)

# Toy data is separable or has two rows per fold: the fits say that they are not to be trusted.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::focalibrate.calibrate.CalibrationWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def ours(estimator=None, **options):
    """Return our classifier with the default method of theirs.

    Our own default, which tries many methods, takes seconds per fit; `test_classifier.py` holds it
    to the contract.
    """
    return FocalCalibratedClassifierCV(estimator, **{"method": "sigmoid", **options})


@pytest.fixture(autouse=True)
def _ours_in_its_place(monkeypatch):
    monkeypatch.setattr(theirs, "CalibratedClassifierCV", ours)


@pytest.fixture
def global_random_seed():
    return 42


data = theirs.data
dict_data = theirs.dict_data
dict_data_pipeline = theirs.dict_data_pipeline
globals().update(
    (name, value)
    for name, value in vars(theirs).items()
    if name.startswith("test_") and name not in LEFT_OUT and name not in NARROWED
)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize("ensemble", [True, False])
def test_calibration_multiclass(method, ensemble):
    """On one of their two sets of data: most of the time goes into their support vectors."""
    theirs.test_calibration_multiclass(method, ensemble, seed=0)


def test_nothing_is_left_out_that_is_not_there():
    assert [name for name in LEFT_OUT if not hasattr(theirs, name)] == []
