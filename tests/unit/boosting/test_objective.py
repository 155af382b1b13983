"""Training with the libraries themselves, on data whose posterior is known."""

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from catboost import CatBoost
from numpy.testing import assert_allclose
from scipy.special import log_softmax, softmax

from focalibrate.boosting import FocalObjective, focal_loss_name, recovery_of_catboost
from focalibrate.losses import focal_loss


def problem(n, k, seed=0):
    """Two inputs, smooth true posterior."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 2))
    scores = np.stack([np.cos((i + 1) * x[:, 0]) + 0.6 * i * x[:, 1] for i in range(k)], axis=1)
    eta = softmax(scores, axis=1)
    labels = (np.log(eta) + rng.gumbel(size=eta.shape)).argmax(axis=1)
    return x, labels, eta


def divergence(eta, probs):
    return float(np.mean(np.sum(eta * (np.log(eta) - np.log(probs)), axis=1)))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_recovered_probabilities_come_near_the_truth(library, k):
    x, labels, eta = problem(4000, k)
    objective = FocalObjective(gamma=3.0, class_weight=(1.0, 3.0, 0.5)[:k])
    extra = {} if k == 2 else {"num_class": k}
    if library == "xgboost":
        data = xgb.DMatrix(x, label=labels)
        settings = {"eta": 0.2, "max_depth": 3, "base_score": 0.0, "nthread": 1, **extra}
        model = xgb.train(settings, data, 60, obj=objective)
        margins = model.predict(data, output_margin=True)
    else:
        settings = {"learning_rate": 0.2, "max_depth": 3, "verbosity": -1, "num_threads": 1}
        data = lgb.Dataset(x, label=labels)
        model = lgb.train({**settings, **extra, "objective": objective}, data, 60)
        margins = model.predict(x, raw_score=True)
    raw = margins if k > 2 else np.stack([np.zeros(len(margins)), margins], axis=1)
    after = divergence(eta, objective.probs(margins))
    assert after < 0.05
    assert after < 0.3 * divergence(eta, softmax(raw, axis=1))


@pytest.mark.parametrize("k", [2, 4])
def test_the_objective_itself_may_be_passed(k):
    x, labels, _ = problem(400, k)
    objective = FocalObjective(2.0)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(labels))
    margins = np.random.default_rng(2).normal(size=(400, k) if k > 2 else 400)
    expected = objective(labels, margins, weight)
    for data in (
        xgb.DMatrix(x, label=labels, weight=weight),
        lgb.Dataset(x, labels, weight=weight),
    ):
        for found, want in zip(objective(margins, data), expected, strict=True):
            assert_allclose(found, want, rtol=1e-6)
    for found, want in zip(objective(labels, margins, weight), expected, strict=True):
        assert_allclose(found, want)
    xgb.train({"num_class": k} if k > 2 else {}, xgb.DMatrix(x, label=labels), 1, obj=objective)
    model = xgb.XGBClassifier(objective=objective, n_estimators=1).fit(x, labels)
    assert model.predict(x, output_margin=True).shape == margins.shape


@pytest.mark.parametrize("k", [2, 4])
def test_the_two_ways_to_pass_an_objective_agree(k):
    x, labels, _ = problem(400, k)
    objective = FocalObjective(gamma=2.0)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(labels))
    extra = {} if k == 2 else {"num_class": k}
    settings = {"eta": 0.3, "max_depth": 2, "base_score": 0.0, "nthread": 1}
    data = xgb.DMatrix(x, label=labels, weight=weight)
    trained = xgb.train({**settings, **extra}, data, 5, obj=objective)
    model = xgb.XGBClassifier(
        objective=objective,
        n_estimators=5,
        learning_rate=0.3,
        max_depth=2,
        base_score=0.5,  # as a probability: a margin of 0
        n_jobs=1,
    ).fit(x, labels, sample_weight=weight)
    want = objective.probs(trained.predict(data, output_margin=True))
    got = objective.probs(model.predict(x, output_margin=True))
    assert_allclose(got, want, rtol=1e-4)

    settings = {"learning_rate": 0.3, "max_depth": 2, "num_threads": 1, "verbosity": -1}
    data = lgb.Dataset(x, label=labels, weight=weight)
    trained = lgb.train({**settings, **extra, "objective": objective}, data, 5)
    model = lgb.LGBMClassifier(
        objective=objective,
        n_estimators=5,
        learning_rate=0.3,
        max_depth=2,
        n_jobs=1,
        verbosity=-1,
    ).fit(x, labels, sample_weight=weight)
    assert_allclose(
        model.predict(x, raw_score=True), trained.predict(x, raw_score=True), rtol=1e-5, atol=1e-6
    )


def test_gamma_zero_trains_as_the_library_does():
    x, labels, _ = problem(500, 2)
    data = lgb.Dataset(x, label=labels, free_raw_data=False)
    settings = {"num_threads": 1, "verbosity": -1, "boost_from_average": False}
    own = lgb.train({**settings, "objective": "binary"}, data, 10)
    ours = lgb.train({**settings, "objective": FocalObjective(gamma=0.0)}, data, 10)
    assert_allclose(ours.predict(x), own.predict(x, raw_score=True), rtol=1e-5, atol=1e-6)


def test_the_metric_is_the_mean_focal_loss():
    x, labels, _ = problem(200, 3)
    margins = np.random.default_rng(0).normal(size=(200, 3)) * 3
    objective = FocalObjective(gamma=2.0, class_weight=(1.0, 2.0, 3.0))
    weight = np.array([1.0, 2.0, 3.0])[labels]
    want = np.average(focal_loss(margins, labels, gamma=2.0), weights=weight)
    name, value = objective.xgboost_metric(margins, xgb.DMatrix(x, label=labels))
    assert name == "loss"
    assert_allclose(value, want, rtol=1e-12)
    data = lgb.Dataset(x, label=labels).construct()
    assert objective.lightgbm_metric(margins, data) == (name, value, False)


def test_catboost_with_its_own_focal_loss():
    x, labels, eta = problem(4000, 2)
    model = CatBoost(
        {
            "loss_function": focal_loss_name(2.0, 0.25),
            "iterations": 150,
            "depth": 4,
            "verbose": False,
            "allow_writing_files": False,
            "thread_count": 1,
        }
    ).fit(x, labels)
    recovery = recovery_of_catboost(model)
    assert recovery.gamma == 2.0
    margins = model.predict(x, prediction_type="RawFormulaVal")
    scores = log_softmax(np.stack([np.zeros(len(margins)), margins], axis=1), axis=1)
    raw, after = np.exp(scores)[:, 1], recovery.probs(scores)[:, 1]
    assert np.abs(after - eta[:, 1]).mean() < 0.5 * np.abs(raw - eta[:, 1]).mean()


def test_another_catboost_loss_is_refused_with_the_name_to_use():
    x, labels, _ = problem(50, 2)
    settings = {"iterations": 2, "verbose": False, "allow_writing_files": False}
    model = CatBoost({**settings, "loss_function": "Logloss"}).fit(x, labels)
    with pytest.raises(ValueError, match=r"its loss is 'Logloss'.*Focal:focal_alpha=0\.25"):
        recovery_of_catboost(model)


def test_bad_weights_are_refused():
    with pytest.raises(ValueError, match="`alpha` and `class_weight` must not be given together"):
        FocalObjective(alpha=0.2, class_weight=(1.0, 2.0))
    with pytest.raises(ValueError, match=r"one finite number > 0 per class, got \(1.0, 0.0\)"):
        FocalObjective(class_weight=(1.0, 0.0))
    with pytest.raises(ValueError, match="each of the 3 classes, got 2"):
        FocalObjective(class_weight=(1.0, 2.0))(np.zeros(4), np.zeros((4, 3)))
