"""Curvature of a loss: trace, extreme eigenvalues and spectrum of a symmetric matrix.

The matrix is known by its products only: `matvec` maps a vector ``[D]`` to a vector ``[D]``.
Where several products are wanted at once, `block_matvec`, which maps ``[D, B]`` to ``[D, B]``, is
called instead if it is given. NumPy only; `focalibrate.nn.HessianOperator` gives both for a
PyTorch model, and a `trace` of its own that needs far fewer passes over the data.
"""

from focalibrate.curvature.density import SpectralDensity, spectral_density
from focalibrate.curvature.eigenvalue import Eigenvalue, lambda_max, lambda_min
from focalibrate.curvature.report import (
    CurvatureReport,
    SymmetricOperator,
    TracedOperator,
    curvature_report,
)
from focalibrate.curvature.sketched_trace import hutchpp_trace, xtrace
from focalibrate.curvature.trace import TraceEstimate, hutchinson_trace

__all__ = [
    "CurvatureReport",
    "Eigenvalue",
    "SpectralDensity",
    "SymmetricOperator",
    "TraceEstimate",
    "TracedOperator",
    "curvature_report",
    "hutchinson_trace",
    "hutchpp_trace",
    "lambda_max",
    "lambda_min",
    "spectral_density",
    "xtrace",
]
