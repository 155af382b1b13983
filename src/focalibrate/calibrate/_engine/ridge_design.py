"""What a softmax regression is linear in: a matrix, or a scale per class, with biases."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats

BLOCK_CLASSES = 160
"""Up to this many classes, steps of a matrix are found with one block of second derivatives per
class."""

Inverse = Callable[[Floats], Floats]
"""Solves with second derivatives close to those sought."""


class Design(Protocol):
    r"""A linear map from parameters to changes of the logits ``[N, K]``."""

    @property
    def n_parameters(self) -> int:
        """Number of parameters."""

    def apply(self, parameters: Floats) -> NDArray[Any]:
        """Return the change of the logits."""

    def adjoint(self, residuals: NDArray[Any]) -> Floats:
        """Return the transposed map of `residuals` ``[N, K]``."""

    def inverse(self, probs: NDArray[Any], weights: NDArray[Any], penalty: Floats) -> Inverse:
        """Return a solver with the diagonal, or more, of the second derivatives.

        `penalty` is the penalty's part of the diagonal.
        """

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

    def inverse(self, probs: NDArray[Any], weights: NDArray[Any], penalty: Floats) -> Inverse:
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

    def hessian(self, probs: NDArray[Any], weights: NDArray[Any]) -> Floats:
        n, k = probs.shape
        x = self.features
        rooted = probs * np.sqrt(weights)[:, None]
        products = (rooted[:, :, None] * x[:, None, :]).reshape(n, -1)
        total: Floats = -(products.T @ products)  # one array twice: half the work for BLAS
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

    def inverse(self, probs: NDArray[Any], weights: NDArray[Any], penalty: Floats) -> Inverse:
        curvature = probs * (1.0 - probs)
        curvature *= weights[:, None]
        scaled = curvature * self.x
        diagonal = [np.einsum("nk,nk->k", scaled, self.x), curvature.sum(axis=0)]
        return _divided_by(np.concatenate(diagonal).astype(np.float64, copy=False) + penalty)

    def hessian(self, probs: NDArray[Any], weights: NDArray[Any]) -> Floats:
        k = self.x.shape[1]
        root = np.sqrt(weights)[:, None]
        both = np.empty((len(probs), 2 * k), dtype=probs.dtype)
        np.multiply(probs, root, out=both[:, k:])
        np.multiply(both[:, k:], self.x, out=both[:, :k])
        total: Floats = -(both.T @ both)  # one array twice: half the work for BLAS
        both *= root
        at = np.arange(k)
        mixed = both[:, :k].sum(axis=0)
        total[at, at] += np.einsum("nk,nk->k", both[:, :k], self.x)
        total[at, at + k] += mixed
        total[at + k, at] += mixed
        total[at + k, at + k] += both[:, k:].sum(axis=0)
        return total


def _divided_by(scale: Floats) -> Inverse:
    return lambda target: target / scale
