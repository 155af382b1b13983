"""Minima of convex losses, Newton or softmax regression, and what a fit says of itself."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats

ConvexObjective = Callable[[Floats], tuple[float, Floats, Floats]]
"""``parameters -> (value, gradient, second derivatives)``; the value may be inf."""
Solver = Callable[[Floats], Floats]
"""Solves with second derivatives close to those sought."""

TOLERANCE = 1e-12
MAX_STEPS = 100
MAX_HALVINGS = 50
REGRESSION_TOLERANCE = {4: 3e-9, 8: 1e-10}
"""A last step is taken where the objective has no more than this to fall, by the size in bytes of
the working precision: what is left after it is smaller by several orders of magnitude."""
NEAR = 1e-6
"""The same where the start is the minimum of similar rows."""
ROUNDING = 1e-7
"""What single precision may add to a mean log loss of 1."""
MAX_NEWTON = 50
MAX_CONJUGATE = 120
STALE = 3
"""After a step that took this many times the products of the first, the next one is
preconditioned anew."""
BLOCK_CLASSES = 160
"""Up to this many classes, steps of a matrix are found with one block of second derivatives per
class."""
DENSE_CLASSES = 320
"""Up to this many classes, those of a vector are found with all second derivatives."""


class CalibrationWarning(UserWarning):
    """Warning that the result of a fit should be checked before it is used."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FitReport:
    """Diagnostics of one fit: ``calibrator.report``."""

    method: str
    """The calibrator's kind."""
    criterion: str
    """What was minimised."""
    value: float
    """The criterion at the parameters returned, on the rows fitted on."""
    n_rows: int
    n_classes: int
    n_evaluations: int = 1
    """Times the criterion was evaluated on all rows."""
    converged: bool = True
    """False if the iterations ran out before the tolerance was met."""
    at_bound: bool = False
    """True if the best parameters are at the edge of the range searched."""
    gammas: tuple[float, ...] | None = None
    temperatures: tuple[float, ...] | None = None
    held_out: dict[str, float] | None = None
    """Mean log loss of every candidate of the automatic choice, from simple to complex."""
    reason: str = ""
    """Why the automatic choice took this method, in words."""
    grid: NDArray[np.float64] | None = None
    """The criterion at every gamma and temperature, ``[G, M]``; nan where not evaluated."""


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the search of a fit ended."""

    x: Any
    """The parameters."""
    value: float
    converged: bool = True
    n_evaluations: int = 1
    at_bound: bool = False


_collected: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the warnings of fits in this thread instead of issuing them.

    `warnings.catch_warnings` changes the filters of all threads.
    """
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


def warn(message: str) -> None:
    """Warn the caller of the public fit (two frames up)."""
    messages = _collected.get()
    if messages is None:
        warnings.warn(message, CalibrationWarning, stacklevel=3)
    else:
        messages.append(message)


def minimise_convex(
    objective: ConvexObjective, start: Floats, *, lower: Floats | None = None
) -> Minimum:
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
            return Minimum(np.maximum(x + step, low), value, True, n_evaluations)
        for halving in range(MAX_HALVINGS):
            moved = np.maximum(x + 0.5**halving * step, low)
            found = objective(moved)
            n_evaluations += 1
            if found[0] <= value + 1e-4 * float(gradient @ (moved - x)) and np.isfinite(found[0]):
                break
        else:  # no further gain above rounding
            return Minimum(x, value, True, n_evaluations)
        if np.array_equal(moved, x):
            return Minimum(x, value, True, n_evaluations)
        x, (value, gradient, second) = moved, found
    return Minimum(x, value, False, n_evaluations)


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
    labels: NDArray[Any],
    weights: Floats | None,
    *,
    penalty: Floats | None = None,
    centre: Floats | None = None,
) -> ConvexObjective:
    r"""Return the mean log loss of :math:`\sigma(\phi\theta)` with a quadratic penalty.

    Labels are booleans or shares in [0, 1]. The penalty is
    :math:`(\theta - c)^\top S (\theta - c)`.
    """
    n = len(labels)
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    y = labels.astype(np.float64)
    middle = np.zeros(features.shape[1]) if centre is None else centre

    def objective(x: Floats) -> tuple[float, Floats, Floats]:
        s = features @ x
        lost = np.log1p(np.exp(-np.abs(s)))
        value = float(share @ (lost + np.maximum(s, 0.0) - y * s))
        p = np.exp(np.minimum(s, 0.0) - lost)
        gradient = features.T @ (share * (p - y))
        second = (features * (share * p * (1.0 - p))[:, None]).T @ features
        if penalty is not None:
            gap = penalty @ (x - middle)
            value += float((x - middle) @ gap)
            gradient = gradient + 2.0 * gap
            second = second + 2.0 * penalty
        return value, gradient, second

    return objective


