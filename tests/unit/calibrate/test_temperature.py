import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from focalibrate.calibrate import (
    CalibrationWarning,
    FocalTemperatureScaling,
    TemperatureScaling,
    fit_temperature,
)
from focalibrate.calibrate.fit_temperature import COARSE_TEMPERATURES
from focalibrate.calibrate.focal_rows import focal_rows
from focalibrate.metrics import adaptive_ece, ece

CRITERIA = ["nll", "focal", "ece", "adaptive_ece"]


def fit_quietly(logits, labels, criterion, **options):
    gamma = 2.0 if criterion == "focal" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return fit_temperature(logits, labels, criterion=criterion, gamma=gamma, **options)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)  # two fits each
def test_a_constant_added_to_a_row_changes_nothing(rows_of, criterion, seed):
    logits, labels = rows_of(60, 4, seed=seed, dtype=np.float64)
    shift = np.random.default_rng(seed).uniform(-50, 50, (60, 1))
    a, b = (fit_quietly(z, labels, criterion) for z in (logits, logits + shift))
    assert_allclose(a.temperature, b.temperature, rtol=1e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)  # two fits each
def test_permuting_classes_changes_nothing(rows_of, criterion, seed):
    logits, labels = rows_of(60, 5, seed=seed, dtype=np.float64)
    order = np.random.default_rng(seed).permutation(5)
    a = fit_quietly(logits, labels, criterion)
    b = fit_quietly(logits[:, order], np.argsort(order)[labels], criterion)
    assert_allclose(a.temperature, b.temperature, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["nll", "focal"])
@given(seed=st.integers(0, 2**32 - 1), log_c=st.floats(-400, 400))
def test_scaling_logits_scales_the_temperature(rows_of, criterion, seed, log_c):
    logits, labels = rows_of(80, 4, seed=seed, dtype=np.float64)
    c = float(np.exp(log_c))
    a, b = (fit_quietly(z, labels, criterion) for z in (logits, c * logits))
    assert_allclose(b.temperature / c, a.temperature, rtol=1e-6)


@pytest.mark.parametrize("criterion", ["ece", "adaptive_ece"])
def test_scaling_logits_and_grid_scales_the_temperature(rows_of, criterion):
    logits, labels = rows_of(500, 5, dtype=np.float64)
    grid = np.arange(1, 60) / 10
    a = fit_temperature(logits, labels, criterion=criterion, temperatures=grid)
    b = fit_temperature(8 * logits, labels, criterion=criterion, temperatures=8 * grid)
    assert b.temperature == 8 * a.temperature


def test_calibrating_calibrated_logits_gives_one(rows_of):
    logits, labels = rows_of(3000, 6, dtype=np.float64)
    again = fit_temperature(logits, labels).log_probs(logits)
    assert_allclose(fit_temperature(again, labels).temperature, 1.0, rtol=1e-7)


@pytest.mark.parametrize("criterion", ["nll", "focal"])
@pytest.mark.parametrize(("n", "k"), [(4, 2), (40, 3), (3000, 20), (6000, 200)])
def test_the_slope_vanishes_at_the_optimum(rows_of, criterion, n, k):
    logits, labels = rows_of(n, k, seed=3)
    if n == 4:
        logits = np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0], [0.0, 3.0]])
        labels = np.array([1, 0, 0, 1])
    found = fit_quietly(logits, labels, criterion)
    held = focal_rows(logits.astype(np.float64), labels)

    def loss(t):
        nll = held.log_loss(gamma=0.0, temperature=t)
        return np.mean(nll * (-np.expm1(-nll)) ** 2) if criterion == "focal" else nll.mean()

    t = found.temperature
    slope = (loss(1.001 * t) - loss(0.999 * t)) / 0.002
    curvature = (loss(1.001 * t) - 2 * loss(t) + loss(0.999 * t)) / 0.001**2
    assert curvature > 0
    assert abs(slope / curvature) < 2e-6


@pytest.mark.parametrize("criterion", ["ece", "adaptive_ece"])
def test_grid_fit_is_the_first_minimum_of_a_plain_loop(rows_of, criterion):
    logits, labels = rows_of(700, 6)
    metric = {"ece": ece, "adaptive_ece": adaptive_ece}[criterion]
    values = [
        metric(TemperatureScaling(t).probs(logits.astype(np.float64)), labels)
        for t in COARSE_TEMPERATURES
    ]
    found = fit_temperature(logits, labels, criterion=criterion, whole_grid=True)
    report = found.report
    assert found.temperature == COARSE_TEMPERATURES[int(np.argmin(values))]
    assert_allclose(report.grid[0], values, atol=1e-9)
    assert_allclose(report.value, min(values), atol=1e-9)
    assert found == fit_temperature(logits, labels, criterion=criterion)


