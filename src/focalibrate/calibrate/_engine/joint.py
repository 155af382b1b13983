r"""The gamma and temperature that minimise the mean log loss together."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate._engine.blocks import thin_rows
from focalibrate.calibrate._engine.grid import GridEvaluator

Floats = NDArray[np.float64]

START_GAMMAS = (-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
START_TEMPERATURES = 9
START_MARGIN = math.log(1.6)
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
WORTH = 0.01
"""A valley that a coarse look shows so much higher than the lowest is not followed."""
SAME = 0.05
"""Minima whose gammas differ by less, relative to 1 + gamma, are one."""


@dataclass(frozen=True)
class JointMinimum:
    """Where the search ended."""

    gamma: float
    temperature: float
    loss: float
    converged: bool
    at_bound: bool
    n_evaluations: int


SHORT_STEP = 0.3
"""Of log T, and of gamma relative to 1 + gamma: one Newton step finds a minimum so near."""


def minimise_jointly(
    evaluate: GridEvaluator, temperature: float, gammas: tuple[float, float]
) -> JointMinimum:
    r"""Return the minimum over gamma, within `gammas`, and every T.

    A coarse look from :math:`T = T_0` to the ray :math:`T = (1+\gamma)\,T_0`, along which the
    confidence of a binary classifier hardly changes, then Newton's method in :math:`\gamma` and
    :math:`\log T`, both on a sample first; where that fails Nelder-Mead. The loss may have a
    second valley, at negative gamma: each that the look shows is followed to its bottom. T is
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
    loss, first_look = _Loss(evaluate, temperature), _Loss(sample, temperature)
    starts = _coarse_minima(first_look, loss, gammas)
    minima: list[JointMinimum] = []
    on_bound: list[JointMinimum] = []
    seen: list[Floats] = []
    for start in starts:
        if start[0] == gammas[0] < gammas[1]:  # Newton may leave the bound for another valley
            on_bound.append(_minimum(loss, _along_bound(loss, start), gammas))
        near = start if sample is evaluate else _newton(first_look, start, gammas)
        near = start if near is None else near
        if any(_is_same(near, other) for other in seen):
            continue  # two starts in one valley
        seen.append(near)
        x = _newton(loss, near, gammas)
        if x is not None:
            minima.append(_minimum(loss, x, gammas))
    if not minima:
        minima = [_nelder_mead(loss, x, gammas) for x in starts]
    best = min([*minima, *on_bound], key=lambda m: m.loss)
    return replace(best, n_evaluations=loss.n_evaluations)


