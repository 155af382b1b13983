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
MAX_STEP = 1.0
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
    :math:`\log T`, both on a sample first; where that fails, as at a bound, Nelder-Mead. T is
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
        value = float(loss.at(x[0], [x[1]])[0, 0])
        gamma, log_t = x.tolist()
        return JointMinimum(
            gamma, temperature * math.exp(log_t), value, True, False, loss.n_evaluations
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
    """Return the minimum near `start`, None where it is not found well within bounds."""
    x, move, least = start, np.zeros(2), math.inf
    offsets = DIFFERENCE * np.array([-1.0, 0.0, 1.0])
    for _ in range(MAX_NEWTON):
        is_inside = gammas[0] + DIFFERENCE < x[0] < gammas[1] - DIFFERENCE
        if not is_inside or abs(x[1]) > MAX_LOG_RATIO:
            return None
        f = loss.at(x[0] + offsets, x[1] + offsets)
        if f[1, 1] > least + TOLERANCE:
            move = 0.5 * move
            x = x - move
            continue
        least = float(f[1, 1])
        gradient = np.array([f[2, 1] - f[0, 1], f[1, 2] - f[1, 0]]) / (2.0 * DIFFERENCE)
        mixed = (f[2, 2] - f[2, 0] - f[0, 2] + f[0, 0]) / 4.0
        second = [
            [f[2, 1] - 2.0 * least + f[0, 1], mixed],
            [mixed, f[1, 2] - 2.0 * least + f[1, 0]],
        ]
        curvature, axes = np.linalg.eigh(np.array(second) / DIFFERENCE**2)
        # Where the loss bends down, a step along the slope as long as the bend suggests.
        move = -axes @ (axes.T @ gradient / np.maximum(np.abs(curvature), 1e-9))
        if curvature[0] > 0 and -0.5 * gradient @ move <= TOLERANCE:
            return np.asarray(x + move)
        move *= min(1.0, MAX_STEP / float(np.abs(move).max()))
        x = x + move
    return None


def _nelder_mead(loss: _Loss, start: Floats, gammas: tuple[float, float]) -> JointMinimum:
    from scipy.optimize import minimize

    low, high = gammas
    result = minimize(
        lambda x: float(loss.at(x[0], [x[1]])[0, 0]),
        start,
        method="Nelder-Mead",
        bounds=[gammas, (-MAX_LOG_RATIO, MAX_LOG_RATIO)],
        options={"xatol": 1e-7, "fatol": 1e-13, "maxfev": MAX_EVALUATIONS},
    )
    gamma = float(result.x[0])
    at_bound = low < high and (gamma - low < 1e-6 or high - gamma < 1e-6)
    return JointMinimum(
        gamma,
        loss.temperature * math.exp(float(result.x[1])),
        float(result.fun),
        bool(result.success),
        at_bound or abs(abs(float(result.x[1])) - MAX_LOG_RATIO) < 1e-6,
        loss.n_evaluations,
    )
