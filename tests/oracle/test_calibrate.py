"""The fits against independent numbers: given oracles, plain loops, SciPy, scikit-learn."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from focalibrate.calibrate import (
    CalibrationWarning,
    FocalTemperatureScaling,
    Identity,
    fit_focal_temperature,
    fit_temperature,
)
from focalibrate.calibrate.fit_focal_temperature import FINE_TEMPERATURES, FOCAL_GAMMAS
from focalibrate.calibrate.focal_rows import focal_rows
from focalibrate.metrics import adaptive_ece, ece, error_rate, mce, nll

FROM_005 = FINE_TEMPERATURES[4:]  # the oracle skips T < 0.05
REAL_LOGITS = ["cifar100_resnet20", "cifar10_resnet20_akamaster", "agnews_gpt2"]


@pytest.fixture(scope="module")
def oracle(oracles):
    return oracles["labels2_independent_float64"]


@pytest.fixture(scope="module")
def given():
    logits = np.random.RandomState(0).randn(2000, 10) * 3
    gumbel = np.random.RandomState(2).gumbel(size=(2000, 10))
    return logits, (logits / 1.7 + gumbel).argmax(1)


def test_temperature_by_log_loss(oracle, given):
    found = fit_temperature(*given)
    report = found.report
    assert_allclose(found.temperature, oracle["TS_NLL"]["T"], rtol=1e-7)
    assert_allclose(report.value, oracle["TS_NLL"]["loss"], rtol=1e-14)


@pytest.mark.parametrize("gamma", [1, 2, 3, 5])
def test_temperature_by_focal_loss(oracle, given, gamma):
    found = fit_temperature(*given, criterion="focal", gamma=gamma)
    report = found.report
    want = oracle[f"TS_FL_g{gamma}"]
    assert_allclose(found.temperature, want["T"], rtol=1e-7)
    assert_allclose(report.value, want["loss"], rtol=1e-14)


@pytest.mark.slow
def test_grid_by_log_loss(oracle, given):
    value, gamma, temperature = oracle["FTS_grid_best(value,gamma,T); T<0.05 skipped"]["nll"]
    options = {"criterion": "nll", "temperatures": FROM_005}
    found = fit_focal_temperature(*given, **options)
    report = found.report
    assert (found.gamma, found.temperature) == (gamma, temperature)
    assert_allclose(report.value, value, rtol=1e-13)
    value, temperature = oracle["TS_same_grid_best(value,T)"]["nll"]
    found = fit_temperature(*given, **options)
    report = found.report
    assert found.temperature == temperature
    assert_allclose(report.value, value, rtol=1e-13)


def interpolated_edges_error(confidence, correct, n_bins=15):
    """The oracle's own "ece": bins from interpolated quantiles, which drop the lowest row.

    Its bins are interpolated edges, not ours, so it checks the confidences, not the fit.
    """
    n = len(confidence)
    edges = np.interp(np.linspace(0, n, n_bins + 1), np.arange(n), np.sort(confidence))
    index = np.searchsorted(edges, confidence, side="left")
    inside = (index >= 1) & (index <= n_bins)
    gap = np.bincount(index[inside], (confidence - correct)[inside])
    return np.abs(gap).sum() / n


@pytest.mark.slow
def test_grid_of_confidences_has_the_minimum_of_the_oracle(oracle, given):
    rows = focal_rows(*given)
    values = np.empty((len(FOCAL_GAMMAS), len(FROM_005)))
    for j, temperature in enumerate(FROM_005):
        at = rows.at(temperature, FOCAL_GAMMAS)
        for i, gamma in enumerate(FOCAL_GAMMAS):
            values[i, j] = interpolated_edges_error(at.confidence(i, gamma), rows.correct)
    value, gamma, temperature = oracle["FTS_grid_best(value,gamma,T); T<0.05 skipped"]["ece"]
    i, j = np.unravel_index(values.argmin(), values.shape)
    assert (FOCAL_GAMMAS[i], FROM_005[j]) == (gamma, temperature)
    assert_allclose(values.min(), value, rtol=1e-12)
    value, temperature = oracle["TS_same_grid_best(value,T)"]["ece"]
    row = values[FOCAL_GAMMAS.index(0.0)]
    assert FROM_005[row.argmin()] == temperature
    assert_allclose(row.min(), value, rtol=1e-12)


def scores_of(shared, name):
    with np.load(shared / "data" / "logits" / f"{name}.npz") as data:
        return data["all_logits"], data["all_labels"].astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_LOGITS)
def test_temperature_of_real_logits_is_scipys(shared, name):
    logits, labels = scores_of(shared, name)
    z = logits.astype(np.float64)

    def loss(log_t):
        return -np.mean(log_softmax(z / np.exp(log_t), axis=1)[np.arange(len(z)), labels])

    best = minimize_scalar(loss, bracket=(-1, 0, 2), options={"xtol": 1e-10})
    found = fit_temperature(logits, labels)
    report = found.report
    assert_allclose(found.temperature, np.exp(best.x), rtol=1e-6)
    assert_allclose(report.value, best.fun, rtol=1e-6)


def plain_psi(z, gamma, temperature):
    """Psi by its formula, in plain NumPy."""
    x = z / temperature
    log_v = log_softmax(x, axis=1)
    order = np.sort(x, axis=1)
    top, second = order[:, -1:], order[:, :-1]
    log_rest_top = np.log(np.exp(second - top).sum(axis=1, keepdims=True))
    log_rest_top -= np.log1p(np.exp(log_rest_top))
    is_top = np.arange(z.shape[1]) == x.argmax(axis=1)[:, None]
    log_rest = np.where(is_top, log_rest_top, np.log1p(-np.exp(np.where(is_top, -1.0, log_v))))
    r = -np.exp(log_v) * log_v * np.exp(-log_rest)
    return softmax(log_v - gamma * log_rest - np.log1p(gamma * r), axis=1)


def plain_adaptive_ece(probs, labels, n_bins=15):
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == labels
    parts = np.array_split(np.argsort(confidence), n_bins)
    return sum(abs((confidence - correct)[part].sum()) for part in parts) / len(labels)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_LOGITS)
def test_focal_temperature_of_real_logits_is_the_double_loops(shared, name):
    """A coarse part of the paper's grid, T >= 0.4: no ties, so array_split gives our bins."""
    logits, labels = scores_of(shared, name)
    logits, labels = logits[:2500], labels[:2500]
    gammas, temperatures = (-0.5, 0.0, 0.37, 1.0, 5.0), FINE_TEMPERATURES[39::23]
    z = logits.astype(np.float64)
    loop = np.array(
        [[plain_adaptive_ece(plain_psi(z, g, t), labels) for t in temperatures] for g in gammas]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        found = fit_focal_temperature(
            logits, labels, gammas=gammas, temperatures=temperatures, criterion="adaptive_ece"
        )
    i, j = gammas.index(found.gamma), temperatures.index(found.temperature)
    assert loop[i, j] < loop.min() + 1e-9
    got = plain_adaptive_ece(FocalTemperatureScaling(gammas[i], temperatures[j]).probs(z), labels)
    assert_allclose(got, loop[i, j], atol=1e-12)


def test_temperature_equals_scikit_learns(rng_problem):
    logits, labels = rng_problem
    model = LogisticRegression().fit(np.eye(4), [0, 1, 2, 3])
    model.coef_, model.intercept_ = np.eye(4), np.zeros(4)  # decision_function is the identity
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="temperature")
    theirs.fit(logits, labels)
    found = fit_temperature(logits, labels)
    assert_allclose(found.probs(logits), theirs.predict_proba(logits), atol=2e-4)
    assert nll(found.probs(logits), labels) <= nll(theirs.predict_proba(logits), labels) + 1e-12


@pytest.fixture(scope="module")
def rng_problem():
    rng = np.random.default_rng(0)
    logits = 4.0 * rng.standard_normal((3000, 4))
    return logits, (logits / 2.5 + rng.gumbel(size=logits.shape)).argmax(axis=1)


def test_the_sample_wise_row_of_paper_002_to_the_last_digit(shared):
    path = shared / "data" / "logits" / "cifar10_resnet50_focalrepo_aigen.npz"
    with np.load(path) as data:
        val, val_labels = data["val_logits"], data["val_labels"].astype(np.int64)
        test, test_labels = data["test_logits"], data["test_labels"].astype(np.int64)

    def row(calibrator):
        probs = calibrator.probs(test.astype(np.float64))
        metrics = (error_rate, ece, adaptive_ece, mce, nll)
        return [round(100 * metric(probs, test_labels), 2) for metric in metrics]

    assert row(Identity()) == [4.98, 1.55, 1.56, 14.89, 17.55]
    for criterion in ("ece", "adaptive_ece"):
        found = fit_temperature(val, val_labels, criterion=criterion)
        assert found.temperature == 1.1
        assert row(found) == [4.98, 0.95, 1.26, 26.37, 17.37]
