"""Every method against plain optimisers, and the properties that all methods share."""

import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import isotonic_regression, minimize
from scipy.special import log_expit, log_softmax

from focalibrate.calibrate import (
    CalibrationWarning,
    TemperatureScaling,
    fit,
    fit_temperature,
)
from focalibrate.calibrate.one_vs_rest import _with_one_more

fit_beta = partial(fit, method="beta")
fit_dirichlet = partial(fit, method="dirichlet")
fit_ensemble_temperature = partial(fit, method="ensemble_temperature")
fit_platt = partial(fit, method="platt")
fit_quadratic = partial(fit, method="quadratic")
fit_spline = partial(fit, method="spline")
fit_structured_matrix = partial(fit, method="structured_matrix")
fit_structured_vector = partial(fit, method="structured_vector")
fit_venn_abers = partial(fit, method="venn_abers")

OPTIONS = {"posterior_recovery": {"gamma": 2.0}, "focal_loss_temperature": {"gamma": 2.0}}


def quiet_fit(method, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit(*args, method=method, **options, **OPTIONS.get(method, {}))


@pytest.fixture(scope="module")
def two():
    rng = np.random.default_rng(0)
    s = 2.0 * rng.standard_normal(400)
    return 1.5 * s + 0.2 * s**2, (s + rng.logistic(size=400) > 0.3).astype(int)


def binary_loss(margin, labels):
    return -np.where(labels == 1, log_expit(margin), log_expit(-margin)).mean()


def mean_loss(found, logits, labels):
    return -found.log_probs(logits)[np.arange(len(labels)), labels].mean()


def test_platt_quadratic_and_beta_reach_the_least_log_loss(two):
    s, y = two
    log_p, log_q = log_expit(s), log_expit(-s)
    cases = [
        (fit_platt, lambda x: x[0] * s + x[1], [(None, None)] * 2),
        (fit_quadratic, lambda x: x[0] * s + x[1] + x[2] * s**2, [(None, None)] * 3),
        (
            fit_beta,
            lambda x: x[0] * log_p - x[1] * log_q + x[2],
            [(0, None), (0, None), (None, None)],
        ),
    ]
    for fitted, margin, bounds in cases:
        start = np.full(len(bounds), 0.5)
        best = minimize(lambda x, f=margin: binary_loss(f(x), y), start, bounds=bounds)
        assert mean_loss(fitted(s, y, pseudo_count=0.0), s, y) <= best.fun + 1e-8


def test_beta_stays_at_its_bound():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.05, 0.95, 500)
    found = fit_beta(probs=p, labels=(rng.random(500) < 1 - p**2).astype(int))
    assert found.a == 0 or found.b == 0


@pytest.mark.parametrize("k", [2, 3, 25])  # 25: conjugate gradients
def test_structured_scaling_reaches_the_least_penalised_loss(rows_of, k):
    logits, labels = rows_of(300, k, dtype=np.float64)
    n = len(labels)
    found = fit_structured_matrix(logits, labels)
    probs = np.exp(log_softmax(logits / found.temperature, axis=1))
    x = np.log((1 - 1 / (n + 1)) * probs + 1 / (n + 1) / k)

    def objective(matrix, bias):
        d = matrix - np.eye(k)
        z = log_softmax(x @ matrix.T + bias, axis=1)
        diagonal = (np.diag(d) ** 2).sum()
        ridge = k / n * ((bias**2).sum() + diagonal)
        ridge += k * (k - 1) / n * ((d**2).sum() - diagonal)
        return -z[np.arange(n), labels].mean() + ridge

    matrix, bias = np.array(found.matrix), np.array(found.bias)
    least = objective(matrix, bias)
    rng = np.random.default_rng(0)
    for _ in range(20):  # convex: a minimum along every line is the minimum
        d, b = rng.standard_normal((k, k)), rng.standard_normal(k)
        for h in (1e-4, -1e-4):
            assert objective(matrix + h * d, bias + h * b) >= least
    assert least < objective(np.eye(k), np.zeros(k))
    vector = fit_structured_vector(logits, labels)
    assert mean_loss(vector, logits, labels) <= mean_loss(
        TemperatureScaling(found.temperature), logits, labels
    )


def test_dirichlet_reaches_the_least_penalised_loss(rows_of):
    logits, labels = rows_of(200, 3, dtype=np.float64)
    found = fit_dirichlet(logits, labels, off_diagonal=0.1, intercept=0.1)
    x = log_softmax(logits, axis=1)

    def objective(flat):
        matrix, bias = flat[:9].reshape(3, 3), flat[9:]
        z = log_softmax(x @ matrix.T + bias, axis=1)
        off = (matrix**2).sum() - (np.diag(matrix) ** 2).sum()
        return -z[np.arange(200), labels].mean() + 0.1 * off / 6 + 0.1 * (bias**2).sum() / 3

    ours = objective(np.concatenate([np.ravel(found.matrix), found.bias]))
    best = minimize(objective, np.concatenate([np.eye(3).ravel(), np.zeros(3)]))
    assert ours <= best.fun + 1e-7


