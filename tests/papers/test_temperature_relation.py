from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.report.plot import CORNERS
from focalibrate.theory import nearest_temperature, recover_posterior
from focalibrate_papers.engine import Folders, Rows
from focalibrate_papers.p003.temperature_relation import (
    CLASSES,
    EXPERIMENT,
    RISKS,
    TRUTH,
    isoline,
    simplex_grid,
    third_harmonic,
)

FOLDERS = Folders(None, Path("trained"))


@pytest.fixture(scope="module")
def rows():
    found = []
    for task in EXPERIMENT.tasks("smallest"):
        found += EXPERIMENT.rows(task, FOLDERS)
    return Rows(tuple(found))


@pytest.mark.parametrize("steps", [4, 12])
def test_the_grid_lies_inside_the_simplex(steps):
    grid = simplex_grid(steps)
    assert len(grid) == (steps - 1) * (steps - 2) // 2
    assert grid.min() > 0
    assert_allclose(grid.sum(axis=-1), 1.0)


@pytest.mark.parametrize("stretch", [1.0, 1.4])
def test_circles_and_ellipses_are_not_triangular(stretch):
    t = np.linspace(0, 2 * np.pi, 360, endpoint=False)
    points = np.stack([5 + stretch * np.cos(t), np.sin(t)], axis=-1)
    assert third_harmonic(points) < 1e-6


def test_triangular_part_is_the_amplitude():
    t = np.linspace(0, 2 * np.pi, 360, endpoint=False)
    r = 1 + 0.1 * np.cos(3 * t)
    points = np.stack([r * np.cos(t) - 2, r * np.sin(t)], axis=-1)
    assert_allclose(third_harmonic(points), 0.1, rtol=1e-2)


def test_isolines_of_brier_are_circles_around_the_truth():
    least = float(RISKS["Brier"](TRUTH[None])[0])
    points = isoline(RISKS["Brier"], least + 0.01)
    radius = np.linalg.norm(points - TRUTH @ CORNERS, axis=-1)
    assert_allclose(radius, radius.mean(), rtol=1e-9)


@pytest.mark.parametrize("loss", list(RISKS))
def test_risks_are_least_at_the_truth(loss):
    around = TRUTH + 0.02 * (np.eye(3) - 1 / 3)
    assert np.all(RISKS[loss](around) > RISKS[loss](TRUTH[None]))


@pytest.mark.slow
def test_errors_of_two_classes_are_far_smaller_than_of_three(rows):
    two, three = (rows.curve("error", n_classes=k)[1].max() for k in (2, 3))
    assert 10 * two < three


def test_measured_bounds_lie_inside_the_proven_ones(rows):
    low, lowest, highest, high = (
        rows.curve(name)[1]
        for name in ("proven low", "measured low", "measured high", "proven high")
    )
    assert np.all((low <= lowest) & (lowest < highest) & (highest < high))


def test_conclusion_has_all_figures_and_the_errata(rows):
    found = EXPERIMENT.conclude(rows, "full")  # the rules, on the coarse grids
    assert [chart.name for chart in found.charts] == [f"figure-{i}" for i in range(1, 8)]
    assert len(found.tables[0].body) == len(CLASSES)
    verdict = {line.claim: line.verdict for line in found.results}
    assert verdict["At γ = 4 the measured lower bound is T = 0.206"] == "not reproduced"
    assert verdict["K = 2, γ = 3: the nearest temperature is 0.36"] == "not reproduced"
    assert verdict["K = 3, γ = 1: the nearest temperature is 0.81"] == "not reproduced"
    assert verdict["At γ = 4 the proven upper bound is T = 0.238"] == "reproduced"
    assert found.results[0].verdict == "reproduced"


@pytest.mark.parametrize("gamma", [0.5, 3.0])
def test_the_largest_difference_is_reached_inside_and_on_an_edge(gamma):
    """So that the point of largest difference cannot decide where the two maps differ most."""
    top = np.linspace(0.34, 0.999, 400)
    share = np.linspace(0.0, 1.0, 101)[:, None]
    probs = np.stack(
        np.broadcast_arrays(top, (1 - top) * (1 - share / 2), (1 - top) * share / 2), -1
    )
    probs = probs[probs[..., 1] <= probs[..., 0]]
    nearest = nearest_temperature(gamma, 3)
    scaled = np.exp(np.log(np.maximum(probs, 1e-300)) / nearest.temperature)
    scaled /= scaled.sum(axis=-1, keepdims=True)
    gap = np.abs(recover_posterior(probs, gamma) - scaled).max(axis=-1)
    on_edge = probs[:, 2] == 0
    for part in (on_edge, ~on_edge):
        assert_allclose(gap[part].max(), nearest.largest_difference, rtol=0.02)


def test_where_the_maps_differ_most_stays_undecided(rows):
    found = EXPERIMENT.conclude(rows, "smallest").results
    (line,) = [line for line in found if "near the corners" in line.claim]
    assert line.verdict == "undecided"
