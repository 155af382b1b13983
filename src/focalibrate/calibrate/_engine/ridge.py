r"""Softmax regression with a ridge penalty: scales, matrices and biases by Newton's method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TOLERANCE = 1e-11
"""The search ends where the objective has no more than this to fall."""
MAX_NEWTON = 50
MAX_HALVINGS = 40
MAX_CONJUGATE = 250
DENSE_PARAMETERS = 420
"""Up to so many parameters the second derivatives are held as a matrix."""


class Design(Protocol):
    r"""A linear map from parameters to changes of the logits ``[N, K]``."""

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""

    def apply(self, parameters: Floats) -> NDArray[Any]:
        """Return the change of the logits."""

    def adjoint(self, residuals: NDArray[Any]) -> Floats:
        """Return the transposed map of `residuals` ``[N, K]``."""

    def diagonal(self, curvature: NDArray[Any]) -> Floats:
        """Return the diagonal of the second derivatives, given those in the logits."""

    def hessian(self, probs: NDArray[Any], weights: NDArray[Any]) -> Floats:
        """Return the matrix of second derivatives of the loss, before the penalty."""


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
        return self.n_classes * (self.n_classes + 1)

    def apply(self, parameters: Floats) -> NDArray[Any]:
        matrix = parameters.reshape(self.n_classes, -1).astype(self.features.dtype, copy=False)
        changed: NDArray[Any] = self.features @ matrix.T
        return changed

    def adjoint(self, residuals: NDArray[Any]) -> Floats:
        return np.asarray(residuals.T @ self.features, dtype=np.float64).ravel()

    def diagonal(self, curvature: NDArray[Any]) -> Floats:
        return np.asarray(curvature.T @ self.features**2, dtype=np.float64).ravel()

    def hessian(self, probs: NDArray[Any], weights: NDArray[Any]) -> Floats:
        n, k = probs.shape
        x = self.features
        products = (probs[:, :, None] * x[:, None, :]).reshape(n, -1)
        total: Floats = -((products * weights[:, None]).T @ products)
        for j in range(k):
            at = slice(j * (k + 1), (j + 1) * (k + 1))
            total[at, at] += (x * (weights * probs[:, j])[:, None]).T @ x
        return total


@dataclass(frozen=True, eq=False)
class VectorDesign:
    """``d * x + b``: parameters are `d` and `b`, ``[2K]``."""

    x: NDArray[Any]

    @property
    def n_parameters(self) -> int:
        return int(2 * self.x.shape[1])

    def apply(self, parameters: Floats) -> NDArray[Any]:
        d, b = parameters.astype(self.x.dtype, copy=False).reshape(2, -1)
        changed: NDArray[Any] = self.x * d + b
        return changed

    def adjoint(self, residuals: NDArray[Any]) -> Floats:
        scaled = np.einsum("nk,nk->k", residuals, self.x)
        return np.concatenate([scaled, residuals.sum(axis=0)]).astype(np.float64, copy=False)

    def diagonal(self, curvature: NDArray[Any]) -> Floats:
        scaled = np.einsum("nk,nk,nk->k", curvature, self.x, self.x)
        return np.concatenate([scaled, curvature.sum(axis=0)]).astype(np.float64, copy=False)

    def hessian(self, probs: NDArray[Any], weights: NDArray[Any]) -> Floats:
        k = self.x.shape[1]
        both = np.concatenate([probs * self.x, probs], axis=1)
        weighted = both * weights[:, None]
        total: Floats = -(weighted.T @ both)
        at = np.arange(k)
        mixed = weighted[:, :k].sum(axis=0)
        total[at, at] += np.einsum("nk,nk->k", weighted[:, :k], self.x)
        total[at, at + k] += mixed
        total[at + k, at] += mixed
        total[at + k, at + k] += weighted[:, k:].sum(axis=0)
        return total


@dataclass(frozen=True, eq=False)
class RidgeMinimum:
    """Where the search ended."""

    parameters: Floats
    loss: float
    """Mean log loss, without the penalty."""
    converged: bool
    n_evaluations: int


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
        weights: of the rows; None: 1 each. Their sum does not matter.
        start: parameters to begin with; None: 0.
    """
    n = len(labels)
    share = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    share = share.astype(offset.dtype, copy=False)
    rows = np.arange(n)

    def look(parameters: Floats) -> _Point:
        z = offset + design.apply(parameters)
        z -= z.max(axis=1, keepdims=True)
        true = z[rows, labels].astype(np.float64)
        np.exp(z, out=z)
        total = z.sum(axis=1)
        z /= total[:, None]
        loss = float(share @ (np.log(total) - true))
        residuals = z.copy()
        residuals[rows, labels] -= 1.0
        residuals *= share[:, None]
        gradient = design.adjoint(residuals) + 2.0 * penalty * parameters
        return _Point(loss + float(penalty @ parameters**2), loss, z, gradient)

    x = np.zeros(design.n_parameters) if start is None else start.copy()
    at, n_evaluations = look(x), 1
    for _ in range(MAX_NEWTON):
        step = _step(design, at, share, penalty)
        slope = float(at.gradient @ step)
        if -0.5 * slope <= TOLERANCE:  # a last step costs nothing
            return RidgeMinimum(x + step, at.loss, True, n_evaluations)
        for halving in range(MAX_HALVINGS):
            moved = x + 0.5**halving * step
            found = look(moved)
            n_evaluations += 1
            if found.value <= at.value + 1e-4 * 0.5**halving * slope:
                break
        else:  # rounding hides what is left to gain
            return RidgeMinimum(x, at.loss, True, n_evaluations)
        x, at = moved, found
    return RidgeMinimum(x, at.loss, False, n_evaluations)


def _step(design: Design, at: _Point, share: NDArray[Any], penalty: Floats) -> Floats:
    """Return Newton's step, or one that is close to it."""
    if design.n_parameters <= DENSE_PARAMETERS:
        hessian = design.hessian(at.probs, share)
        hessian[np.diag_indices_from(hessian)] += 2.0 * penalty + 1e-12
        try:
            return np.asarray(np.linalg.solve(hessian, -at.gradient))
        except np.linalg.LinAlgError:
            return np.asarray(np.linalg.lstsq(hessian, -at.gradient, rcond=None)[0])
    probs = at.probs
    curvature = (probs * (1.0 - probs)) * share[:, None]
    scale = design.diagonal(curvature) + 2.0 * penalty + 1e-12

    def product(v: Floats) -> Floats:
        u = design.apply(v)
        u -= np.einsum("nk,nk->n", probs, u)[:, None]
        u *= probs
        u *= share[:, None]
        return design.adjoint(u) + (2.0 * penalty + 1e-12) * v

    return _conjugate_gradients(product, -at.gradient, scale)


def _conjugate_gradients(
    product: Callable[[Floats], Floats], target: Floats, scale: Floats
) -> Floats:
    """Return an approximate solution, closer the smaller the target already is."""
    x, residual = np.zeros_like(target), target.copy()
    size = float(residual @ (residual / scale))
    goal = size * min(0.05, size**0.25) ** 2
    direction = residual / scale
    for _ in range(MAX_CONJUGATE):
        if size <= goal or size == 0:
            break
        moved = product(direction)
        length = size / float(direction @ moved)
        x += length * direction
        residual -= length * moved
        fresh = residual / scale
        size, before = float(residual @ fresh), size
        direction = fresh + (size / before) * direction
    return x
