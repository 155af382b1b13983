from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import CalibrationWarning, fit, fit_temperature
from focalibrate.metrics import nll

fit_vector_scaling = partial(fit, method="vector")


def test_it_beats_temperature_scaling_where_classes_are_shifted(rows_of):
    logits, labels = rows_of(3000, 4, dtype=np.float64)
    shifted = logits * [1.0, 2.0, 0.5, 1.0] + [0.0, 1.0, -1.0, 0.0]
    found = fit_vector_scaling(shifted, labels)
    report = found.report
    assert report.converged
    assert_allclose(report.value, nll(found.probs(shifted), labels), rtol=1e-9)
    assert report.value < nll(fit_temperature(shifted, labels).probs(shifted), labels) - 0.01
    changed = found.probs(shifted).argmax(axis=1) != shifted.argmax(axis=1)
    assert changed.sum() > 0


def test_scaling_logits_scales_back(rows_of):
    logits, labels = rows_of(1000, 3, dtype=np.float64)
    a, b = (fit_vector_scaling(z, labels) for z in (logits, 1000 * logits))
    assert_allclose(a.probs(logits), b.probs(1000 * logits), atol=1e-5)


def test_impossible_classes_are_as_if_absent(rows_of):
    logits, labels = rows_of(800, 4, dtype=np.float64)
    masked = logits.copy()
    masked[labels != 3, 3] = -np.inf
    with pytest.warns(CalibrationWarning, match="very large"):  # class 3 is always right
        found = fit_vector_scaling(masked, labels)
    assert np.isfinite(found.scale).all()
    assert (found.probs(masked)[labels != 3, 3] == 0).all()


def test_separable_rows_stay_finite_and_say_so():
    logits = 5.0 * np.eye(3)[[0, 1, 2, 0]]
    with pytest.warns(CalibrationWarning, match="very large"):
        found = fit_vector_scaling(logits, np.array([0, 1, 2, 0]))
    assert np.isfinite(found.scale + found.bias).all()


@pytest.mark.parametrize(("n", "k"), [(400, 3), (1500, 20)])
def test_the_minimum_is_that_of_lbfgs(rows_of, n, k):
    optimize = pytest.importorskip("scipy.optimize")
    logits, labels = rows_of(n, k, dtype=np.float64)
    report = fit_vector_scaling(logits, labels).report

    def loss(x):
        z = x[:k] * logits + x[k:]
        z = z - z.max(axis=1, keepdims=True)
        p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
        rest = p.copy()
        rest[np.arange(n), labels] -= 1.0
        value = -np.log(p[np.arange(n), labels]).mean()
        return value, np.concatenate([(rest * logits).mean(axis=0), rest.mean(axis=0)])

    start = np.concatenate([np.full(k, 0.5), np.zeros(k)])
    lbfgs = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 3000})
    assert report.converged
    assert report.n_evaluations < 20
    assert report.value <= lbfgs.fun + 1e-9
    assert_allclose(report.value, lbfgs.fun, atol=1e-6)


def test_a_class_that_never_occurs_leaves_the_loss_at_its_infimum(rows_of):
    logits, labels = rows_of(600, 4, dtype=np.float64)
    is_seen = labels != 3
    with pytest.warns(CalibrationWarning):
        report = fit_vector_scaling(logits[is_seen], labels[is_seen]).report
    without = fit_vector_scaling(logits[is_seen, :3], labels[is_seen]).report
    assert report.converged
    assert_allclose(report.value, without.value, atol=1e-7)
