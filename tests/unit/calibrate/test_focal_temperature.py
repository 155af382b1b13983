import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.calibrate import (
    CalibrationWarning,
    FocalTemperatureScaling,
    fit_focal_temperature,
    fit_temperature,
)
from focalibrate.calibrate.fit_focal_temperature import FINE_TEMPERATURES, FOCAL_GAMMAS
from focalibrate.calibrate.focal_rows import focal_rows
from focalibrate.metrics import adaptive_ece, ece, nll

CRITERIA = ["adaptive_ece", "ece", "nll"]
METRICS = {"adaptive_ece": adaptive_ece, "ece": ece, "nll": nll}


def fit_quietly(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit_focal_temperature(*args, **options)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_whole_grid_equals_a_plain_double_loop(rows_of, criterion):
    logits, labels = rows_of(300, 4)
    gammas, temperatures = (-0.5, 0.0, 0.37, 5.0), FINE_TEMPERATURES[9::10]
    z = logits.astype(np.float64)
    loop = [
        [METRICS[criterion](FocalTemperatureScaling(g, t).probs(z), labels) for t in temperatures]
        for g in gammas
    ]
    options = {"criterion": criterion, "gammas": gammas, "temperatures": temperatures}
    found = fit_quietly(logits, labels, **options, whole_grid=True)
    report = found.report
    # At T = 0.1 saturated confidences tie differently in the last bit: 1e-4 there.
    assert_allclose(report.grid, loop, rtol=1e-6, atol=1e-9 if criterion == "nll" else 1e-4)
    assert np.median(np.abs(report.grid - loop)) < 1e-9
    g, t = np.unravel_index(np.argmin(loop), np.shape(loop))
    assert (found.gamma, found.temperature) == (gammas[g], temperatures[t])
    assert report.n_evaluations == len(gammas) * len(temperatures)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(("n", "k", "scale"), [(30, 3, 1.0), (400, 3, 0.2), (300, 40, 5.0)])
def test_skipping_grid_points_changes_nothing(rows_of, criterion, n, k, scale):
    for seed in range(2):
        logits, labels = rows_of(n, k, scale=scale, seed=seed)
        options = {
            "criterion": criterion,
            "gammas": FOCAL_GAMMAS[::3],
            "temperatures": FINE_TEMPERATURES[::4],
        }
        whole = fit_quietly(logits, labels, **options, whole_grid=True)
        report = whole.report
        assert fit_quietly(logits, labels, **options) == whole
        assert report.grid.shape == (4, 125)


@pytest.mark.slow
def test_compressed_rows_find_the_minimum_of_exact_ones(rows_of):
    logits, labels = rows_of(800, 600)
    temperatures = FINE_TEMPERATURES[39:250:30]
    found = fit_quietly(logits, labels, criterion="adaptive_ece", temperatures=temperatures)
    held = focal_rows(logits, labels)

    def criterion(g, t):
        confidence = held.confidence(gamma=g, temperature=t)
        order = np.argsort(confidence)
        gap = (confidence - held.correct)[order]
        return sum(abs(part.sum()) for part in np.array_split(gap, 15)) / len(gap)

    best = min(criterion(g, t) for g in FOCAL_GAMMAS for t in temperatures)
    assert criterion(found.gamma, found.temperature) < best + 1e-4


@pytest.mark.parametrize("criterion", CRITERIA)
def test_gamma_zero_is_temperature_scaling(rows_of, criterion):
    logits, labels = rows_of(500, 5)
    found = fit_quietly(
        logits, labels, criterion=criterion, gammas=[0.0], temperatures=FINE_TEMPERATURES
    )
    plain = fit_temperature(logits, labels, criterion=criterion, temperatures=FINE_TEMPERATURES)
    assert found == FocalTemperatureScaling(0.0, plain.temperature, n_classes=5)
    assert_allclose(found.probs(logits), plain.probs(logits), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
@given(seed=st.integers(0, 2**16))
@settings(max_examples=10)
def test_shifts_and_permutations_change_nothing(rows_of, criterion, seed):
    logits, labels = rows_of(80, 4, seed=seed, dtype=np.float64)
    rng = np.random.default_rng(seed)
    order = rng.permutation(4)
    other = (logits + rng.integers(-8, 8, (80, 1)))[:, order]
    options = {"criterion": criterion, "gammas": [0.0, 1.0], "temperatures": np.arange(4, 24) / 4}
    options["whole_grid"] = True
    ra = fit_quietly(logits, labels, **options).report
    rb = fit_quietly(other, np.argsort(order)[labels], **options).report
    assert_allclose(ra.value, rb.value, atol=1e-9)
    assert_allclose(ra.grid, rb.grid, atol=1e-9)


@pytest.mark.slow
def test_continuous_search_is_at_least_as_good_as_the_grid(rows_of):
    logits, labels = rows_of(700, 8)
    grid = fit_quietly(logits, labels, criterion="nll", temperatures=FINE_TEMPERATURES).report
    found = fit_quietly(logits, labels, criterion="nll")
    free = found.report
    assert free.value <= grid.value + 1e-12
    assert_allclose(free.value, nll(found.probs(logits.astype(np.float64)), labels), rtol=1e-9)


@pytest.mark.slow
def test_continuous_search_recovers_the_parameters_of_its_own_model():
    rng = np.random.default_rng(0)
    logits = 3.0 * rng.standard_normal((20_000, 4))
    probs = FocalTemperatureScaling(1.5, 2.0).probs(logits)
    labels = (probs.cumsum(axis=1) < rng.random((20_000, 1))).sum(axis=1).clip(max=3)
    found = fit_focal_temperature(logits, labels, criterion="nll")
    assert_allclose([found.gamma, found.temperature], [1.5, 2.0], rtol=0.2)
    assert np.abs(found.probs(logits) - probs).max() < 0.02


def test_continuous_search_scales_with_the_logits(rows_of):
    logits, labels = rows_of(800, 5, dtype=np.float64)
    a, b = (fit_focal_temperature(z, labels, criterion="nll") for z in (logits, 100 * logits))
    assert_allclose([b.gamma, b.temperature / 100], [a.gamma, a.temperature], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("temperatures", [None, FINE_TEMPERATURES])
def test_all_rows_right_stays_finite_and_says_so(temperatures):
    logits = 5.0 * np.eye(4)[[0, 1, 2, 3, 0]]
    with pytest.warns(CalibrationWarning, match="edge of the range.*`gammas` or `temperatures`"):
        found = fit_focal_temperature(
            logits, np.array([0, 1, 2, 3, 0]), criterion="nll", temperatures=temperatures
        )
    report = found.report
    assert report.at_bound
    assert np.isfinite(found.probs(logits)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "focal"}, "`criterion` must be one of"),
        ({"gammas": [-1.5]}, "`gammas` must be a finite number >= -1"),
        ({"gammas": []}, "non-empty sequence"),
    ],
)
def test_bad_options_are_explained(rows_of, options, message):
    with pytest.raises(ValueError, match=message):
        fit_focal_temperature(*rows_of(10, 3), **options)


