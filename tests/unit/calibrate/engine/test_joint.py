"""Gamma and temperature by log loss: Newton's method against Nelder-Mead."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import exact_logits, fit_focal_temperature
from focalibrate.calibrate._engine import joint as _joint
from focalibrate.calibrate._engine.blocks import Workers
from focalibrate.calibrate._engine.grid import GridEvaluator
from focalibrate.calibrate._engine.joint import minimise_jointly


def rows(n, k, seed):
    rng = np.random.default_rng(seed)
    truth = 2.0 * rng.standard_normal((n, k))
    return 2.5 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.mark.parametrize(("n", "k"), [(300, 3), (3000, 4), (2500, 30)])  # the last two by a sample
def test_newton_ends_where_nelder_mead_does(n, k, monkeypatch):
    data = rows(n, k, seed=n)
    found = []
    for steps in (_joint.MAX_NEWTON, 0):
        monkeypatch.setattr(_joint, "MAX_NEWTON", steps)
        with Workers() as workers:
            evaluate = GridEvaluator(exact_logits(*data), "nll", 1, workers)
            found.append(minimise_jointly(evaluate, 2.5, (-1.0, 20.0)))
    newton, plain = found
    assert newton.converged
    assert plain.converged
    assert newton.n_evaluations < plain.n_evaluations
    assert abs(newton.loss - plain.loss) < 1e-10
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
