"""Trace, extreme eigenvalues and spectrum of one operator together."""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from focalibrate.curvature.density import SpectralDensity, spectral_density
from focalibrate.curvature.eigenvalue import Eigenvalue, lambda_max, lambda_min
from focalibrate.curvature.trace import TraceEstimate, hutchinson_trace


class SymmetricOperator(Protocol):
    """A symmetric matrix given by its products, such as `focalibrate.nn.HessianOperator`."""

    @property
    def size(self) -> int:
        """Rows of the matrix."""

    def matvec(self, vector: NDArray[np.floating], /) -> NDArray[np.floating]:
        """Return the product with a vector ``[D]``."""

    def block_matvec(self, vectors: NDArray[np.floating], /) -> NDArray[np.floating]:
        """Return the product with each column of ``[D, B]``."""


@dataclass(frozen=True)
class CurvatureReport:
    """The curvature of one loss of a model."""

    size: int
    """number of parameters"""
    trace: TraceEstimate
    """sum of all eigenvalues"""
    lambda_max: Eigenvalue
    """curvature in the steepest direction"""
    lambda_min: Eigenvalue
    """negative if the loss is not convex"""
    density: SpectralDensity
    """where the eigenvalues lie"""


def curvature_report(
    operator: SymmetricOperator,
    *,
    n_vectors: int = 100,
    n_density_vectors: int = 4,
    n_steps: int = 40,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> CurvatureReport:
    """Measure the curvature of `operator`.

    Args:
        operator: has `size`, `matvec` and `block_matvec`; its own `trace` is used if it has one,
            as `focalibrate.nn.HessianOperator` does.
        n_vectors: random vectors of the trace (`hutchinson_trace` without one).
        n_density_vectors: random vectors of the spectrum (`spectral_density`).
        n_steps: products per vector of the spectrum.
        tolerance: relative residual of the eigenvalues (`lambda_max`, `lambda_min`).
        seed: seed of all random vectors.

    Returns:
        The four results, each with its error.

    Example:
        >>> class Diagonal:
        ...     size = 3
        ...     def matvec(self, v):
        ...         return np.array([1.0, 2.0, -4.0]) * v
        ...     def block_matvec(self, V):
        ...         return np.array([[1.0], [2.0], [-4.0]]) * V
        >>> report = curvature_report(Diagonal())
        >>> report.trace.value, round(report.lambda_max.value, 6)
        (-1.0, 2.0)
    """
    A, D, block = operator.matvec, operator.size, operator.block_matvec
    own_trace = getattr(operator, "trace", partial(hutchinson_trace, A, D, block_matvec=block))
    return CurvatureReport(
        size=D,
        trace=own_trace(n_vectors=n_vectors, seed=seed),
        lambda_max=lambda_max(A, D, seed=seed, tolerance=tolerance),
        lambda_min=lambda_min(A, D, seed=seed, tolerance=tolerance),
        density=spectral_density(
            A, D, n_vectors=n_density_vectors, n_steps=n_steps, seed=seed, block_matvec=block
        ),
    )