def _along_bound(loss: "_Loss", start: Floats) -> Floats:
    """Return the point of least loss at the gamma of `start`."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda u: float(loss.at(start[0], [u])[0, 0]),
        bounds=(start[1] - START_MARGIN, start[1] + START_MARGIN),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return np.array([start[0], float(found.x)])


def _minimum(loss: "_Loss", x: Floats, gammas: tuple[float, float]) -> JointMinimum:
    gamma, log_t = min(max(float(x[0]), gammas[0]), gammas[1]), float(x[1])
    return JointMinimum(
        gamma,
        loss.temperature * math.exp(log_t),
        float(loss.at(gamma, [log_t])[0, 0]),
        True,
        _is_end(gamma, gammas),
        loss.n_evaluations,
    )


def _is_same(a: Floats, b: Floats) -> bool:
    return bool(abs(a[0] - b[0]) <= SAME * (1.0 + abs(b[0])))


class _Loss:
    """The mean log loss in gamma and ``log(T / temperature)``, counted."""

    def __init__(self, evaluate: GridEvaluator, temperature: float) -> None:
        self.evaluate = evaluate
        self.temperature = temperature
        self.n_evaluations = 0

    def at(self, gammas: Any, log_ts: Any) -> Floats:
        """Return the losses ``[G, M]``."""
        # A difference taken at the bound must not leave it by rounding.
        exponents = np.maximum(np.atleast_1d(gammas), -1.0).tolist()
        points = [(self.temperature * math.exp(u), exponents) for u in log_ts]
        self.n_evaluations += len(points) * len(exponents)
        return np.stack([result[0, 0] for result in self.evaluate(points)], axis=1)


def _is_end(gamma: float, gammas: tuple[float, float]) -> bool:
    low, high = gammas
    return low < high and (gamma - low < 1e-6 or high - gamma < 1e-6)


def _coarse_minima(first_look: _Loss, loss: _Loss, gammas: tuple[float, float]) -> list[Floats]:
    """Return the best point of every valley that a coarse look shows, the lowest first.

    The sample finds a temperature for each gamma; the valleys are those of all rows, as a sample
    may well miss the deeper of two.
    """
    starts = sorted({min(max(g, gammas[0]), gammas[1]) for g in START_GAMMAS})
    points = []
    for gamma in starts:
        # From no change of T, as where confidence is low, to that of a binary classifier.
        ends = sorted([0.0, math.log(max(1.0 + gamma, 0.5))])
        log_ts = np.linspace(ends[0] - START_MARGIN, ends[1] + START_MARGIN, START_TEMPERATURES)
        log_t = float(log_ts[first_look.at(gamma, log_ts)[0].argmin()])
        points.append((float(loss.at(gamma, [log_t])[0, 0]), gamma, log_t))
    profile = [math.inf, *(value for value, _, _ in points), math.inf]
    valleys = [
        point
        for point, before, after in zip(points, profile[:-2], profile[2:], strict=True)
        if before >= point[0] < after
    ]
    lowest = min(point[0] for point in valleys)
    return [np.array(point[1:]) for point in sorted(valleys) if point[0] <= lowest + WORTH]


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
    return _stencil(loss.at(x[0] + offsets, x[1] + offsets))


def _stencil(f: Floats) -> tuple[float, Floats, Floats]:
    """Return value, gradient and second derivatives from nine values ``[3, 3]``."""
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


def newton_step_of_parts(
    evaluate: GridEvaluator, gamma: float, temperature: float, gammas: tuple[float, float]
) -> list[tuple[float, float] | None]:
    """Return gamma and T of each part of `evaluate`, one Newton step from a common point.

    A gamma at an end of `gammas` stays there where the part's loss falls towards that end. None
    where the step is not a short one down a bowl.
    """
    offsets = DIFFERENCE * np.array([-1.0, 0.0, 1.0])
    is_end = _is_end(gamma, gammas)
    inwards = DIFFERENCE if gamma - gammas[0] < gammas[1] - gamma else -DIFFERENCE
    exponents = [gamma, gamma + inwards] if is_end else (gamma + offsets).tolist()
    points = [(temperature * math.exp(u), exponents) for u in offsets]
    values = np.stack([result[:, 0] for result in evaluate(points)], axis=2)  # [P, G, M]
    found: list[tuple[float, float] | None] = []
    for f in values:
        move, is_bowl = _held_step(f) if is_end else _free_step(*_stencil(f)[1:])
        is_short = abs(move[0]) <= SHORT_STEP * (1.0 + gamma) and abs(move[1]) <= SHORT_STEP
        if is_bowl and is_short:
            found.append((gamma + float(move[0]), temperature * math.exp(float(move[1]))))
        else:
            found.append(None)
    return found


def _held_step(f: Floats) -> tuple[Floats, bool]:
    """Return the step in log T from values at the end and inside of it, ``[2, 3]``."""
    slope = (f[0, 2] - f[0, 0]) / (2.0 * DIFFERENCE)
    bend = (f[0, 2] - 2.0 * f[0, 1] + f[0, 0]) / DIFFERENCE**2
    is_held = f[0, 1] <= f[1, 1]
    return np.array([0.0, -slope / max(bend, LEAST_CURVATURE)]), bool(is_held and bend > 0)
