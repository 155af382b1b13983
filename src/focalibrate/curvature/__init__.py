"""Curvature of a loss: trace, extreme eigenvalues and spectrum of a symmetric matrix.

The matrix is given only by its products: `matvec` maps a vector ``[D]`` to a vector ``[D]``. If
several products are needed at once and `block_matvec` is given, a map from ``[D, B]`` to
``[D, B]``, that is called instead. NumPy only; `focalibrate.nn.HessianOperator` provides both for
a PyTorch model, and its own `trace`, which needs far fewer passes over the data.
"""

from focalibrate.curvature.spectrum import (
    Eigenvalue,
    SpectralDensity,
    lambda_max,
    lambda_min,
    spectral_density,
)
from focalibrate.curvature.trace import TraceEstimate, hutchinson_trace

__all__ = [
    "Eigenvalue",
    "SpectralDensity",
    "TraceEstimate",
    "hutchinson_trace",
    "lambda_max",
    "lambda_min",
    "spectral_density",
]
