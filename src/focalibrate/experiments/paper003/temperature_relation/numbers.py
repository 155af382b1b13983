"""Computations of the experiment `temperature-relation`, one function per part."""

from collections.abc import Callable

import numpy as np

from focalibrate._array import Floats
from focalibrate.experiments.engine.experiment import Folders, Numbers, Task
from focalibrate.report.plot import CORNERS
from focalibrate.theory import (
    focal_minimiser,
    nearest_temperature,
    proper_focal_loss,
    recover_log_odds,
    recover_posterior,
    temperature_bounds,
)
from focalibrate.theory.claims import grid_line, worst_case

TRUTH = np.array([0.55, 0.3, 0.15])
"""Ground truth of the isolines of Figure 4."""
LEVELS = (3.0, 12.0, 20.0)
"""Percentiles of the isolines of Figure 4."""
RISKS: dict[str, Callable[[Floats], Floats]] = {
    "Brier": lambda q: np.sum(TRUTH * (np.sum(q**2, axis=-1)[:, None] - 2 * q + 1), axis=-1),
    "CE": lambda q: -np.log(q) @ TRUTH,
    "γ=1": lambda q: _proper_risk(q, 1.0),
    "γ=3": lambda q: _proper_risk(q, 3.0),
}
"""Conditional risk of each loss of Figure 4 if the true probabilities are `TRUTH`."""


def _proper_risk(q: Floats, gamma: float) -> Floats:
    risk: Floats = proper_focal_loss(np.log(q), np.tile(TRUTH, (len(q), 1)), gamma)
    return risk


def run(task: Task, folders: Folders) -> Numbers:
    """Compute one part; nothing is read or trained."""
    del folders
    part = {
        "map": _map,
        "loss": _loss,
        "nearest": _nearest,
        "printed": _printed,
        "grid": _grid,
        "bounds": _bounds,
        "logits": _logits,
        "isolines": _isolines,
        "difference": _difference,
        "example": _example,
    }
    return part[task["part"]](task)


def simplex_grid(steps: int) -> Floats:
    """Return the points of the simplex at multiples of 1/steps, none on an edge."""
    i, j = np.meshgrid(np.arange(1, steps), np.arange(1, steps))
    keep = i + j < steps
    first, second = i[keep] / steps, j[keep] / steps
    return np.stack([first, second, 1.0 - first - second], axis=-1)


def _map(task: Task) -> Numbers:
    q = np.linspace(0.0, 1.0, task["n"] + 2)[1:-1]
    after = 1.0 / (1.0 + np.exp(-recover_log_odds(np.log(q / (1.0 - q)), task["gamma"])))
    yield from (("recovered", float(y), float(x)) for x, y in zip(q, after, strict=True))


def _loss(task: Task) -> Numbers:
    gamma = task["gamma"]
    q = np.linspace(0.0, 1.0, task["n"] + 2)[1:-1]
    focal = -((1.0 - q) ** gamma) * np.log(q)
    log_q = np.log(np.stack([q, 1.0 - q], axis=-1))
    proper = proper_focal_loss(log_q, np.zeros(len(q), dtype=np.int64), gamma)
    side = np.sign(q - 0.5)
    # 0 in the middle, where both maps leave the score unchanged.
    yield "least excess", float((side * (proper - focal))[np.abs(q - 0.5) > 1e-9].min())
    for x, a, b in zip(q, focal, proper, strict=True):
        yield "focal", float(a), float(x)
        yield "proper", float(b), float(x)


def _nearest(task: Task) -> Numbers:
    k, step = task["n_classes"], task["step"]
    for gamma in np.arange(step, 10.0 + 0.5 * step, step):
        found = nearest_temperature(float(gamma), k)
        yield "1/T", 1.0 / found.temperature, round(float(gamma), 6)
        yield "error", found.largest_difference, round(float(gamma), 6)


def _printed(task: Task) -> Numbers:
    found = nearest_temperature(task["gamma"], task["n_classes"])
    worst = worst_case(task["gamma"], task["n_classes"], found.temperature)
    yield "T", found.temperature
    yield "error", found.largest_difference
    yield from ((f"worst q{i}", float(q)) for i, q in enumerate(worst.probs))


