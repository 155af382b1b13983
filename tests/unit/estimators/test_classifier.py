import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    LeaveOneOut,
    ShuffleSplit,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from focalibrate.calibrate import choice, fit, fit_temperature
from focalibrate.estimators import FocalCalibratedClassifierCV

# Separable toy data has no best temperature, and says so.
pytestmark = pytest.mark.filterwarnings("ignore::focalibrate.calibrate.CalibrationWarning")


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(600, centers=4, cluster_std=4.0, random_state=0)


# Naive Bayes takes the log of a prior that zero weights brought to 0.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
@parametrize_with_checks(
    [
        FocalCalibratedClassifierCV(GaussianNB(), method="temperature", cv=2),
        FocalCalibratedClassifierCV(RidgeClassifier(), method="isotonic", cv=2),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([FocalCalibratedClassifierCV(RidgeClassifier(), cv=2, ensemble=False)])
def test_scikit_learn_contract_of_the_automatic_choice(estimator, check, monkeypatch):
    # The two simplest methods and an average: the contract is of the classifier, not of the fits.
    for kind, (single, averaged) in choice.AUTOMATIC.items():
        monkeypatch.setitem(choice.AUTOMATIC, kind, (single[:1], averaged))
    check(estimator)


def test_the_defaults_fit_and_predict(blobs):
    X, y = blobs
    model = FocalCalibratedClassifierCV().fit(X[:200], y[:200])
    probs = model.predict_proba(X)
    assert len(model.calibrated_classifiers_) == 5
    assert isinstance(model.calibrated_classifiers_[0].estimator, LinearSVC)
    assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-12)
    assert model.score(X, y) > 1.4 / model.classes_.size


def test_auto_is_the_automatic_choice(blobs):
    X, y = blobs
    base = GaussianNB().fit(X[:300], y[:300])
    model = FocalCalibratedClassifierCV(FrozenEstimator(base)).fit(X[300:], y[300:])
    raw = base.predict_proba(X)
    raw /= raw.sum(axis=1, keepdims=True)  # weights may hang on the last digit
    want = fit(probs=raw[300:], labels=y[300:])
    probs = want.probs(probs=raw)
    assert_allclose(model.predict_proba(X), probs, rtol=1e-6)


@pytest.mark.parametrize(("n_classes", "kind"), [(2, "platt"), (3, "structured_vector")])
def test_the_sigmoid_method_of_scikit_learn(blobs, n_classes, kind):
    X, y = blobs
    X, y = X[y < n_classes], y[y < n_classes]
    model = FocalCalibratedClassifierCV(GaussianNB(), method="sigmoid", cv=2).fit(X, y)
    assert {m.calibrator.kind for m in model.calibrated_classifiers_} == {kind}


def test_metadata_is_routed_to_the_classifier_and_the_splitter(blobs):
    X, y = blobs
    groups = np.arange(len(y)) % 3
    with config_context(enable_metadata_routing=True):
        base = GaussianNB().set_fit_request(sample_weight=True)
        splitter = GroupKFold(3).set_split_request(groups=True)
        model = FocalCalibratedClassifierCV(base, method="temperature", cv=splitter)
        model.fit(X, y, sample_weight=1.0 + (y == 0), groups=groups)
        routed = model.predict_proba(X)
    by_hand = [(np.flatnonzero(groups != g), np.flatnonzero(groups == g)) for g in range(3)]
    model = FocalCalibratedClassifierCV(GaussianNB(), method="temperature", cv=by_hand)
    model.fit(X, y, sample_weight=1.0 + (y == 0))
    assert_allclose(routed, model.predict_proba(X), rtol=1e-12)


@pytest.mark.slow
def test_leave_one_out_calibrates_on_all_rows(blobs):
    X, y = blobs[0][:60], blobs[1][:60]
    model = FocalCalibratedClassifierCV(GaussianNB(), method="temperature", cv=LeaveOneOut())
    (member,) = model.fit(X, y).calibrated_classifiers_
    probs = cross_val_predict(GaussianNB(), X, y, cv=LeaveOneOut(), method="predict_proba")
    want = fit_temperature(probs=probs, labels=y).temperature
    assert_allclose(member.calibrator.temperature, want, rtol=1e-6)


def test_data_frames_keep_their_column_names(blobs):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(blobs[0], columns=["length", "width"])
    model = FocalCalibratedClassifierCV(RidgeClassifier(), method="temperature", cv=2)
    model.fit(X, np.array(["d", "a", "c", "b"])[blobs[1]])
    assert model.feature_names_in_.tolist() == ["length", "width"]
    assert model.calibrated_classifiers_[0].calibrator.class_names == ("a", "b", "c", "d")


def test_one_calibrator_is_fitted_on_held_out_logits(blobs):
    X, y = blobs
    model = FocalCalibratedClassifierCV(LogisticRegression(), method="temperature", ensemble=False)
    model.fit(X, y)
    logits = cross_val_predict(LogisticRegression(), X, y, method="decision_function")
    temperature = fit_temperature(logits, y).temperature
    (member,) = model.calibrated_classifiers_
    assert_allclose(member.calibrator.temperature, temperature, rtol=1e-6)
    full = LogisticRegression().fit(X, y).decision_function(X)
    assert_allclose(model.predict_proba(X), softmax(full / temperature, axis=1), rtol=1e-5)


def test_an_ensemble_averages_its_members(blobs):
    X, y = blobs
    model = FocalCalibratedClassifierCV(GaussianNB(), method="temperature", cv=3).fit(X, y)
    members = model.calibrated_classifiers_
    by_hand = [m.calibrator.probs(probs=m.estimator.predict_proba(X)) for m in members]
    assert_allclose([m.predict_proba(X) for m in members], by_hand, rtol=1e-10)
    assert_allclose(model.predict_proba(X), np.mean(by_hand, axis=0), rtol=1e-10)


@pytest.mark.parametrize("wrap", [FrozenEstimator, lambda m: m], ids=["frozen", "prefit"])
def test_a_fitted_classifier_is_not_trained_again(blobs, wrap):
    X, y = blobs
    base = GaussianNB().fit(X[:300], y[:300])
    theta = base.theta_.copy()
    cv = 5 if wrap is FrozenEstimator else "prefit"
    model = FocalCalibratedClassifierCV(wrap(base), method="temperature", cv=cv)
    model.fit(X[300:], y[300:])
    logits = np.log(base.predict_proba(X[300:]))
    assert_allclose(
        model.calibrated_classifiers_[0].calibrator.temperature,
        fit_temperature(logits, y[300:]).temperature,
        rtol=1e-6,
    )
    assert (base.theta_ == theta).all()
    assert model.n_features_in_ == 2


def test_a_fitted_classifier_keeps_classes_the_rows_lack(blobs):
    X, y = blobs
    base = GaussianNB().fit(X, y)
    model = FocalCalibratedClassifierCV(base, method="temperature", cv="prefit")
    model.fit(X[y > 0], y[y > 0])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.predict_proba(X).shape == (600, 4)


@pytest.mark.slow
def test_calibration_lowers_the_log_loss_of_an_overconfident_classifier():
    X, y = make_blobs(2000, n_features=2, centers=2, cluster_std=6.0, random_state=1)
    X = np.repeat(X, 10, axis=1)  # naive Bayes counts every copy as new evidence
    raw = GaussianNB().fit(X[:1000], y[:1000]).predict_proba(X[1000:])
    for method in ("temperature", "focal_temperature", "isotonic"):
        model = FocalCalibratedClassifierCV(GaussianNB(), method=method, cv=3)
        model.fit(X[:1000], y[:1000])
        assert log_loss(y[1000:], model.predict_proba(X[1000:])) < 0.8 * log_loss(y[1000:], raw)


@pytest.mark.parametrize(
    "base",
    [
        SVC(),
        RandomForestClassifier(10, random_state=0),
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), RidgeClassifier()),
    ],
    ids=lambda b: type(b).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_any_classifier_and_string_labels(blobs, base, n_classes):
    X, y = blobs
    X, y = X[y < n_classes], np.array(["d", "a", "c", "b"])[y[y < n_classes]]
    model = FocalCalibratedClassifierCV(base, method="temperature", cv=3).fit(X, y)
    assert model.classes_.tolist() == sorted(set(y))
    agreement = np.mean(model.predict(X) == clone(base).fit(X, y).predict(X))
    assert agreement > 0.75
    assert model.score(X, y) > 1.4 / model.classes_.size


