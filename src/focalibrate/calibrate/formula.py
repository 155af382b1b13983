"""What a calibrator computes, as numbers and tables, for code that writes it elsewhere."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate.one_vs_rest import Curves, HistogramBinning, IsotonicCalibration
from focalibrate.calibrate.parametric import (
    FocalLossTemperature,
    FocalTemperatureScaling,
    Identity,
    PosteriorRecovery,
    TemperatureScaling,
    VectorScaling,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Recovered:
    r""":math:`\Psi_\gamma(\operatorname{softmax}(z/T))`."""

    gamma: float
    temperature: float


@dataclass(frozen=True, eq=False)
class CurveTables:
    """Curves of `K` classes, padded on the right to one length.

    Isotonic: ``count >= 1`` knots are ``<= p``; the curve is linear from knot ``count - 1`` to
    the next, as the knots begin below 0 and end at infinity. Histogram: ``count`` inner edges
    are ``< p``, and ``values[count]`` is the frequency.
    """

    knots: Floats
    """Knots or inner edges, rising, then ``inf``: ``[K, L]``."""
    values: Floats
    """Values at the knots, or of the bins, the last one repeated: ``[K, L]`` or ``[K, L + 1]``."""
    is_linear: bool
    """True for isotonic curves, False for histograms."""


def formula_of(calibrator: Calibrator) -> Recovered | VectorScaling | CurveTables:
    """Return what `calibrator` computes: one of three forms covers every kind."""
    match calibrator:
        case Identity():
            return Recovered(0.0, 1.0)
        case PosteriorRecovery(gamma):
            return Recovered(gamma, 1.0)
        case TemperatureScaling(temperature):
            return Recovered(0.0, temperature)
        case FocalTemperatureScaling(gamma, temperature) | FocalLossTemperature(
            gamma, temperature
        ):
            return Recovered(gamma, temperature)
        case VectorScaling():
            return calibrator
        case IsotonicCalibration(scores, values):
            # Flat from a knot below every probability, so that each lies between two knots.
            x = tuple((-1.0, *row) for row in scores)
            y = tuple((row[0], *row) for row in values)
            length = max(map(len, x)) + 1
            return CurveTables(_padded(x, length, np.inf), _padded(y, length), True)
        case HistogramBinning(edges, values):
            inner = tuple(x[1:-1] for x in edges)
            length = max(1, *map(len, inner))
            return CurveTables(_padded(inner, length, np.inf), _padded(values, length + 1), False)
    raise TypeError(
        "`calibrator` must be a calibrator of focalibrate.calibrate, got "
        f"{type(calibrator).__name__}. Fit one: `fit_temperature(logits, labels)`."
    )


def _padded(rows: Curves, length: int, fill: float | None = None) -> Floats:
    """Return `rows` as ``[K, length]``, filled up with `fill` or with each row's last entry."""
    return np.array(
        [[*row, *[row[-1] if fill is None else fill] * (length - len(row))] for row in rows],
        dtype=np.float64,
    )
