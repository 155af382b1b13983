r"""The gamma and temperature that minimise the mean log loss together."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate._blocks import thin_rows
from focalibrate.calibrate._grid import GridEvaluator

Floats = NDArray[np.float64]

START_GAMMAS = (-0.5, 0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
START_FACTORS = (0.6, 0.8, 1.0, 1.25, 1.6)
SAMPLE_ROWS = 1024
"""The first look is at about so many rows, evenly spaced, of at least twice as many."""
DIFFERENCE = 1e-3
"""Step of the differences that stand for derivatives: off by about 1e-7 of the third."""
TOLERANCE = 1e-10
"""Newton ends with a last step where the loss has no more than this to fall."""
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


def minimise_jointly(
    evaluate: GridEvaluator, temperature: float, gammas: tuple[float, float]
) -> JointMinimum:
    r"""Return the minimum over gamma, within `gammas`, and every T.

    A coarse look around the ray :math:`T = (1+\gamma)\,T_0`, along which the confidence of a
    binary classifier hardly changes, then Newton's method in :math:`\gamma` and
    :math:`\log T`, both on a sample first; where that fails Nelder-Mead. T is
    relative to the temperature :math:`T_0` of plain scaling, so that scaling the logits scales
    T and nothing else.

    Args:
        evaluate: the mean log loss.
        temperature: the best :math:`T_0` at ``gamma = 0``.
        gammas: least and largest gamma.
    """
    rows = evaluate.rows
    sample = evaluate
    if rows.n_rows >= 2 * SAMPLE_ROWS:
        thinned = rows.take(thin_rows(rows.n_rows, at_most=SAMPLE_ROWS))
        sample = GridEvaluator(thinned, "nll", 1, evaluate.workers)
    start = _coarse_minimum(_Loss(sample, temperature), gammas)
    loss = _Loss(evaluate, temperature)
    near = _newton(_Loss(sample, temperature), start, gammas) if sample is not evaluate else start
    x = None if near is None else _newton(loss, near, gammas)
    if x is not None:
        gamma, log_t = min(max(float(x[0]), gammas[0]), gammas[1]), float(x[1])
        value = float(loss.at(gamma, [log_t])[0, 0])
        return JointMinimum(
            gamma,
            temperature * math.exp(log_t),
            value,
            True,
            _is_end(gamma, gammas),
            loss.n_evaluations,
        )
    return _nelder_mead(loss, start, gammas)


class _Loss:
    """The mean log loss in gamma and ``log(T / temperature)``, counted."""

    def __init__(self, evaluate: GridEvaluator, temperature: float) -> None:
        self.evaluate = evaluate
        self.temperature = temperature
        self.n_evaluations = 0

    def at(self, gammas: Any, log_ts: Any) -> Floats:
        """Return the losses ``[G, M]``."""
        exponents = np.atleast_1d(gammas).tolist()
        points = [(self.temperature * math.exp(u), exponents) for u in log_ts]
        self.n_evaluations += len(points) * len(exponents)
        return np.stack([result[0, 0] for result in self.evaluate(points)], axis=1)


def _is_end(gamma: float, gammas: tuple[float, float]) -> bool:
    low, high = gammas
    return low < high and (gamma - low < 1e-6 or high - gamma < 1e-6)


def _coarse_minimum(loss: _Loss, gammas: tuple[float, float]) -> Floats:
    starts = sorted({min(max(g, gammas[0]), gammas[1]) for g in START_GAMMAS})
    shifts = np.log(START_FACTORS)
    best = []
    for gamma in starts:
        log_ts = math.log(max(1.0 + gamma, 0.5)) + shifts
        losses = loss.at(gamma, log_ts)[0]
        best.append((float(losses.min()), gamma, float(log_ts[losses.argmin()])))
    return np.array(min(best)[1:])


def _newton(loss: _Loss, start: Floats, gammas: tuple[float, float]) -> Floats | None:
    """Return the minimum near `start`, a gamma at its bound included; None where none is found."""
    low, high = gammas[0] + DIFFERENCE, gammas[1] - DIFFERENCE
    if not low < high:
        return None
    x, move, least = np.array([min(max(start[0], low), high), start[1]]), np.zeros(2), math.inf
    for _ in range(MAX_NEWTON):
        if abs(x[1]) > MAX_LOG_RATIO:
            return None
        value, gradient, second = _differences(loss, x)
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
            # Held, gamma goes on to its bound, and T with it.
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


def _differences(loss: _Loss, x: Floats) -> tuple[float, Floats, Floats]:
    """Return the loss at `x`, its gradient and its second derivatives, by central differences."""
    offsets = DIFFERENCE * np.array([-1.0, 0.0, 1.0])
    f = loss.at(x[0] + offsets, x[1] + offsets)
    gradient = np.array([f[2, 1] - f[0, 1], f[1, 2] - f[1, 0]]) / (2.0 * DIFFERENCE)
    mixed = (f[2, 2] - f[2, 0] - f[0, 2] + f[0, 0]) / 4.0
    twice = 2.0 * f[1, 1]
    second = np.array([[f[2, 1] - twice + f[0, 1], mixed], [mixed, f[1, 2] - twice + f[1, 0]]])
    return float(f[1, 1]), gradient, second / DIFFERENCE**2


def _nelder_mead(loss: _Loss, start: Floats, gammas: tuple[float, float]) -> JointMinimum:
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