def test_grid_search_over_pipeline_and_method(blobs):
    X, y = blobs
    model = make_pipeline(
        StandardScaler(), FocalCalibratedClassifierCV(GaussianNB(), method="temperature", cv=2)
    )
    grid = {
        "focalcalibratedclassifiercv__method": ["identity", "temperature"],
        "focalcalibratedclassifiercv__estimator__var_smoothing": [1e-9, 1e-3],
    }
    search = GridSearchCV(model, grid, scoring="neg_log_loss", cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.parametrize("method", ["temperature", "isotonic", "vector"])
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_a_class_missing_from_folds(blobs, method, ensemble):
    X, y = blobs
    keep = np.flatnonzero(y < 3)
    rare = np.flatnonzero(y == 3)[:1]
    X, y = X[np.r_[keep, rare]], y[np.r_[keep, rare]]
    model = FocalCalibratedClassifierCV(GaussianNB(), method=method, cv=3, ensemble=ensemble)
    model.fit(X, y)
    probs = model.predict_proba(X)
    assert probs.shape == (len(y), 4)
    assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-10)
    if ensemble:  # of three classifiers one has never seen the class
        sizes = sorted(len(m.estimator.classes_) for m in model.calibrated_classifiers_)
        assert sizes == [3, 4, 4]


