"""Inference about calibration against code that shares nothing with it.

MAPIE and model-diagnostics are peers, not dependencies: their results for three samples are in
tests/vectors/inference.json, with their versions and the script that wrote it.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from focalibrate.metrics import binary_brier_score, brier_score, corp
from focalibrate.metrics import tests as named


@pytest.fixture(scope="module", params=[0, 1, 2])
def binary(request):
    rng = np.random.default_rng(request.param)
    p = rng.uniform(0.01, 0.99, size=500)
    truth = (p, p**1.3, np.clip(1.2 * p - 0.1, 0, 1))[request.param]
    return p, (rng.random(500) < truth).astype(int)


TABLE = json.loads((Path(__file__).parents[1] / "vectors" / "inference.json").read_text())


@pytest.fixture(params=range(len(TABLE["cases"])))
def case(request):
    found = TABLE["cases"][request.param]
    return found, np.array(found["probability"]), np.array(found["outcome"])


def test_cumulative_tests_of_mapie(case):
    found, p, y = case
    theirs = found["mapie"]
    kuiper, smirnov = named.kuiper(p, y, event=1), named.kolmogorov_smirnov(p, y, event=1)
    # Kuiper: MAPIE leaves out that the sum starts at 0
    assert_allclose(kuiper.statistic, theirs["kuiper_statistic"], rtol=0.03)
    assert_allclose(kuiper.p_value, theirs["kuiper_p_value"], atol=0.03)
    assert_allclose(smirnov.statistic, theirs["kolmogorov_smirnov_statistic"], rtol=1e-6)
    assert_allclose(smirnov.p_value, theirs["kolmogorov_smirnov_p_value"], atol=1e-6)


def test_spiegelhalter_of_mapie(case):
    found, p, y = case
    ours = named.spiegelhalter(p, y, event=1)
    assert_allclose(abs(ours.statistic), abs(found["mapie"]["spiegelhalter_statistic"]), rtol=1e-9)


@pytest.mark.parametrize("score", ["brier", "log_loss"])
@pytest.mark.parametrize("weighted", [False, True])
def test_decomposition_of_model_diagnostics(case, score, weighted):
    found, p, y = case
    theirs = found["model_diagnostics"][score + " weighted" * weighted]
    w = np.array(found["weight"]) if weighted else None
    ours = getattr(corp(p, y, event=1, sample_weight=w, n_draws=0), score)
    for part in ("miscalibration", "discrimination", "uncertainty", "score"):
        assert_allclose(getattr(ours, part), theirs[part], rtol=1e-8, atol=1e-10)


def test_decomposition_by_the_isotonic_regression_of_scikit_learn(binary):
    p, y = binary
    fitted = IsotonicRegression(y_min=0, y_max=1).fit(p, y).predict(p)
    base = np.full(len(p), y.mean())
    found = corp(p, y, event=1, n_draws=0)
    best = log_loss(y, np.clip(fitted, 1e-300, 1 - 1e-16), labels=[0, 1])
    assert_allclose(found.log_loss.miscalibration, log_loss(y, p) - best, atol=1e-9)
    assert_allclose(found.log_loss.discrimination, log_loss(y, base) - best, atol=1e-9)
    parts = (brier_score_loss(y, x) for x in (p, fitted, base))
    own, best, constant = parts
    assert_allclose(found.brier.miscalibration, own - best, atol=1e-12)
    assert_allclose(found.brier.discrimination, constant - best, atol=1e-12)
    curve = np.interp(p, found.curve.probability, found.curve.frequency)
    assert_allclose(curve, fitted, atol=1e-9)


def test_cox_by_logistic_regression(binary):
    p, y = binary
    s = (np.log(p) - np.log1p(-p))[:, None]
    line = LogisticRegression(C=np.inf, tol=1e-10).fit(s, y)
    found = named.cox(p, y, event=1)
    assert_allclose(found.slope.estimate, line.coef_[0, 0], rtol=1e-4)
    assert_allclose(found.intercept.estimate, line.intercept_[0], rtol=1e-3, atol=1e-4)


def test_binary_brier_score_of_scikit_learn(binary):
    p, y = binary
    w = np.random.default_rng(0).random(len(p))
    expected = brier_score_loss(y, p, sample_weight=w)
    assert_allclose(binary_brier_score(p, y, sample_weight=w), expected)
    assert_allclose(brier_score(p, y, sample_weight=w, binary=True), 2 * expected)