def rows(n, k, seed):
    rng = np.random.default_rng(seed)
    truth = 2.0 * rng.standard_normal((n, k))
    return 2.5 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), [(300, 3), (3000, 4), (5000, 30)])  # the last by a sample
def test_the_minimum_by_log_loss_is_that_of_nelder_mead(n, k):
    optimize = pytest.importorskip("scipy.optimize")
    data = rows(n, k, seed=n)
    found, held = fit_quietly(*data), focal_rows(*data)

    def loss(x):
        return held.nll(gamma=max(x[0], -1.0), temperature=float(np.exp(x[1])))

    start = [found.gamma, np.log(found.temperature)]
    plain = optimize.minimize(loss, start, method="Nelder-Mead", options={"fatol": 1e-13})
    assert found.report.converged
    assert_allclose(found.report.value, loss(start), rtol=1e-12)
    assert found.report.value <= plain.fun + 1e-10


def test_a_minimum_at_the_bound_is_found_and_said():
    logits, labels = rows(4000, 3, seed=1)
    with pytest.warns(UserWarning, match="at the edge"):
        found = fit_focal_temperature(logits, labels, gammas=[3.0, 5.0])
    assert found.report.at_bound
    assert_allclose(found.gamma, 5.0, atol=1e-6)  # far from the best, the loss falls towards 5


@pytest.mark.slow
def test_the_valley_at_the_least_gamma_is_not_missed():
    for seed in range(25):
        rng = np.random.default_rng(seed)
        truth = 1.5 * rng.standard_normal((200, 4))
        labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        report = fit_quietly(truth, labels).report
        held = focal_rows(truth, labels)
        valley = min(held.nll(gamma=-1.0, temperature=t) for t in np.geomspace(0.3, 3, 40))
        assert report.value <= valley + 1e-9


def test_a_start_gives_the_same_minimum_in_fewer_steps(rows_of):
    logits, labels = rows_of(1200, 6, dtype=np.float64)
    near = fit_quietly(logits[:1000], labels[:1000])
    alone, warm = fit_quietly(logits, labels), fit_quietly(logits, labels, start=near)
    assert_allclose(warm.report.value, alone.report.value, rtol=1e-9)


def test_tiny_logits_beside_finite_masks_have_a_fit():
    rng = np.random.default_rng(7)
    logits, labels = 1e-200 * rng.standard_normal((20, 3)), rng.integers(3, size=20)
    is_masked = rng.random(logits.shape) < 0.3
    is_masked[np.arange(20), labels] = False
    found = fit_quietly(np.where(is_masked, -1e9, logits), labels)
    assert np.isfinite(found.probs(logits)).all()


def test_logits_without_digits_are_refused_by_name():
    with pytest.raises(ValueError, match="`logits` must differ by more than 1e-290"):
        fit_quietly(1e-320 * np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 0, 1]))