def test_splits_need_not_cover_every_row(blobs):
    X, y = blobs
    split = ShuffleSplit(2, test_size=0.3, random_state=0)
    model = FocalCalibratedClassifierCV(
        GaussianNB(), method="temperature", cv=split, ensemble=False
    ).fit(X, y)
    assert len(model.calibrated_classifiers_) == 1


def test_whole_weights_are_repeated_rows(blobs):
    X, y = blobs[0][:300], blobs[1][:300]
    weights = np.random.default_rng(0).integers(0, 4, 300)
    base = GaussianNB().fit(*blobs)
    model = FocalCalibratedClassifierCV(FrozenEstimator(base), method="temperature")
    weighted = clone(model).fit(X, y, sample_weight=weights).predict_proba(X)
    repeated = clone(model).fit(X.repeat(weights, axis=0), y.repeat(weights)).predict_proba(X)
    assert_allclose(weighted, repeated, rtol=1e-12)


def test_weights_do_not_reach_a_classifier_that_takes_none(blobs):
    X, y = blobs
    model = FocalCalibratedClassifierCV(KNeighborsClassifier(), method="temperature", cv=2)
    even = model.fit(X, y).predict_proba(X)
    with pytest.warns(UserWarning, match=r"KNeighborsClassifier.fit takes no `sample_weight`"):
        skewed = model.fit(X, y, sample_weight=1.0 + 9.0 * (y == 0)).predict_proba(X)
    assert (np.argsort(even, axis=1)[:, -1] == np.argsort(skewed, axis=1)[:, -1]).mean() > 0.95
    assert np.abs(even - skewed).max() > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "plat"}, r"`method` must be one of auto, identity, .*got 'plat'"),
        (
            {"method": "posterior_recovery"},
            r"`gamma` must be given for method='posterior_recovery', got None",
        ),
        (
            {"method": "vector", "options": {"criterion": "nll"}},
            r"`options` must be keywords of the fit of method='vector', found \['criterion'\]",
        ),
        (
            {"method": "temperature", "gamma": 2.0},
            r"`gamma` must be None for method='temperature', got 2.0",
        ),
        ({"cv": "prefit", "estimator": None}, r"`estimator` must be a fitted classifier"),
    ],
)
def test_options_that_do_not_fit_together(blobs, options, message):
    model = FocalCalibratedClassifierCV(GaussianNB(), cv=2).set_params(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(*blobs)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "`sample_weight` must have one weight per example, 600, got 3"),
        (-np.ones(600), "`sample_weight` must be finite and >= 0, but row 0 has -1"),
        (np.full(600, np.nan), r"`sample_weight` must be finite"),
    ],
)
def test_bad_weights(blobs, weights, message):
    with pytest.raises(ValueError, match=message):
        FocalCalibratedClassifierCV(GaussianNB()).fit(*blobs, sample_weight=weights)


def test_one_class_and_unknown_classes_are_refused(blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="at least two classes, found only one class"):
        FocalCalibratedClassifierCV(GaussianNB()).fit(X, np.zeros(600, dtype=int))
    base = GaussianNB().fit(X[y < 3], y[y < 3])
    with pytest.raises(ValueError, match=r"classes the estimator knows, found \[3\]"):
        FocalCalibratedClassifierCV(base, cv="prefit").fit(X, y)


def test_scores_of_pairs_of_classes_are_refused(blobs):
    model = FocalCalibratedClassifierCV(SVC(decision_function_shape="ovo"), cv=2)
    with pytest.raises(ValueError, match=r"shape \[N, 4\], but SVC gives \(300, 6\)"):
        model.fit(*blobs)


def test_no_row_to_calibrate_on_is_refused(blobs):
    X, y = blobs
    split = [(np.flatnonzero(y < 3), np.flatnonzero(y == 3))]
    model = FocalCalibratedClassifierCV(GaussianNB(), method="temperature", cv=split)
    with pytest.raises(ValueError, match="`y` must leave rows to calibrate on"):
        model.fit(X, y)


def test_a_fold_of_one_class_is_calibrated_on_all_folds(blobs):
    X, y = blobs
    few, many = np.flatnonzero(y == 0)[:50], np.flatnonzero(y != 0)
    split = [(np.setdiff1d(np.arange(600), part), part) for part in (few, many[::2], many[1::2])]
    model = FocalCalibratedClassifierCV(GaussianNB(), method="temperature", cv=split).fit(X, y)
    first, *others = [m.calibrator.temperature for m in model.calibrated_classifiers_]
    alone = clone(model).set_params(ensemble=False).fit(X, y)
    assert first == alone.calibrated_classifiers_[0].calibrator.temperature
    assert first not in others


