"""Minima of convex losses: Newton for few parameters, softmax regression for many."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate.report import Minimum

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

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""
        return self.n_classes * (self.n_classes + 1)

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

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""
        return int(2 * self.x.shape[1])

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
        start: parameters to begin with; None: 0.
    """
    n = len(labels)
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    share = share.astype(offset.dtype, copy=False)
    spare = ROUNDING if offset.dtype == np.float32 else 0.0

    def point(parameters: Floats) -> _Point:
        loss, gradient, probs = _loss(design, offset, labels, share, parameters)
        gradient += 2.0 * penalty * parameters
        return _Point(loss + float(penalty @ parameters**2), loss, probs, gradient)

    x = np.zeros(design.n_parameters) if start is None else start.copy()
    at, n_evaluations, n_first = point(x), 1, MAX_CONJUGATE
    curved = 2.0 * penalty + 1e-12
    solve = design.inverse(at.probs, share, curved)
    for _ in range(MAX_NEWTON):
        step, n_products = _conjugate_gradients(
            _product(design, at, share, curved), at.gradient, solve
        )
        slope = float(at.gradient @ step)
        is_last = -0.5 * slope <= REGRESSION_TOLERANCE[offset.dtype.itemsize]
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


def _loss(
    design: Design,
    offset: NDArray[Any],
    labels: NDArray[np.intp],
    share: NDArray[Any],
    parameters: Floats,
) -> tuple[float, Floats, NDArray[Any]]:
    """Return the loss of some rows, its gradient, and their probabilities."""
    rows = np.arange(len(labels))
    z = design.apply(parameters)
    z += offset
    z -= z.max(axis=1, keepdims=True)
    true = z[rows, labels].astype(np.float64)
    np.exp(z, out=z)
    total = z.sum(axis=1)
    z /= total[:, None]
    loss = float(share @ (np.log(total) - true))
    residuals = z * share[:, None]
    residuals[rows, labels] -= share
    return loss, design.adjoint(residuals), z


def _product(
    design: Design, at: _Point, share: NDArray[Any], curved: Floats
) -> Callable[[Floats], Floats]:
    """Return the product of the second derivatives with a vector."""
    probs, shared = at.probs, at.probs * share[:, None]

    def product(v: Floats) -> Floats:
        u = design.apply(v)
        u -= np.vecdot(probs, u)[:, None]
        u *= shared
        return design.adjoint(u) + curved * v

    return product


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