@dataclass(frozen=True, eq=False)
class MatrixDesign:
    """``W x + b``: `features` are ``[x, 1]``, parameters a matrix ``[K, K + 1]``, row by row."""

    features: NDArray[Any]

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.features.shape[1] - 1)

    def apply(self, parameters: Floats) -> NDArray[Any]:
        """Return the change of the logits."""
        matrix = parameters.reshape(self.n_classes, -1).astype(self.features.dtype, copy=False)
        changed: NDArray[Any] = self.features @ matrix.T
        return changed

    def adjoint(self, residuals: NDArray[Any]) -> Floats:
        """Return the transposed map of `residuals` ``[N, K]``."""
        return np.asarray(residuals.T @ self.features, dtype=np.float64).ravel()

    def inverse(self, probs: NDArray[Any], weights: NDArray[Any], penalty: Floats) -> Solver:
        r"""Return a solver with one block per class.

        Block j has the exact diagonal :math:`\sum_i w_i p_{ij}(1-p_{ij}) x_{ik}^2` and the
        correlations of the features over all rows, which saves one matrix product per class.
        """
        x = self.features
        curvature = probs * (1.0 - probs)
        curvature *= weights[:, None]
        diagonal = np.asarray(curvature.T @ x**2, dtype=np.float64)
        penalties = penalty.reshape(diagonal.shape)
        if self.n_classes > BLOCK_CLASSES:
            return _divided_by((diagonal + penalties).ravel())
        rows = x * np.sqrt(curvature.sum(axis=1))[:, None]
        moments = np.asarray(rows.T @ rows, dtype=np.float64)
        scale = np.sqrt(np.maximum(np.diagonal(moments), 1e-300))
        root = np.sqrt(diagonal)
        blocks = (moments / np.outer(scale, scale)) * (root[:, :, None] * root[:, None, :])
        at = np.arange(blocks.shape[1])
        blocks[:, at, at] += penalties
        inverses = np.linalg.inv(blocks)

        def solve(target: Floats) -> Floats:
            return np.asarray(inverses @ target.reshape(*penalties.shape, 1)).ravel()

        return solve


@dataclass(frozen=True, eq=False)
class VectorDesign:
    """``d * x + b``: parameters are `d` and `b`, ``[2K]``."""

    x: NDArray[Any]

    def apply(self, parameters: Floats) -> NDArray[Any]:
        """Return the change of the logits."""
        d, b = parameters.astype(self.x.dtype, copy=False).reshape(2, -1)
        changed: NDArray[Any] = self.x * d + b
        return changed

    def adjoint(self, residuals: NDArray[Any]) -> Floats:
        """Return the transposed map of `residuals` ``[N, K]``."""
        scaled = np.einsum("nk,nk->k", residuals, self.x)
        return np.concatenate([scaled, residuals.sum(axis=0)]).astype(np.float64, copy=False)

    def inverse(self, probs: NDArray[Any], weights: NDArray[Any], penalty: Floats) -> Solver:
        """Return a solver with all second derivatives, or with their diagonal for many classes."""
        k = self.x.shape[1]
        root = np.sqrt(weights)[:, None]
        both = np.empty((len(probs), 2 * k), dtype=probs.dtype)
        np.multiply(probs, root, out=both[:, k:])
        np.multiply(both[:, k:], self.x, out=both[:, :k])
        at, is_small = np.arange(k), k <= DENSE_CLASSES
        if is_small:  # one array twice: half the work for BLAS
            total = -np.asarray(both.T @ both, dtype=np.float64)
        else:
            total = -np.einsum("nk,nk->k", both, both, dtype=np.float64)
        both *= root
        diagonal = np.concatenate(
            [np.einsum("nk,nk->k", both[:, :k], self.x), both[:, k:].sum(axis=0)]
        )
        if not is_small:
            return _divided_by(total + diagonal + penalty)
        total[np.arange(2 * k), np.arange(2 * k)] += (1.0 + 1e-6) * diagonal + penalty
        # A constant added to all biases changes nothing: rounding must not move along it.
        total[k:, k:] += diagonal[k:].mean()
        mixed = both[:, :k].sum(axis=0)
        total[at, at + k] += mixed
        total[at + k, at] += mixed
        try:
            inverse = np.linalg.inv(total)
        except np.linalg.LinAlgError:
            return _divided_by(np.diagonal(total))
        return lambda target: np.asarray(inverse @ target)