@pytest.mark.parametrize("criterion", ["nll", "focal"])
def test_a_grid_may_be_given_for_losses_too(rows_of, criterion):
    logits, labels = rows_of(400, 5)
    grid = np.arange(5, 80) / 20
    best = fit_quietly(logits, labels, criterion).temperature
    found = fit_quietly(logits, labels, criterion, temperatures=grid[::-1])
    report = found.report
    assert abs(found.temperature - best) <= 0.05
    assert report.temperatures[0] == grid[-1]
    assert found == fit_quietly(logits, labels, criterion, temperatures=grid)


def test_the_first_of_equal_minima_wins():
    logits, labels = np.zeros((20, 2)), np.arange(20) % 2  # every temperature is the same
    with pytest.warns(CalibrationWarning, match="at the edge"):
        found = fit_temperature(logits, labels, criterion="ece", temperatures=[3.0, 1.0, 2.0])
    assert found.temperature == 3.0


def test_focal_criterion_returns_a_calibrator_with_recovery(rows_of):
    logits, labels = rows_of(500, 4)
    found = fit_temperature(logits, labels, criterion="focal", gamma=2.0)
    assert isinstance(found, FocalTemperatureScaling)
    assert found.gamma == 2.0
    zero = fit_temperature(logits, labels, criterion="focal", gamma=0.0)
    assert_allclose(zero.temperature, fit_temperature(logits, labels).temperature, rtol=1e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_all_rows_right_stays_finite_and_says_so(criterion):
    logits = 5.0 * np.eye(4)[[0, 1, 2, 3, 0]]
    gamma = 2.0 if criterion == "focal" else None
    says = (
        "is at the edge of the range searched.* otherwise pass `temperatures` that reach further"
    )
    with pytest.warns(CalibrationWarning, match=says):
        found = fit_temperature(
            logits, np.array([0, 1, 2, 3, 0]), criterion=criterion, gamma=gamma
        )
    report = found.report
    assert report.at_bound
    assert 0 < found.temperature < 0.2
    assert np.isfinite(found.probs(logits)).all()


def test_all_rows_wrong_ends_at_the_other_bound():
    logits = 5.0 * np.eye(3)
    with pytest.warns(CalibrationWarning):
        found = fit_temperature(logits, np.array([1, 2, 0]))
    report = found.report
    assert report.at_bound
    assert found.temperature > 1000


@pytest.mark.parametrize("criterion", ["nll", "focal"])
def test_constant_logits_leave_the_temperature_alone(criterion):
    found = fit_quietly(np.full((10, 3), 7.0), np.arange(10) % 3, criterion)
    assert found.temperature == 1.0


def test_duplicated_rows_change_nothing(rows_of):
    logits, labels = rows_of(300, 4, dtype=np.float64)
    for criterion in CRITERIA:
        a = fit_quietly(logits, labels, criterion)
        b = fit_quietly(np.tile(logits, (2, 1)), np.tile(labels, 2), criterion)
        assert_allclose(a.temperature, b.temperature, rtol=1e-9 if criterion != "ece" else 1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_one_class_present_and_fewer_rows_than_bins(rows_of, criterion):
    logits, _ = rows_of(6, 4)
    found = fit_quietly(logits, np.zeros(6, dtype=int), criterion)
    assert np.isfinite(found.temperature)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("k", [6, 700])
def test_impossible_classes_are_as_if_absent(rows_of, criterion, k):
    logits, labels = rows_of(500, k)
    masked = np.concatenate([logits, np.full((500, 2), -np.inf, np.float32)], axis=1)
    a, b = (fit_quietly(z, labels, criterion) for z in (logits, masked))
    assert_allclose(a.temperature, b.temperature, rtol=1e-5)


def test_an_impossible_label_is_refused_by_row(rows_of):
    logits, labels = rows_of(50, 4)
    logits[17, labels[17]] = -np.inf
    for criterion in CRITERIA:
        with pytest.raises(ValueError, match="row 17's label is -inf"):
            fit_quietly(logits, labels, criterion)


@pytest.mark.parametrize("row", [0, 4995, 5000])  # one of them is seen by the first sample
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "must not contain nan or .inf, but row {} contains nan"),
        (np.inf, "must not contain nan or .inf, but row {} contains inf"),
        (-np.inf, "must leave at least one class possible, but every entry of row {} is"),
    ],
)
def test_bad_values_are_named_by_row(rows_of, row, criterion, value, message):
    logits, labels = rows_of(9000, 3)
    logits[row] = [value, value, value]
    with pytest.raises(ValueError, match=message.format(row)):
        fit_quietly(logits, labels, criterion)


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (np.zeros((0, 3)), np.zeros(0, int), "must not be empty"),
        (np.zeros((2, 3, 4)), np.zeros((2, 3), int), r"must have shape \[N, K\]"),
        ("ab", np.zeros(1, int), "must be an array"),
        (np.zeros((3, 3)), np.zeros(2, int), "must have shape"),
        (np.zeros((3, 3)), np.array([0, 1, 3]), r"must lie in \[0, 2\]"),
        (np.zeros((3, 3)), np.zeros(3), "integer class indices"),
    ],
)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_bad_input_is_explained(logits, labels, message, criterion):
    with pytest.raises(ValueError, match=message):
        fit_quietly(logits, labels, criterion)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "brier"}, "`criterion` must be one of"),
        ({"criterion": "focal"}, "`gamma` must be given"),
        ({"gamma": 1.0}, "`gamma` must be left out"),
        ({"criterion": "focal", "gamma": -1.0}, "`gamma` must be"),
        ({"temperatures": []}, "non-empty sequence"),
        ({"temperatures": [1.0, 0.0]}, "must be a finite number > 0"),
        ({"temperatures": "hot"}, "non-empty sequence"),
        ({"criterion": "ece", "n_bins": 0}, "`n_bins` must be"),
    ],
)
def test_bad_options_are_explained(rows_of, options, message):
    with pytest.raises(ValueError, match=message):
        fit_temperature(*rows_of(10, 3), **options)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_layout_and_library_do_not_matter(rows_of, criterion, tmp_path):
    logits, labels = rows_of(400, 5)
    want = fit_quietly(logits, labels, criterion)
    read_only = logits.copy()
    read_only.flags.writeable = False
    np.save(tmp_path / "z.npy", logits)
    wide = np.zeros((400, 10), np.float32)
    wide[:, ::2] = logits
    for same in (
        np.asfortranarray(logits),
        wide[:, ::2],
        read_only,
        np.load(tmp_path / "z.npy", mmap_mode="r"),
        torch.tensor(logits),
    ):
        assert fit_quietly(same, labels, criterion) == want
    assert fit_quietly(logits, torch.tensor(labels), criterion) == want
    assert fit_quietly(logits, labels.astype(np.uint8), criterion) == want


