"""Grid searches: parts of shared rows, and a first pass in float32."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import (
    FINE_TEMPERATURES,
    FOCAL_GAMMAS,
    CalibrationWarning,
    Parts,
    exact_logits,
    fit_focal_temperature,
    fit_parts,
    read_scores,
)
from focalibrate.calibrate._engine import grid as grid_module
from focalibrate.calibrate._engine.blocks import Workers
from focalibrate.calibrate._engine.grid import GridEvaluator, minimum_of_grid, whole_grid
from focalibrate.calibrate.compressed import compress_logits


def parts_of(n, seed=0):
    folds = np.array_split(np.random.default_rng(seed).permutation(n), 2)
    return [slice(None), *(np.setdiff1d(np.arange(n), fold) for fold in folds)]


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["adaptive_ece", "ece"])
@pytest.mark.parametrize("screens", [False, True])  # in float64, in float32 first
def test_each_part_gets_what_it_gets_alone(rows_of, criterion, screens, monkeypatch):
    monkeypatch.setattr(grid_module, "SCREEN_ABOVE", 0 if screens else 10**9)
    monkeypatch.setattr(
        "focalibrate.calibrate.focal_temperature.FINE_TEMPERATURES", FINE_TEMPERATURES[4::5]
    )
    logits, labels = rows_of(300, 20 if screens else 4)
    parts = parts_of(300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        rows = Parts(read_scores(logits, labels), parts)
        found = fit_parts("focal_temperature_ece", rows, criterion=criterion)
        alone = [
            fit_focal_temperature(logits[part], labels[part], criterion=criterion)
            for part in parts
        ]
    assert found == alone


@pytest.mark.slow
def test_other_rows_do_not_reach_a_part(rows_of):
    logits, labels = rows_of(600, 5)
    part = np.arange(300)
    other = labels.copy()
    other[300:] = (other[300:] + 1) % 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        a, b = (
            fit_parts("focal_temperature_ece", Parts(read_scores(logits, y), [part]))
            for y in (labels, other)
        )
    assert a == b


@pytest.mark.parametrize("scale", [0.2, 1.8, 40.0])
def test_confidences_in_float32_are_off_by_less_than_a_millionth(rows_of, scale):
    logits, labels = rows_of(500, 60, scale=scale)
    logits[np.arange(0, 500, 7), (labels[::7] + 1) % 60] = -np.inf
    gammas = (-0.5, 0.0, 0.37, 1.0, 5.0)
    for rows in (exact_logits(logits, labels), compress_logits(*rows_of(300, 600, scale=scale))):
        for temperature in (0.01, 0.1, 0.7, 1.5, 5.0):
            exact = rows.at(temperature, gammas)
            single = rows.at(temperature, gammas, dtype=np.float32)
            for i, gamma in enumerate(gammas):
                assert_allclose(
                    single.confidence(i, gamma), exact.confidence(i, gamma), rtol=0, atol=1e-6
                )


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["adaptive_ece", "ece"])
@pytest.mark.parametrize("find", [minimum_of_grid, whole_grid])
def test_a_first_look_in_float32_finds_the_minimum_of_float64(
    rows_of, criterion, find, monkeypatch
):
    temperatures = FINE_TEMPERATURES[::5]
    for seed in range(2):
        rows = exact_logits(*rows_of(300, 30, seed=seed))
        found = []
        for above in (0, 10**9):
            monkeypatch.setattr(grid_module, "SCREEN_ABOVE", above)
            with Workers() as workers:
                evaluate = GridEvaluator(rows, criterion, 15, workers)
                assert evaluate.can_screen(FOCAL_GAMMAS) == (above == 0)
                (grid,) = find(evaluate, FOCAL_GAMMAS, temperatures)
            found.append((grid.argmin(), grid.values[grid.argmin()]))
        assert found[0] == found[1]


def test_float32_is_kept_from_where_it_fails(rows_of):
    rows = exact_logits(*rows_of(3000, 60))
    with Workers() as workers:
        assert GridEvaluator(rows, "ece", 15, workers).can_screen([-0.5, 2.0])
        assert not GridEvaluator(rows, "ece", 15, workers).can_screen([-0.9, 2.0])
        assert not GridEvaluator(rows, "nll", 15, workers).can_screen([0.0])