def _grid(task: Task) -> Numbers:
    line = grid_line(task["n_classes"], task["step"])
    yield "slope", line.slope
    yield "intercept", line.intercept


def _bounds(task: Task) -> Numbers:
    s = np.arange(task["step"], 20.0 + 0.5 * task["step"], task["step"])
    for gamma in (float(g) for g in np.arange(0.5, 10.25, 0.5)):
        ratio, proven = s / recover_log_odds(s, gamma), temperature_bounds(gamma)
        yield "proven low", proven.low, gamma
        yield "proven high", proven.high, gamma
        yield "measured low", float(ratio.min()), gamma
        yield "measured high", float(ratio.max()), gamma


def _logits(task: Task) -> Numbers:
    s = np.linspace(-6.0, 6.0, task["n"])
    temperature = nearest_temperature(task["gamma"], 2).temperature
    after = recover_log_odds(s, task["gamma"])
    for x, y in zip(s, after, strict=True):
        yield "recovered", float(1.0 / (1.0 + np.exp(-y))), float(x)
        yield "scaled", float(1.0 / (1.0 + np.exp(-x / temperature))), float(x)


def _isolines(task: Task) -> Numbers:
    risk = RISKS[task["loss"]]
    values = risk(simplex_grid(task["steps"]))
    rank = values.argsort().argsort() / (len(values) - 1)
    yield from (("percentile", round(100.0 * float(r), 3), float(i)) for i, r in enumerate(rank))
    yield "third harmonic", third_harmonic(isoline(risk, float(np.percentile(values, LEVELS[1]))))
    least = simplex_grid(task["steps"])[values.argmin()]
    yield "least at distance", float(np.abs(least - TRUTH).max())


def isoline(risk: Callable[[Floats], Floats], level: float, *, n: int = 360) -> Floats:
    """Return points of the plane ``[n, 2]`` where the risk is `level`, around `TRUTH`.

    A proper risk rises along every ray from the truth: bisection finds the only point, or stops at
    the edge of the simplex.
    """
    angles = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    across = np.linalg.pinv(np.vstack([CORNERS.T, np.ones(3)]))[:, :2]  # plane to probabilities
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=-1) @ across.T
    reach = np.min(np.where(rays < 0, TRUTH / np.maximum(-rays, 1e-300), np.inf), axis=-1)
    low, high = np.zeros(n), reach * (1.0 - 1e-9)
    for _ in range(50):
        middle = 0.5 * (low + high)
        is_below = risk(TRUTH + middle[:, None] * rays) < level
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    points: Floats = (TRUTH + low[:, None] * rays) @ CORNERS
    return points


def third_harmonic(points: Floats) -> float:
    """Return how triangular a closed line is: 0 for a circle and for an ellipse.

    The third harmonic of the distance from the line's centre as a function of the angle, relative
    to its mean.
    """
    x, y = (points - points.mean(axis=0)).T
    for _ in range(20):  # to the centre at which the first harmonic vanishes
        angle, radius = np.arctan2(y, x), np.hypot(x, y)
        order = np.argsort(angle)
        even = np.linspace(-np.pi, np.pi, 720, endpoint=False)
        r = np.interp(even, angle[order], radius[order], period=2.0 * np.pi)
        once = 2.0 * np.mean(r * np.exp(1j * even))
        x, y = x - once.real, y - once.imag
    return float(2.0 * np.abs(np.mean(r * np.exp(3j * even))) / r.mean())


def _difference(task: Task) -> Numbers:
    q = simplex_grid(task["steps"])
    temperature = nearest_temperature(task["gamma"], 3).temperature
    scaled = q ** (1.0 / temperature)
    scaled /= scaled.sum(axis=-1, keepdims=True)
    gap = np.abs(recover_posterior(q, task["gamma"]) - scaled).max(axis=-1)
    yield from (("difference", round(float(d), 7), float(i)) for i, d in enumerate(gap))
    worst = q[gap.argmax()]
    yield "to the corner", float(np.linalg.norm(worst - np.eye(3), axis=-1).min())
    yield "to the centre", float(np.linalg.norm(worst - 1.0 / 3.0))
    yield "top there", float(worst.max())


def _example(task: Task) -> Numbers:
    yield "q", float(focal_minimiser(np.array([0.8, 0.2]), task["gamma"])[0])
