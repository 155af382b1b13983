"""Newton's method for small convex problems, with lower bounds on some parameters."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats

ConvexObjective = Callable[[Floats], tuple[float, Floats, Floats]]
"""``parameters -> (value, gradient, second derivatives)``; the value may be inf."""

TOLERANCE = 1e-12
MAX_STEPS = 100
MAX_HALVINGS = 50


@dataclass(frozen=True, eq=False)
class ConvexMinimum:
    """Where the search ended."""

    x: Floats
    value: float
    converged: bool
    n_evaluations: int


def minimise_convex(
    objective: ConvexObjective, start: Floats, *, lower: Floats | None = None
) -> ConvexMinimum:
    """Return the minimum of a convex function of few parameters, each at least `lower`.

    Newton's step to the minimum of the quadratic model within the bounds, halved until the value
    falls.
    """
    low = np.full(len(start), -np.inf) if lower is None else lower
    x = np.maximum(start.astype(np.float64), low)
    value, gradient, second = objective(x)
    n_evaluations = 1
    for _ in range(MAX_STEPS):
        step = _bounded_step(second, gradient, low - x)
        gain = -float(gradient @ step + 0.5 * step @ second @ step)
        if gain <= TOLERANCE:  # a last step costs nothing
            return ConvexMinimum(np.maximum(x + step, low), value, True, n_evaluations)
        for halving in range(MAX_HALVINGS):
            moved = np.maximum(x + 0.5**halving * step, low)
            found = objective(moved)
            n_evaluations += 1
            if found[0] <= value + 1e-4 * float(gradient @ (moved - x)) and np.isfinite(found[0]):
                break
        else:  # no further gain above rounding
            return ConvexMinimum(x, value, True, n_evaluations)
        if np.array_equal(moved, x):
            return ConvexMinimum(x, value, True, n_evaluations)
        x, (value, gradient, second) = moved, found
    return ConvexMinimum(x, value, False, n_evaluations)


def _bounded_step(second: Floats, gradient: Floats, room: Floats) -> Floats:
    """Return the step to the minimum of the quadratic model, each part at least its `room`.

    Parameters that would cross their bound are fixed there and the others solved for again; one
    that the model pulls away from its bound is freed.
    """
    is_free = ~((room >= 0) & (gradient > 0))
    step = np.zeros_like(gradient)
    for _ in range(3 * len(gradient)):
        step = np.where(is_free, 0.0, room)
        rest = gradient + second @ step
        step[is_free] = _solve(second[np.ix_(is_free, is_free)], rest[is_free])
        crosses = is_free & (step < room)
        if crosses.any():
            is_free &= ~crosses
            continue
        pull = np.where(is_free, 0.0, gradient + second @ step)
        most = int(np.argmin(pull))
        if pull[most] >= 0:
            return step
        is_free[most] = True
    return np.maximum(
        -gradient / np.maximum(np.diagonal(second), 1e-300), room
    )  # no end: downhill


def _solve(second: Floats, gradient: Floats) -> Floats:
    """Return Newton's step; directions without curvature get a little."""
    if not len(gradient):
        return gradient
    scale = np.sqrt(np.maximum(np.diagonal(second), 1e-300))
    scaled = second / np.outer(scale, scale)
    scaled[np.diag_indices_from(scaled)] += 1e-10
    try:
        return np.asarray(-np.linalg.solve(scaled, gradient / scale) / scale)
    except np.linalg.LinAlgError:
        return np.asarray(-gradient / scale**2)


def logistic_objective(
    features: Floats,
    labels: NDArray[np.bool_],
    weights: Floats | None,
    *,
    penalty: Floats | None = None,
    centre: Floats | None = None,
) -> ConvexObjective:
    r"""Return the mean log loss of :math:`\sigma(\phi\theta)` with a quadratic penalty.

    The penalty is :math:`(\theta - c)^\top S (\theta - c)`.
    """
    n = len(labels)
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    sign = np.where(labels, 1.0, -1.0)
    middle = np.zeros(features.shape[1]) if centre is None else centre

    def objective(x: Floats) -> tuple[float, Floats, Floats]:
        margin = sign * (features @ x)
        value = float(share @ np.logaddexp(0.0, -margin))
        miss = np.exp(-np.logaddexp(0.0, margin))  # probability of the other class
        gradient = -(features.T @ (share * sign * miss))
        bend = share * miss * (1.0 - miss)
        second = (features * bend[:, None]).T @ features
        if penalty is not None:
            gap = penalty @ (x - middle)
            value += float((x - middle) @ gap)
            gradient = gradient + 2.0 * gap
            second = second + 2.0 * penalty
        return value, gradient, second

    return objective
