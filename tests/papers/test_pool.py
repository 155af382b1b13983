import math

import numpy as np
from numpy.testing import assert_allclose

from focalibrate.calibrate import fit_temperature
from focalibrate_papers.engine import Interval, Row, Rows, Task, spread
from focalibrate_papers.networks import (
    best_temperature,
    by_problem,
    difference,
    folds,
    losses_in,
)


def rows_of(values: dict[tuple[str, str], dict[int, float]], metric: str = "x") -> Rows:
    return Rows(
        tuple(
            Row(Task.of("pool", problem=problem, loss=loss, seed=seed), metric, value)
            for (problem, loss), by_seed in values.items()
            for seed, value in by_seed.items()
        )
    )


def calibrated(n: int, *, factor: float, seed: int = 0):
    """Return logits that are `factor` times those the labels are drawn from."""
    rng = np.random.default_rng(seed)
    truth = 2.0 * rng.standard_normal((n, 4))
    labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    return (factor * truth).astype(np.float32), labels


def test_differences_are_paired_by_seed():
    rows = rows_of(
        {("cifar10", "fl3"): {0: 1.0, 1: 12.0, 2: 5.0}, ("cifar10", "ce"): {1: 13, 0: 2}}
    )
    found = difference(rows, "fl3", "ce", "x")
    assert found == Interval(-1.0, -1.0, -1.0)
    assert difference(rows, "fl3", "mmce", "x") is None


def test_sets_and_losses_are_found_in_the_rows():
    rows = rows_of({("sst_binary", "fl3"): {0: 1.0}, ("sst_binary", "ce"): {0: 1.0}})
    assert [*by_problem(rows)] == ["sst_binary"]
    assert losses_in(rows) == ["ce", "fl3"]


def test_spread_is_the_standard_deviation_of_the_seeds():
    found = [spread(np.array(values)) for values in ([1.0, 3.0], [2.0], [])]
    assert found == [f"2.00 ± {math.sqrt(2):.2f}", "2.00", "–"]


def test_halves_hold_each_row_once_and_are_scaled_by_the_other_half():
    logits, labels = calibrated(3001, factor=2.0)
    one, two = folds(logits, labels)
    assert abs(len(one.labels) - len(two.labels)) <= 1
    both = np.concatenate([one.logits, two.logits])
    assert_allclose(np.sort(both, axis=0), np.sort(logits, axis=0), rtol=0)
    for half, other in ((one, two), (two, one)):
        fitted = fit_temperature(other.logits, other.labels, criterion="ece")
        assert best_temperature(half).temperature == fitted.temperature


def test_a_temperature_at_the_edge_of_the_grid_is_no_warning():
    parts = folds(*calibrated(400, factor=100.0))
    assert {best_temperature(part).temperature for part in parts} == {10.0}
