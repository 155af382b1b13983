r"""From a start to the nearest minimum over gamma and T: Newton's method, or Nelder-Mead."""

import math
from dataclasses import dataclass

import numpy as np

from focalibrate._array import Floats
from focalibrate._stable.roots import minimum
from focalibrate.calibrate._engine.joint_loss import DIFFERENCE, JointLoss, Quadratic

TOLERANCE = 1e-8
"""Newton ends with a last step where the loss has no more than this to fall; after it what is left
is of the order of its square."""
MAX_NEWTON = 15
LEAST_CURVATURE = 1e-9
"""Flatter is rounding: a step divided by it is cut to length."""
MAX_LOG_RATIO = math.log(1e3)
"""T stays within this factor, in logarithms, of that of plain scaling."""
MAX_EVALUATIONS = 600


@dataclass(frozen=True)
class JointMinimum:
    """Where the search ended."""

    gamma: float
    temperature: float
    loss: float
    converged: bool
    at_bound: bool
    n_evaluations: int


def newton(
    loss: JointLoss,
    start: Floats,
    gammas: tuple[float, float],
    *,
    known: Quadratic | None = None,
) -> Floats | None:
    """Return the minimum near `start`, a gamma at its bound included; None where none is found.

    `known` is what `loss.derivatives` would find at the start.
    """
    low, high = gammas[0] + DIFFERENCE, gammas[1] - DIFFERENCE
    if not low < high:
        return None
    x, move, least = np.array([min(max(start[0], low), high), start[1]]), np.zeros(2), math.inf
    for _ in range(MAX_NEWTON):
        if abs(x[1]) > MAX_LOG_RATIO:
            return None
        value, gradient, second = known or loss.derivatives(x)
        known = None
        if value > least + TOLERANCE:
            move = 0.5 * move
            x = x - move
            continue
        least = value
        bend = max(abs(second[1, 1]), LEAST_CURVATURE)
        is_held = bool((x[0] <= low and gradient[0] > 0) or (x[0] >= high and gradient[0] < 0))
        if is_held:
            move, is_bowl = np.array([0.0, -gradient[1] / bend]), second[1, 1] > 0
        else:
            move, is_bowl = _free_step(gradient, second)
        if is_bowl and -0.5 * gradient @ move <= TOLERANCE:
            # At the bound: gamma moves the rest of the way to it, and T with it.
            rest = gammas[int(x[0] >= high)] - x[0] if is_held else 0.0
            return np.array([x[0] + move[0] + rest, x[1] + move[1] - second[0, 1] / bend * rest])
        # Gamma at most doubles, counted from -1: along the ridge T does so too.
        reach = np.array([1.0 + max(x[0], 0.0), 1.0])
        move *= min(1.0, float(np.min(reach / np.maximum(np.abs(move), 1e-300))))
        if not low <= x[0] + move[0] <= high:  # stop there, at the best T for it
            inside = (low if move[0] < 0 else high) - x[0]
            move = np.array([inside, -(gradient[1] + second[0, 1] * inside) / bend])
        x = x + move
    return None


def _free_step(gradient: Floats, second: Floats) -> tuple[Floats, bool]:
    """Return Newton's step, and whether it leads down a bowl.

    Where the loss bends down, it goes along the slope as far as the bend suggests.
    """
    curvature, axes = np.linalg.eigh(second)
    move = -axes @ (axes.T @ gradient / np.maximum(np.abs(curvature), LEAST_CURVATURE))
    return move, bool(curvature[0] > 0)


def along_bound(loss: JointLoss, start: Floats, margin: float) -> Floats:
    """Return the point of least loss at the gamma of `start`, with log T within `margin`."""
    lowest = minimum(
        lambda u: float(loss.at(start[0], [u])[0, 0]),
        start[1] - margin,
        start[1] + margin,
        xtol=1e-7,
    )
    return np.array([start[0], lowest])


def nelder_mead(loss: JointLoss, start: Floats, gammas: tuple[float, float]) -> JointMinimum:
    """Return the minimum that Nelder-Mead finds from `start`."""
    from scipy.optimize import minimize

    result = minimize(
        lambda x: float(loss.at(x[0], [x[1]])[0, 0]),
        start,
        method="Nelder-Mead",
        bounds=[gammas, (-MAX_LOG_RATIO, MAX_LOG_RATIO)],
        options={"xatol": 1e-7, "fatol": 1e-13, "maxfev": MAX_EVALUATIONS},
    )
    gamma = float(result.x[0])
    return JointMinimum(
        gamma,
        loss.temperature * math.exp(float(result.x[1])),
        float(result.fun),
        bool(result.success),
        _is_end(gamma, gammas) or abs(abs(float(result.x[1])) - MAX_LOG_RATIO) < 1e-6,
        loss.n_evaluations,
    )


def minimum_at(loss: JointLoss, x: Floats, gammas: tuple[float, float]) -> JointMinimum:
    """Return the minimum at `x`, gamma put within its bounds."""
    gamma, log_t = min(max(float(x[0]), gammas[0]), gammas[1]), float(x[1])
    return JointMinimum(
        gamma,
        loss.temperature * math.exp(log_t),
        float(loss.at(gamma, [log_t])[0, 0]),
        True,
        _is_end(gamma, gammas),
        loss.n_evaluations,
    )


def _is_end(gamma: float, gammas: tuple[float, float]) -> bool:
    low, high = gammas
    return low < high and (gamma - low < 1e-6 or high - gamma < 1e-6)
