"""The nearest temperature as a function of γ, a line through it, and its worst case."""

import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np

from focalibrate._array import Floats
from focalibrate.theory.posterior import recover_log_posterior
from focalibrate.theory.temperature import nearest_temperature
from focalibrate_papers.claims._plain import plain_phi, plain_softmax

GAMMAS = np.concatenate(
    [[0.01, 0.05, 0.1, 0.15, 0.2], np.arange(0.25, 0.99, 0.05), np.arange(1.0, 10.5)]
)


@dataclass(frozen=True)
class Curve:
    """Inverse temperature and largest difference of the maps, one per entry of `GAMMAS`."""

    inverse: Floats
    error: Floats


@dataclass(frozen=True)
class StraightLine:
    """The line with the smallest maximum deviation, and that deviation."""

    slope: float
    intercept: float
    deviation: float

    def __str__(self) -> str:
        return f"{self.slope:.3f}γ + {self.intercept:.3f}"


@dataclass(frozen=True)
class WorstCase:
    """A prediction for which the two maps differ most."""

    probs: Floats
    recovered: Floats
    scaled: Floats

    @property
    def difference(self) -> float:
        """The largest difference in any class."""
        return float(np.abs(self.recovered - self.scaled).max())


@cache
def nearest_curve(n_classes: int) -> Curve:
    """Return the nearest temperatures over all logits for every exponent of `GAMMAS`."""
    found = [nearest_temperature(float(g), n_classes) for g in GAMMAS]
    return Curve(
        np.array([1.0 / n.temperature for n in found]),
        np.array([n.largest_difference for n in found]),
    )


def minimax_line(x: Floats, y: Floats) -> StraightLine:
    """Return the line with the smallest maximum deviation from the points (a linear program)."""
    from scipy.optimize import linprog

    design, one = np.stack([x, np.ones_like(x)], axis=-1), np.ones((len(x), 1))
    found = linprog(
        [0.0, 0.0, 1.0],
        A_ub=np.block([[design, -one], [-design, -one]]),
        b_ub=np.concatenate([y, -y]),
        bounds=[(None, None)] * 3,
    )
    slope, intercept, deviation = np.asarray(found.x, dtype=np.float64)
    return StraightLine(float(slope), float(intercept), float(deviation))


def worst_case(gamma: float, n_classes: int, temperature: float) -> WorstCase:
    """Return the prediction of largest difference: two levels, the other classes impossible."""
    s = np.geomspace(1e-2, 30.0, 2000)
    rows = []
    for a, b in itertools.product(range(1, n_classes), repeat=2):
        if a + b <= n_classes:
            levels = [0.0 * s] * a + [-s] * b + [0.0 * s - np.inf] * (n_classes - a - b)
            rows.append(np.stack(levels, axis=-1))
    z = np.concatenate(rows)
    recovered = np.exp(recover_log_posterior(z, gamma))
    scaled = plain_softmax(z / temperature)
    i = int(np.abs(recovered - scaled).max(axis=-1).argmax())
    return WorstCase(plain_softmax(z[i]), recovered[i], scaled[i])


def grid_nearest(n_classes: int, gamma: float, step: float) -> tuple[float, float]:
    """Return the nearest 1/T on a grid of logits in [-5, 5], and its largest error there."""
    from scipy.optimize import minimize_scalar

    levels = np.arange(-5.0, 5.0 + 0.5 * step, step)
    rest = itertools.combinations_with_replacement(levels, n_classes - 1)
    z = np.array([(*row, 5.0) for row in rest])  # only differences count: the top is fixed
    v = plain_softmax(z)
    h = v / plain_phi(v, gamma)
    target = h / h.sum(axis=-1, keepdims=True)

    def worst(beta: float) -> float:
        return float(np.abs(target - plain_softmax(beta * z)).max())

    betas = np.linspace(0.8, 1.0 + gamma, 25)
    i = int(np.argmin([worst(beta) for beta in betas]))
    around = (betas[max(i - 1, 0)], betas[min(i + 1, 24)])
    found = minimize_scalar(worst, bounds=around, method="bounded")
    return float(found.x), float(found.fun)


def grid_line(n_classes: int, step: float) -> StraightLine:
    """Return the line that a grid of logits in [-5, 5] of the given step would find."""
    gammas = np.array([0.1, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    inverse = [grid_nearest(n_classes, float(gamma), step)[0] for gamma in gammas]
    return minimax_line(gammas, np.array(inverse))
