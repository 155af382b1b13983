r"""The mean log loss as a function of gamma and log T, with its derivatives."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate._engine.focal_derivatives import loss_derivatives
from focalibrate.calibrate._engine.grid import GridEvaluator

DIFFERENCE = 1e-3
"""Step of the finite differences: their error is about 1e-7 of the third derivative."""

Quadratic = tuple[float, Floats, Floats]
"""A value, its gradient and its second derivatives."""


class JointLoss:
    """The mean log loss in gamma and ``log(T / temperature)``, counted."""

    def __init__(
        self, parts: Iterable[GridEvaluator], temperature: float, *, is_all: bool = False
    ) -> None:
        self.parts = parts
        self.is_all = is_all
        self.temperature = temperature
        self.n_evaluations = 0

    def derivatives(self, x: Floats) -> Quadratic:
        """Return the loss at `x`, its gradient and its second derivatives.

        By central differences where the formulas lose digits.
        """
        gamma, temperature = float(x[0]), self.temperature * math.exp(x[1])
        total, mass = np.zeros(6), 0.0
        for part in self.parts:
            found = loss_derivatives(part.rows, gamma, temperature, part.workers)
            if found is None:
                return _differences(self, x)
            counts = part.rows.counts
            total += found.sum(axis=1) if counts is None else found @ counts
            mass += _mass(part)
        self.n_evaluations += 1
        return quadratic(total / mass)

    def at(self, gammas: Any, log_ts: Any) -> Floats:
        """Return the losses ``[G, M]``."""
        # A difference taken at the bound must not leave it by rounding.
        exponents = np.maximum(np.atleast_1d(gammas), -1.0).tolist()
        points = [(self.temperature * math.exp(u), exponents) for u in log_ts]
        self.n_evaluations += len(points) * len(exponents)
        total, mass = np.zeros((len(exponents), len(points))), 0.0
        for part in self.parts:
            values = np.stack([result[0, 0] for result in part(points)], axis=1)
            total += _mass(part) * values
            mass += _mass(part)
        return total / mass


def _mass(part: GridEvaluator) -> float:
    counts = part.rows.counts
    return float(part.rows.n_rows if counts is None else counts.sum())


def _differences(loss: JointLoss, x: Floats) -> Quadratic:
    """Return the loss at `x`, its gradient and its second derivatives, by central differences."""
    offsets = DIFFERENCE * np.array([-1.0, 0.0, 1.0])
    return _stencil(loss.at(x[0] + offsets, x[1] + offsets))


def quadratic(parts: Floats) -> Quadratic:
    """Return value, gradient and second derivatives from those of `loss_derivatives` ``[6]``."""
    value, g, u, gg, gu, uu = parts.tolist()
    return value, np.array([g, u]), np.array([[gg, gu], [gu, uu]])


def _stencil(f: Floats) -> Quadratic:
    """Return value, gradient and second derivatives from nine values ``[3, 3]``."""
    gradient = np.array([f[2, 1] - f[0, 1], f[1, 2] - f[1, 0]]) / (2.0 * DIFFERENCE)
    mixed = (f[2, 2] - f[2, 0] - f[0, 2] + f[0, 0]) / 4.0
    twice = 2.0 * f[1, 1]
    second = np.array([[f[2, 1] - twice + f[0, 1], mixed], [mixed, f[1, 2] - twice + f[1, 0]]])
    return float(f[1, 1]), gradient, second / DIFFERENCE**2
