"""Gamma and temperature by log loss: Newton's method against Nelder-Mead."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import CalibrationWarning, exact_logits, fit_focal_temperature
from focalibrate.calibrate._engine import joint_descent
from focalibrate.calibrate._engine.blocks import Workers
from focalibrate.calibrate._engine.grid import GridEvaluator
from focalibrate.calibrate._engine.joint import minimise_jointly


def rows(n, k, seed):
    rng = np.random.default_rng(seed)
    truth = 2.0 * rng.standard_normal((n, k))
    return 2.5 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(300, 3), (3000, 4), (2500, 30)])  # the last two by a sample
def test_newton_ends_where_nelder_mead_does(n, k, monkeypatch):
    data = rows(n, k, seed=n)
    found = []
    for steps in (joint_descent.MAX_NEWTON, 0):
        monkeypatch.setattr(joint_descent, "MAX_NEWTON", steps)
        with Workers() as workers:
            evaluate = GridEvaluator(exact_logits(*data), "nll", 1, workers)
            found.append(minimise_jointly(evaluate, 2.5, (-1.0, 20.0)))
    newton, plain = found
    assert newton.converged
    assert plain.converged
    assert newton.loss < plain.loss + 1e-10  # there may be a second valley, and a lower one
    if newton.loss > plain.loss - 1e-10:
        assert_allclose(newton.temperature, plain.temperature, rtol=1e-4)


def test_a_minimum_at_the_bound_is_found_and_said():
    logits, labels = rows(4000, 3, seed=1)
    with pytest.warns(UserWarning, match="at the edge"):
        found, report = fit_focal_temperature(
            logits,
            labels,
            criterion="nll",
            search="continuous",
            gammas=[3.0, 5.0],
            return_report=True,
        )
    assert report.at_bound
    assert_allclose(found.gamma, 5.0, atol=1e-6)  # far from the best, the loss falls towards 5


@pytest.mark.slow
def test_the_valley_at_the_least_gamma_is_not_missed():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = 1.5 * rng.standard_normal((200, 4))
        labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)
            _, report = fit_focal_temperature(
                truth, labels, criterion="nll", search="continuous", return_report=True
            )
        rows = exact_logits(truth, labels)
        valley = min(rows.nll(gamma=-1.0, temperature=t) for t in np.geomspace(0.3, 3, 40))
        assert report.value <= valley + 1e-9
