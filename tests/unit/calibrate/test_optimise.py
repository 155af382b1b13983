"""Newton's method with bounds against SciPy's L-BFGS-B and bounded least squares."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from focalibrate.calibrate.optimise import minimise_convex


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_least_squares_within_bounds_takes_one_step(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n + 5, n)), rng.normal(size=n + 5)
    second = 2.0 * a.T @ a

    def objective(x):
        rest = a @ x - b
        return float(rest @ rest), 2.0 * a.T @ rest, second

    found = minimise_convex(objective, np.full(n, 1.0 / n), lower=np.zeros(n))
    expected, size = nnls(a, b)
    np.testing.assert_allclose(found.x, expected, atol=1e-7)
    assert found.converged
    assert found.n_evaluations <= 3
    assert abs(objective(found.x)[0] - size**2) <= 1e-9


def test_without_bounds_and_far_from_quadratic() -> None:
    at = np.array([1.0, -2.0])

    def objective(x):
        gap = x - at
        return (
            float(np.cosh(3.0 * gap).sum()),
            3.0 * np.sinh(3.0 * gap),
            np.diag(9.0 * np.cosh(3.0 * gap)),
        )

    found = minimise_convex(objective, np.array([4.0, 4.0]))
    np.testing.assert_allclose(found.x, at, atol=1e-6)
    held = minimise_convex(objective, np.array([4.0, 4.0]), lower=np.array([2.0, -np.inf]))
    np.testing.assert_allclose(held.x, [2.0, -2.0], atol=1e-6)
