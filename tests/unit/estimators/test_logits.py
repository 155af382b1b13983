import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from focalibrate.calibrate import METHODS, PosteriorRecovery, fit
from focalibrate.estimators import LogitCalibrator
from focalibrate.theory import loss_form

NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    truth = 2.0 * rng.standard_normal((1500, 3))
    return 2.5 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", list(METHODS))
def test_it_is_the_fit_of_that_name(rows, method):
    k = 2 if METHODS[method].classes == "two" else 3
    logits, labels = rows[0][:300, :k], rows[1][:300] % k
    gamma = 2.0 if METHODS[method].needs_gamma else None
    model = LogitCalibrator(method, gamma=gamma).fit(logits, NAMES[labels])
    options = {} if gamma is None else {"gamma": gamma}
    want = fit(logits, labels, method=method, **options).with_class_names(NAMES[:k])
    assert model.calibrator_ == want
    probs = model.predict_proba(logits)
    assert_allclose(probs, want.probs(logits), rtol=0)
    assert (model.predict(logits) == NAMES[probs.argmax(axis=1)]).all()


def test_probabilities_in_two_columns_in_one_and_flat(rows):
    logits, labels = rows[0][:300, :2], rows[1][:300] % 2
    p = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    want = LogitCalibrator("temperature").fit(logits, labels).predict_proba(logits)
    for X in (np.stack([1 - p, p], axis=1), p[:, None], p):
        model = LogitCalibrator("temperature", scores="probs").fit(X, labels)
        assert_allclose(model.predict_proba(X), want, atol=1e-6)
    with pytest.raises(ValueError, match="`scores` must be one of logits, probs"):
        LogitCalibrator(scores="probabilities").fit(logits, labels)


def test_one_column_is_the_log_odds_of_the_second_class(rows):
    logits, labels = rows[0][:, :2], (rows[0][:, 1] + np.sin(rows[0][:, 2]) > 0).astype(int)
    wide = LogitCalibrator("temperature").fit(logits, labels)
    column = logits[:, 1:] - logits[:, :1]
    narrow = LogitCalibrator("temperature").fit(column, labels)
    assert_allclose(narrow.predict_proba(column), wide.predict_proba(logits), atol=1e-6)
    assert narrow.predict_proba(column).shape == (1500, 2)


def test_impossible_classes_and_float32(rows):
    logits, labels = rows[0].astype(np.float32), rows[1]
    logits[labels == 0, 2] = -np.inf
    probs = LogitCalibrator("temperature").fit(logits, labels).predict_proba(logits)
    assert probs.dtype == np.float32
    assert (probs[labels == 0, 2] == 0).all()


def test_classes_that_never_occur_can_be_named(rows):
    logits, labels = rows
    few = labels < 2
    with pytest.raises(ValueError, match=r"got 3 columns for 2 classes. If `y` lacks a class"):
        LogitCalibrator("temperature").fit(logits[few], labels[few])
    model = LogitCalibrator("temperature", classes=[0, 1, 2]).fit(logits[few], labels[few])
    assert model.predict_proba(logits).shape == (1500, 3)


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([2, 1, 0], r"`classes` must be sorted and distinct, got \[2, 1, 0\]"),
        ([0, 1, 7], r"`y` must hold labels of `classes`, found \[2\]"),
    ],
)
def test_bad_classes(rows, classes, message):
    with pytest.raises(ValueError, match=message):
        LogitCalibrator("temperature", classes=classes).fit(*rows)


def test_bad_rows(rows):
    logits, labels = rows
    with pytest.raises(ValueError, match="one label per row of `X`, got 9 for 1500"):
        LogitCalibrator("temperature").fit(logits, labels[:9])
    broken = logits.copy()
    broken[4, 1] = np.nan
    with pytest.raises(ValueError, match="must not contain nan or \\+inf, but row 4"):
        LogitCalibrator("temperature").fit(broken, labels)


@pytest.mark.parametrize("method", ["temperature", "vector", "isotonic", "histogram"])
def test_whole_weights_are_repeated_rows(rows, method):
    logits, labels = rows
    weights = np.random.default_rng(1).integers(0, 4, len(labels))
    weighted = LogitCalibrator(method).fit(logits, labels, sample_weight=weights)
    repeated = LogitCalibrator(method).fit(logits.repeat(weights, axis=0), labels.repeat(weights))
    assert_allclose(weighted.predict_proba(logits), repeated.predict_proba(logits), rtol=1e-9)


def test_weights_scale_freely(rows):
    weights = np.random.default_rng(1).exponential(size=len(rows[1]))
    one = LogitCalibrator("temperature").fit(*rows, sample_weight=weights)
    other = LogitCalibrator("temperature").fit(*rows, sample_weight=0.01 * weights)
    assert one.calibrator_.temperature == pytest.approx(other.calibrator_.temperature, rel=1e-6)


def test_pipeline_clone_and_grid_search(rows):
    model = make_pipeline(FunctionTransformer(np.negative), LogitCalibrator("temperature"))
    grid = {"logitcalibrator__method": ["identity", "temperature"]}
    search = GridSearchCV(clone(model), grid, scoring="neg_log_loss", cv=3)
    search.fit(-rows[0], rows[1])
    assert search.best_params_ == {"logitcalibrator__method": "temperature"}
    assert search.best_estimator_[-1].calibrator_.temperature == pytest.approx(2.5, rel=0.1)


def test_the_recovery_of_another_loss(rows):
    form = loss_form("poly_focal", gamma=2.0, epsilon=1.0)
    model = LogitCalibrator("posterior_recovery", options={"loss": form}).fit(*rows)
    want = PosteriorRecovery(loss=form).probs(rows[0])
    assert_allclose(model.predict_proba(rows[0]), want)