@pytest.mark.parametrize("criterion", CRITERIA)
def test_half_precision_is_exact_on_its_own_values(rows_of, criterion):
    logits, labels = rows_of(400, 5, dtype=np.float16)
    a, b = (fit_quietly(z, labels, criterion) for z in (logits, logits.astype(np.float64)))
    assert_allclose(a.temperature, b.temperature, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["nll", "focal", "adaptive_ece"])
def test_every_fit_is_deterministic_whatever_the_threads(rows_of, criterion, monkeypatch):
    logits, labels = rows_of(3000, 500)
    first = fit_quietly(logits, labels, criterion)
    assert fit_quietly(logits, labels, criterion) == first
    monkeypatch.setattr("focalibrate.calibrate.rows.available_cores", lambda: 1)
    assert fit_quietly(logits, labels, criterion) == first


def test_large_single_precision_matches_double(rows_of):
    logits, labels = rows_of(20_000, 50)
    a, b = (fit_temperature(z, labels).temperature for z in (logits, logits.astype(np.float64)))
    assert_allclose(a, b, rtol=1e-6)


def test_large_single_precision_may_have_any_scale(rows_of):
    logits, labels = rows_of(20_000, 50)
    want = fit_temperature(logits, labels).temperature
    for c in (1e-30, 1e30):
        found = fit_temperature(logits * np.float32(c), labels)
        assert_allclose(found.temperature / c, want, rtol=1e-6)