DISPATCHED = """
import numpy as np, torch
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from focalibrate.estimators import FocalCalibratedClassifierCV, LogitCalibrator

X, y = make_classification(200, n_features=6, n_informative=4, n_classes=3, random_state=0)
names = np.array(["a", "b", "c"])[y]
for make in (
    lambda: FocalCalibratedClassifierCV(LinearDiscriminantAnalysis(), method="temperature", cv=3),
    lambda: LogitCalibrator("temperature"),
):
    given = X if make().__class__ is FocalCalibratedClassifierCV else X[:, :3]
    want = make().fit(given, y).predict_proba(given)
    for dtype in (torch.float64, torch.float32):
        scores = torch.tensor(given, dtype=dtype)
        with config_context(array_api_dispatch=True):
            model = make().fit(scores, torch.tensor(y))
            probs, labels = model.predict_proba(scores), model.predict(scores)
            text = LogitCalibrator("temperature").fit(scores[:, :3], names).predict(scores[:, :3])
        assert isinstance(probs, torch.Tensor) and probs.dtype == dtype
        assert np.abs(probs.numpy() - want).max() < 1e-4
        assert isinstance(labels, torch.Tensor) and (labels.numpy() == want.argmax(1)).all()
        assert isinstance(text, np.ndarray) and set(text) <= {"a", "b", "c"}
    assert isinstance(make().fit(given, y).predict_proba(given), np.ndarray)
"""


# scikit-learn's own cases, `test_temperature_scaling_array_api_...`, which read the attribute
# `beta_` of a private calibrator: here our temperature in its place.
ALL_LIBRARIES = """
import itertools, unittest, warnings
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils._array_api import get_namespace, move_to
from sklearn.utils._array_api import yield_namespace_device_dtype_combinations
from sklearn.utils.estimator_checks import _array_api_for_tests
from focalibrate.estimators import FocalCalibratedClassifierCV

warnings.simplefilter("ignore")
X, y = make_classification(
    n_samples=1000, n_features=10, n_informative=10, n_redundant=0, n_classes=5,
    n_clusters_per_class=1, class_sep=2.0, random_state=42,
)
found = set()
libraries = yield_namespace_device_dtype_combinations()
for case, ensemble, weighted in itertools.product(libraries, (False, True), (False, True)):
    name, place, dtype = case
    try:
        xp, device = _array_api_for_tests(name, place, dtype)
    except unittest.SkipTest:
        continue
    parts = [x.astype(dtype) for x in train_test_split(X, y, random_state=42)]
    train, other, train_labels, labels = parts
    weights = np.where(np.arange(len(labels)) % 2, 2, 1) if weighted else None

    def fitted(a, b, c, d):
        frozen = FrozenEstimator(LinearDiscriminantAnalysis().fit(a, b))
        model = FocalCalibratedClassifierCV(frozen, cv=3, method="temperature", ensemble=ensemble)
        return model.fit(c, d, sample_weight=weights)

    def of_text(rows):
        model = FocalCalibratedClassifierCV(
            LinearDiscriminantAnalysis(), cv=3, method="temperature", ensemble=ensemble
        )
        text = np.array(list("abcde"))[labels.astype(int)]
        return model.fit(rows, text, sample_weight=weights)

    want, text = fitted(train, train_labels, other, labels), of_text(other).predict(other)
    with config_context(array_api_dispatch=True):
        a, b, c, d = (xp.asarray(x, device=device) for x in (train, train_labels, other, labels))
        model = fitted(a, b, c, d)
        temperatures = [
            m.calibrated_classifiers_[0].calibrator.temperature for m in (model, want)
        ]
        assert_allclose(*temperatures, rtol=1e-3 if dtype == "float32" else 1e-7)
        assert_allclose(move_to(model.predict(a), xp=np, device="cpu"), want.predict(train))
        assert get_namespace(model.predict_proba(a))[0].__name__ == xp.__name__
        own = of_text(c)
        assert_array_equal(own.predict(c), text)
        assert own.calibrated_classifiers_[0].calibrator.class_names == tuple("abcde")
    found.add(name)
print(*sorted(found))
"""


@pytest.mark.slow
def test_every_library_that_scikit_learn_dispatches_gives_numpys_numbers_in_its_own_arrays():
    pytest.importorskip("array_api_strict")
    pytest.importorskip("torch")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}  # read when SciPy is imported
    run = [sys.executable, "-c", DISPATCHED + ALL_LIBRARIES]
    done = subprocess.run(run, env=environment, check=True, capture_output=True, text=True)
    assert {"array_api_strict", "torch"} <= set(done.stdout.split())
