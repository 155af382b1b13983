r"""Softmax regression with a ridge penalty: scales, matrices and biases by Newton's method."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._engine.ridge_design import Design, Inverse

TOLERANCE = {4: 3e-9, 8: 1e-10}
"""A last step is taken where the objective has no more than this to fall, by the size in bytes of
the working precision: what is left after it is smaller by several orders of magnitude."""
ROUNDING = 1e-7
"""What single precision may add to a mean log loss of 1."""
MAX_NEWTON = 50
MAX_HALVINGS = 40
MAX_CONJUGATE = 250
DENSE_PARAMETERS = 420
"""Up to this many parameters the second derivatives are held as a matrix."""


@dataclass(frozen=True, eq=False)
class RidgeMinimum:
    """Where the search ended."""

    parameters: Floats
    loss: float
    """Mean log loss, without the penalty."""
    converged: bool
    n_evaluations: int
    inverse: Inverse
    """Solves with second derivatives close to those at the minimum: a search nearby starts with
    it."""


@dataclass(frozen=True, eq=False)
class _Point:
    value: float
    loss: float
    probs: NDArray[Any]
    gradient: Floats


def minimise_ridge(
    design: Design,
    offset: NDArray[Any],
    labels: NDArray[np.intp],
    penalty: Floats,
    *,
    weights: Floats | None = None,
    start: Floats | None = None,
    inverse: Inverse | None = None,
) -> RidgeMinimum:
    r"""Return the minimum of the mean log loss of ``softmax(offset + design)`` plus a penalty.

    .. math:: \min_\theta \sum_i w_i\,\ell(\operatorname{softmax}(o_i + A_i\theta), y_i)
              + \sum_j \lambda_j \theta_j^2

    Convex. Newton's method with the second derivatives as a matrix where that is small, else by
    conjugate gradients; steps are halved until the objective falls. Deterministic.

    Args:
        design: the map :math:`A`.
        offset: logits ``[N, K]`` at parameters 0; -inf rules a class out.
        labels: class indices ``[N]``.
        penalty: :math:`\lambda`, one number per parameter; those at 0 are held regular by 1e-12.
        weights: weights of the rows; None: 1 each. Their sum does not matter.
        start: parameters to begin with; None: 0.
        inverse: that of a search on nearly the same rows. Conjugate gradients with it take the
            place of matrices of second derivatives.
    """
    n = len(labels)
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    share = share.astype(offset.dtype, copy=False)
    spare = ROUNDING if offset.dtype == np.float32 else 0.0

    def look(parameters: Floats) -> _Point:
        loss, gradient, probs = _look(design, offset, labels, share, parameters)
        gradient += 2.0 * penalty * parameters
        return _Point(loss + float(penalty @ parameters**2), loss, probs, gradient)

    x = np.zeros(design.n_parameters) if start is None else start.copy()
    at, n_evaluations = look(x), 1
    curved = 2.0 * penalty + 1e-12
    is_dense = inverse is None and design.n_parameters <= DENSE_PARAMETERS
    find = _matrix_inverse(design) if is_dense else design.inverse
    solve = inverse or find(at.probs, share, curved)
    for _ in range(MAX_NEWTON):
        if is_dense:
            step = solve(-at.gradient)
        else:
            step = _conjugate_gradients(_product(design, at, share, curved), at.gradient, solve)
        slope = float(at.gradient @ step)
        if -0.5 * slope <= TOLERANCE[offset.dtype.itemsize]:  # a last step costs nothing
            return RidgeMinimum(x + step, at.loss, True, n_evaluations, solve)
        for halving in range(MAX_HALVINGS):
            moved = x + 0.5**halving * step
            found = look(moved)
            n_evaluations += 1
            if found.value <= at.value + 1e-4 * 0.5**halving * slope + spare * abs(at.value):
                break
        else:  # rounding hides what is left to gain
            return RidgeMinimum(x, at.loss, True, n_evaluations, solve)
        x, at = moved, found
        if is_dense:
            solve = find(at.probs, share, curved)
    return RidgeMinimum(x, at.loss, False, n_evaluations, solve)


def _look(
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


class RidgeBlock(NamedTuple):
    """Some of the rows of a regression that is fitted in passes."""

    design: Design
    offset: NDArray[Any]
    labels: NDArray[np.intp]
    share: NDArray[Any]
    """weights that sum to 1 over all rows"""


def minimise_ridge_in_passes(
    blocks: Callable[[], Iterator[RidgeBlock]],
    penalty: Floats,
    *,
    itemsize: int,
    start: Floats | None = None,
) -> tuple[Floats, bool]:
    """Return what `minimise_ridge` finds, for rows that every pass reads again.

    Every pass adds up the objective and its first and second derivatives, and Newton's steps are
    halved until the objective falls: about as many passes as steps.

    Args:
        blocks: the rows, from the first to the last.
        penalty: one number per parameter; there must be few enough to hold their matrix.
        itemsize: bytes of a number in the working precision.
        start: parameters to begin with; None: 0.

    Returns:
        The parameters, and whether the search converged.
    """

    def look(parameters: Floats) -> tuple[float, Floats, Floats]:
        value = float(penalty @ parameters**2)
        gradient = 2.0 * penalty * parameters
        hessian = np.diag(2.0 * penalty + 1e-12)
        for design, offset, labels, share in blocks():
            loss, slope, probs = _look(design, offset, labels, share, parameters)
            value += loss
            gradient += slope
            hessian += design.hessian(probs, share)
        return value, gradient, hessian

    spare = ROUNDING if itemsize == 4 else 0.0
    x = np.zeros(len(penalty)) if start is None else start.copy()
    value, gradient, hessian = look(x)
    for _ in range(MAX_NEWTON):
        step = -_solved(hessian, gradient)
        slope = float(gradient @ step)
        if -0.5 * slope <= TOLERANCE[itemsize]:
            return x + step, True
        for halving in range(MAX_HALVINGS):
            moved = x + 0.5**halving * step
            found = look(moved)
            if found[0] <= value + 1e-4 * 0.5**halving * slope + spare * abs(value):
                break
        else:  # rounding hides what is left to gain
            return x, True
        x, (value, gradient, hessian) = moved, found
    return x, False


def _solved(hessian: Floats, target: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(hessian, target))
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(hessian, hermitian=True) @ target)


def _matrix_inverse(design: Design) -> Callable[[NDArray[Any], NDArray[Any], Floats], Inverse]:
    """Return what finds a solver with all second derivatives, penalty included."""

    def find(probs: NDArray[Any], weights: NDArray[Any], penalty: Floats) -> Inverse:
        hessian = design.hessian(probs, weights).astype(np.float64, copy=False)
        hessian[np.diag_indices_from(hessian)] += penalty
        try:
            inverse = np.linalg.inv(hessian)
        except np.linalg.LinAlgError:
            inverse = np.linalg.pinv(hessian, hermitian=True)
        return lambda target: np.asarray(inverse @ target)

    return find


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
    product: Callable[[Floats], Floats], gradient: Floats, inverse: Inverse
) -> Floats:
    """Return Newton's step, approximately: closer the smaller the gradient already is."""
    x, residual = np.zeros_like(gradient), -gradient
    fresh = inverse(residual)
    size = float(residual @ fresh)
    goal = size * min(0.05, size**0.25) ** 2
    direction = fresh
    for _ in range(MAX_CONJUGATE):
        if size <= goal or size == 0:
            break
        moved = product(direction)
        length = size / float(direction @ moved)
        x += length * direction
        residual -= length * moved
        fresh = inverse(residual)
        size, before = float(residual @ fresh), size
        direction = fresh + (size / before) * direction
    return x
