"""Derivatives of the log loss in gamma and log T, against differences of the loss itself."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.calibrate import compress_logits, exact_logits
from focalibrate.calibrate._engine.blocks import Workers
from focalibrate.calibrate._engine.focal_derivatives import LEAST_GAMMA, loss_derivatives

STEP = 1e-3


def differences(rows, gamma, temperature):
    def at(i, j):
        t = temperature * math.exp(j * STEP)
        return rows.log_loss(gamma=gamma + i * STEP, temperature=t)

    f = {(i, j): at(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    return np.array(
        [
            f[0, 0],
            (f[1, 0] - f[-1, 0]) / (2 * STEP),
            (f[0, 1] - f[0, -1]) / (2 * STEP),
            (f[1, 0] - 2 * f[0, 0] + f[-1, 0]) / STEP**2,
            (f[1, 1] - f[1, -1] - f[-1, 1] + f[-1, -1]) / (4 * STEP**2),
            (f[0, 1] - 2 * f[0, 0] + f[0, -1]) / STEP**2,
        ]
    )


@pytest.mark.parametrize(
    ("gamma", "temperature"), [(0.0, 1.0), (0.7, 1.5), (-0.5, 1.2), (-0.85, 0.9), (20.0, 2.4)]
)
def test_they_are_those_of_the_loss(rows_of, gamma, temperature):
    masked, labels = rows_of(300, 5, dtype=np.float64)
    masked[np.arange(0, 300, 7), (labels[::7] + 1) % 5] = -np.inf
    masked[::11] = 0.0  # every class ties
    for rows in (exact_logits(masked, labels), compress_logits(*rows_of(200, 600))):
        with Workers(2) as workers:
            found = loss_derivatives(rows, gamma, temperature, workers)
        assert found is not None
        expected = differences(rows, gamma, temperature)
        assert_allclose(found[0], expected[0], rtol=1e-12, atol=1e-14)
        scale = np.abs(expected).max(axis=1, keepdims=True)
        assert_allclose(found / scale, expected / scale, atol=1e-4)


def test_they_are_left_to_differences_where_digits_are_lost(rows_of):
    rows = exact_logits(*rows_of(50, 3))
    certain = exact_logits(np.array([[0.0, -2e3]]), np.array([0]))
    with Workers(1) as workers:
        assert loss_derivatives(rows, LEAST_GAMMA - 0.01, 1.0, workers) is None
        assert loss_derivatives(certain, 1.0, 1.0, workers) is None
