import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from focalibrate.boosting import FocalBoostingClassifier
from focalibrate.metrics import nll
from focalibrate.theory import loss_form

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


LIBRARIES = ["xgboost", "lightgbm", "catboost"]
POLY = loss_form("poly_focal", gamma=2.0, epsilon=1.0)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("loss", [None, POLY], ids=["focal", "poly_focal"])
def test_early_stopping_keeps_the_rounds_of_the_least_loss(library, loss):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = np.where(rng.random(400) < 1 / (1 + np.exp(-2 * X[:, 0])), "yes", "no")
    settings = {"loss": loss, "n_jobs": 1, "learning_rate": 0.5}
    rows, kept_back = (X[:200], y[:200]), (X[200:], y[200:])
    stopped = FocalBoostingClassifier(
        library, n_estimators=200, early_stopping_rounds=10, **settings
    ).fit(*rows, eval_set=kept_back)
    full = FocalBoostingClassifier(library, n_estimators=200, **settings).fit(*rows)

    def loss_of(model):
        return model.objective_.mean_loss(y[200:] == "yes", model.decision_function(X[200:]))

    assert loss_of(stopped) < 0.9 * loss_of(full)
    listed = FocalBoostingClassifier(
        library, n_estimators=200, early_stopping_rounds=10, **settings
    ).fit(*rows, eval_set=[kept_back])
    assert_allclose(listed.predict_proba(X), stopped.predict_proba(X))
    with pytest.raises(ValueError, match=r"`eval_set` must be .* got a list of 2"):
        FocalBoostingClassifier(library, early_stopping_rounds=5).fit(*rows, eval_set=[rows] * 2)
    with pytest.raises(ValueError, match="must be given together"):
        FocalBoostingClassifier(library, early_stopping_rounds=5).fit(*rows)
    with pytest.raises(ValueError, match=r"`eval_set` has classes that `y` has not: \['maybe'\]"):
        FocalBoostingClassifier(library, early_stopping_rounds=5).fit(
            *rows, eval_set=(X[:2], ["yes", "maybe"])
        )


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_warm_start_adds_rounds_as_if_they_had_been_trained_at_once(library):
    X, y = load_breast_cancer(return_X_y=True)
    model = FocalBoostingClassifier(library, warm_start=True, n_estimators=5, n_jobs=1).fit(X, y)
    few = model.decision_function(X)
    model.set_params(n_estimators=12).fit(X, y)
    at_once = FocalBoostingClassifier(library, n_estimators=12, n_jobs=1).fit(X, y)
    assert np.abs(few - model.decision_function(X)).max() > 0.1
    # CatBoost draws the order of its rows again
    atol = 0.3 if library == "catboost" else 1e-4
    assert_allclose(model.predict_proba(X), at_once.predict_proba(X), atol=atol)
    with pytest.raises(ValueError, match="must be above the 12 rounds trained before"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="must hold the classes of the last call"):
        model.set_params(n_estimators=20).fit(X, y + 1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_of_text_are_categories(library):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    names = np.array(["ash", "elm", "fir", "oak", "yew"])
    kind = rng.integers(5, size=1500)
    rate = np.array([0.1, 0.9, 0.2, 0.8, 0.15])
    y = (rng.random(1500) < rate[kind]).astype(int)
    frame = pandas.DataFrame({"noise": rng.normal(size=1500), "tree": names[kind]})
    shallow = {"n_estimators": 60, "max_depth": 2, "n_jobs": 1}
    model = FocalBoostingClassifier(library, **shallow).fit(frame, y)
    assert model.categories_["tree"].tolist() == names.tolist()
    one_each = pandas.DataFrame({"noise": np.zeros(5), "tree": names})
    assert_allclose(model.predict_proba(one_each)[:, 1], rate, atol=0.12)
    as_category = one_each.astype({"tree": "category"})
    assert_allclose(model.predict_proba(as_category), model.predict_proba(one_each))
    unseen = pandas.DataFrame({"noise": [0.0], "tree": ["palm"]})
    assert np.isfinite(model.predict_proba(unseen)).all()
    with pytest.raises(ValueError, match=r"frame with the columns of the fit; \['tree'\]"):
        model.predict_proba(np.zeros((1, 2)))


@pytest.mark.parametrize("library", LIBRARIES)
def test_another_loss_gives_true_probabilities_too(library):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4000, 1))
    truth = 1 / (1 + np.exp(1 - 2 * X[:, 0]))
    y = (rng.random(4000) < truth).astype(int)
    loss = loss_form("asymmetric", gamma_pos=1.0, gamma_neg=3.0, margin=0.0)
    shallow = {"n_estimators": 80, "max_depth": 2, "n_jobs": 1}
    model = FocalBoostingClassifier(library, loss=loss, **shallow).fit(X, y)
    assert np.abs(model.predict_proba(X)[:, 1] - truth).mean() < 0.04
    raw = 1 / (1 + np.exp(-model.decision_function(X)))
    assert np.abs(raw - truth).mean() > 0.08
    with pytest.raises(ValueError, match="must be left out where `loss` is given"):
        FocalBoostingClassifier(library, loss=loss, alpha=0.3).fit(X, y)
