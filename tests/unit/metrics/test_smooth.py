import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from focalibrate.metrics import Cells, smooth_ece
from focalibrate.metrics.smooth import (
    GRID,
    MIN_WIDTHS,
    smooth_ece_of_rows,
)


def rows(n: int, seed: int = 0):
    """Confidences that are too high below 0.5 and too low above, so that residuals cancel."""
    rng = np.random.default_rng(seed)
    f = rng.random(n)
    return f, rng.random(n) < f + 0.2 * np.sin(2 * np.pi * f)


def by_quadrature(f, y, sigma, n_points=3000):
    t = (np.arange(n_points) + 0.5) / n_points
    total = np.zeros_like(t)
    for image in range(-3, 4):
        for centre in (2 * image + f, 2 * image - f):
            total += np.exp(-((t[:, None] - centre) ** 2) / (2 * sigma**2)) @ (f - y)
    return np.abs(total).mean() / (len(f) * sigma * np.sqrt(2 * np.pi))


@pytest.mark.parametrize("n", [20, 100, 400])
def test_value_is_a_fixed_point_of_the_definition(n):
    f, y = rows(n)
    got = smooth_ece_of_rows(f, y)
    assert_allclose(by_quadrature(f, y, got), got, rtol=1e-5)


def test_value_moves_continuously_with_the_probabilities():
    f, y = rows(2000, seed=3)
    moved = np.clip(f + 1e-6, 0, 1)
    assert abs(smooth_ece_of_rows(moved, y) - smooth_ece_of_rows(f, y)) < 1e-5


def test_a_bandwidth_too_small_to_resolve_gives_at_most_that():
    f = np.repeat([0.75, 1.0], [400_000, 1_600_000])
    y = np.arange(2_000_000) % 4 > 0
    y[400_000:] = True
    y[:40] = True
    assert 0.0 < smooth_ece_of_rows(f, y) < MIN_WIDTHS / GRID


def test_calibrated_data_scores_low_and_shifted_data_its_shift():
    rng = np.random.default_rng(1)
    p = 0.5 + 0.4 * rng.random(100_000)
    labels = (rng.random(100_000) > p).astype(int)
    honest, bold = np.stack([p, 1 - p], 1), np.stack([p + 0.1, 0.9 - p], 1)
    assert smooth_ece(honest, labels) < 0.01
    assert smooth_ece(bold, labels) == pytest.approx(0.1, abs=0.01)


def test_importing_focalibrate_does_not_import_scipy():
    code = "import sys, focalibrate; print([m for m in sys.modules if m == 'scipy'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_cells_of_rows_give_the_value_of_the_rows():
    f, y = rows(3000)
    assert_allclose(Cells.of_distinct(f, y).smooth_ece(), smooth_ece_of_rows(f, y), rtol=1e-9)