def test_ensemble_weights_are_those_of_a_plain_search(rows_of):
    logits, labels = rows_of(300, 4, dtype=np.float64)
    found = fit_ensemble_temperature(logits, labels)
    assert_allclose(sum(found.weights), 1.0)
    tempered = fit_temperature(logits, labels)
    parts = [tempered.probs(logits), np.exp(log_softmax(logits, axis=1)), np.full((300, 4), 0.25)]
    true = np.stack([p[np.arange(300), labels] for p in parts], axis=1)
    grid = [
        (a, b, 1 - a - b) for a in np.arange(0, 1.01, 0.02) for b in np.arange(0, 1.01 - a, 0.02)
    ]
    best = min(-np.log(np.maximum(true @ np.array(w), 1e-300)).mean() for w in grid)
    assert mean_loss(found, logits, labels) <= best + 1e-12
    assert (found.probs(logits).argmax(1) == logits.argmax(1)).all()


def test_venn_abers_equals_isotonic_fits_with_one_more_row():
    rng = np.random.default_rng(0)
    for _ in range(30):
        m = int(rng.integers(1, 25))
        count = rng.integers(1, 5, m).astype(float)
        hits = np.minimum(rng.integers(0, 5, m), count).astype(float)
        want = []
        for i in range(m):
            one = np.eye(m)[i]
            pooled = isotonic_regression((hits + one) / (count + one), weights=count + one)
            want.append(pooled.x[i])
        assert_allclose(_with_one_more(count, hits), want)


def test_venn_abers_between_two_scores_takes_the_wider_pair(two):
    s, y = two
    found = fit_venn_abers(s, y)
    new = np.array([[0.123456]])
    p = 1 / (1 + np.exp(-0.123456))
    x = np.append(1 / (1 + np.exp(-s)), p)
    order = np.argsort(x, kind="stable")
    at = int(np.flatnonzero(order == len(s))[0])
    low, high = (isotonic_regression(np.append(y, v)[order]).x[at] for v in (0.0, 1.0))
    assert_allclose(found.probs(new)[0, 1], high / (1 - low + high))


def test_a_spline_follows_a_curve_that_a_line_cannot():
    rng = np.random.default_rng(0)
    s = 3.0 * rng.standard_normal(3000)
    y = (np.tanh(s) + rng.logistic(size=3000) > 0).astype(int)
    found = fit_spline(s, y)
    assert mean_loss(found, s, y) < mean_loss(fit_platt(s, y), s, y) - 0.01
    grid = np.array([[-6.0], [0.0], [6.0]])
    assert_allclose(found.probs(grid)[:, 1], 1 / (1 + np.exp(-np.tanh(grid[:, 0]))), atol=0.05)


@pytest.mark.parametrize("mask", [-1e9, -1e4])
@pytest.mark.parametrize("method", ["temperature", "focal_temperature", "vector"])
def test_finite_masks_do_not_move_a_fit(rows_of, method, mask):
    logits, labels = rows_of(500, 5, dtype=np.float64)
    masked = np.concatenate([logits, np.full((500, 3), -np.inf)], axis=1)
    want = quiet_fit(method, masked, labels)
    masked[:, 5:] = mask
    got = quiet_fit(method, masked, labels)
    assert_allclose(got.probs(masked), want.probs(masked), atol=1e-5)


def test_one_row_of_another_scale_does_not_move_the_temperature(rows_of):
    logits, labels = rows_of(500, 5, dtype=np.float64)
    plain = fit_temperature(logits, labels)
    row = int(np.flatnonzero(logits.argmax(axis=1) == labels)[0])
    logits[row] *= 1e8
    assert_allclose(fit_temperature(logits, labels).temperature, plain.temperature, rtol=0.02)


def test_beta_with_two_parameters_reaches_the_least_log_loss_of_its_variant(two):
    s, y = two
    log_p, log_q = log_expit(s), log_expit(-s)
    cases = {
        "am": lambda x: x[0] * (log_p - log_q) + x[1],
        "ab": lambda x: x[0] * (log_p + np.log(2)) - x[1] * (log_q + np.log(2)),
    }
    for variant, margin in cases.items():
        best = minimize(lambda x, f=margin: binary_loss(f(x), y), [0.5, 0.5])
        found = fit_beta(s, y, variant=variant, pseudo_count=0.0)
        assert mean_loss(found, s, y) <= best.fun + 1e-8
        if variant == "am":
            assert found.a == found.b
        else:  # a probability of one half stays
            assert_allclose(found.probs(np.zeros((1, 1))), 0.5)
    with pytest.raises(ValueError, match="`variant` must be one of abm, am, ab; got 'm'"):
        fit_beta(s, y, variant="m")


def test_venn_abers_gives_both_probabilities_of_new_rows(two):
    s, y = two
    s, y = s[:60], y[:60]
    found = fit_venn_abers(s, y)
    new = np.linspace(-6, 6, 9)
    low, high = found.bounds(new[:, None])
    for i, value in enumerate(new):
        for bound, label in ((low, 0), (high, 1)):  # by definition: isotonic with one more row
            x, z = np.append(s, value), np.append(y, label).astype(float)
            order = np.argsort(x, kind="stable")
            fitted = isotonic_regression(z[order]).x
            assert_allclose(bound[i, 1], fitted[np.flatnonzero(order == 60)[0]], atol=1e-9)
    probs = found.probs(new[:, None])
    assert ((low[:, 1] <= probs[:, 1] + 1e-9) & (probs[:, 1] <= high[:, 1] + 1e-9)).all()