Design = MatrixDesign | VectorDesign
"""A linear map from parameters to changes of the logits ``[N, K]``."""


def _divided_by(scale: Floats) -> Solver:
    return lambda target: target / scale


@dataclass(frozen=True, eq=False)
class _Point:
    value: float
    loss: float
    probs: NDArray[Any]
    gradient: Floats


def softmax_regression(
    design: Design,
    offset: NDArray[Any],
    labels: NDArray[np.intp],
    penalty: Floats,
    *,
    weights: Floats | None = None,
    start: Floats | None = None,
) -> Minimum:
    r"""Return the minimum of the mean log loss of ``softmax(offset + design)`` plus a penalty.

    Its value is that without the penalty.

    .. math:: \min_\theta \sum_i w_i\,\ell(\operatorname{softmax}(o_i + A_i\theta), y_i)
              + \sum_j \lambda_j \theta_j^2

    Convex. Newton's steps by conjugate gradients, preconditioned at the start and halved until
    the objective falls. Deterministic.

    Args:
        design: the map :math:`A`.
        offset: logits ``[N, K]`` at parameters 0; -inf rules a class out.
        labels: class indices ``[N]``.
        penalty: :math:`\lambda`, one number per parameter; those at 0 are held regular by 1e-12.
        weights: weights of the rows; None: 1 each. Their sum does not matter.
        start: parameters to begin with, the minimum of similar rows; None: 0.
    """
    n, at_label = len(labels), (np.arange(len(labels)), labels)
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    share = share.astype(offset.dtype, copy=False)
    close = REGRESSION_TOLERANCE[offset.dtype.itemsize] if start is None else NEAR
    spare = ROUNDING if offset.dtype == np.float32 else 0.0
    curved = 2.0 * penalty + 1e-12

    def point(parameters: Floats) -> _Point:
        z = design.apply(parameters)
        z += offset
        z -= z.max(axis=1, keepdims=True)
        true = z[at_label].astype(np.float64)
        np.exp(z, out=z)
        total = z.sum(axis=1)
        z /= total[:, None]
        loss = float(share @ (np.log(total) - true))
        residuals = z * share[:, None]
        residuals[at_label] -= share
        gradient = design.adjoint(residuals) + 2.0 * penalty * parameters
        return _Point(loss + float(penalty @ parameters**2), loss, z, gradient)

    def curvature(at: _Point) -> Callable[[Floats], Floats]:
        shared = at.probs * share[:, None]

        def product(v: Floats) -> Floats:
            u = design.apply(v)
            u -= np.vecdot(at.probs, u)[:, None]
            u *= shared
            return design.adjoint(u) + curved * v

        return product

    x = np.zeros(len(penalty)) if start is None else start.copy()
    at, n_evaluations, n_first = point(x), 1, MAX_CONJUGATE
    solve = design.inverse(at.probs, share, curved)
    for _ in range(MAX_NEWTON):
        step, n_products = _conjugate_gradients(curvature(at), at.gradient, solve)
        slope = float(at.gradient @ step)
        is_last = -0.5 * slope <= close
        for halving in range(MAX_HALVINGS):
            moved = x + 0.5**halving * step
            found = point(moved)
            n_evaluations += 1
            if found.value <= at.value + 1e-4 * 0.5**halving * slope + spare * abs(at.value):
                break
        else:  # rounding hides what is left to gain
            return Minimum(x, at.loss, True, n_evaluations)
        x, at = moved, found
        if is_last:
            return Minimum(x, at.loss, True, n_evaluations)
        n_first = min(n_first, max(n_products, 1))
        if n_products > STALE * n_first:
            solve = design.inverse(at.probs, share, curved)
    return Minimum(x, at.loss, False, n_evaluations)


def _conjugate_gradients(
    product: Callable[[Floats], Floats], gradient: Floats, inverse: Solver
) -> tuple[Floats, int]:
    """Return Newton's step, closer the smaller the gradient already is, and how many products."""
    x, residual = np.zeros_like(gradient), -gradient
    fresh = inverse(residual)
    size = float(residual @ fresh)
    goal = size * min(0.05, size**0.25) ** 2
    direction = fresh
    for n_products in range(MAX_CONJUGATE):
        if size <= goal or size == 0:
            return x, n_products
        moved = product(direction)
        length = size / float(direction @ moved)
        x += length * direction
        residual -= length * moved
        fresh = inverse(residual)
        size, before = float(residual @ fresh), size
        direction = fresh + (size / before) * direction
    return x, MAX_CONJUGATE
