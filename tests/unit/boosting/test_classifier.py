import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from focalibrate.boosting import FocalBoostingClassifier
from focalibrate.metrics import nll

FAST = {"n_estimators": 20, "learning_rate": 0.3, "n_jobs": 1}


EXPECTED_TO_FAIL = {
    "check_sample_weight_equivalence_on_dense_data",  # LightGBM's bins count rows
    "check_class_weight_classifiers",  # weights are undone: they do not move predictions
}


@parametrize_with_checks(
    [FocalBoostingClassifier("lightgbm", **FAST, params={"min_child_samples": 1})]
)
def test_scikit_learn_accepts_it(estimator, check):
    if check.func.__name__ in EXPECTED_TO_FAIL:
        with pytest.raises(AssertionError):
            check(estimator)
    else:
        check(estimator)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_names_of_classes_and_rows_that_sum_to_one(library):
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["malignant", "benign"])[y]
    model = FocalBoostingClassifier(library, alpha=0.25, **FAST).fit(X, names)
    probs = model.predict_proba(X)
    assert model.classes_.tolist() == ["benign", "malignant"]
    assert_allclose(probs.sum(axis=1), 1.0)
    assert (model.predict(X) == model.classes_[probs.argmax(axis=1)]).all()
    assert (model.predict(X) == names).mean() > 0.95


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_three_classes_with_balanced_weights(library):
    X, y = load_iris(return_X_y=True)
    keep = np.r_[0:20, 50:150]
    model = FocalBoostingClassifier(library, class_weight="balanced", **FAST)
    probs = cross_val_predict(model, X[keep], y[keep], method="predict_proba", cv=3)
    assert nll(probs, y[keep]) < 0.6


def test_catboost_refuses_three_classes():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"must have two classes, got 3.*'xgboost' or 'lightgbm'"):
        FocalBoostingClassifier("catboost", **FAST).fit(X, y)


def test_alpha_is_for_two_classes():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="`alpha` must be left out for 3 classes"):
        FocalBoostingClassifier("lightgbm", alpha=0.3, **FAST).fit(X, y)
