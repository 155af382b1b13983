"""Maps of the log-odds of two classes: affine (Platt), quadratic and beta calibration."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from focalibrate._array import Array, Floats, namespace, working_dtype
from focalibrate._stable import log_sigmoid
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.columns import check_classes_present
from focalibrate.calibrate._engine.convex import (
    ConvexMinimum,
    logistic_objective,
    minimise_convex,
)
from focalibrate.calibrate._engine.reporting import finished
from focalibrate.calibrate._input import ScoredRows, check_rows, read_scores
from focalibrate.calibrate._settings import check_numbers

MAX_LOG_ODDS = 87.0
"""Larger log-odds, such as those of masks, are cut to this."""
WEAK = 1e-6
"""Penalty that keeps maps finite if the scores separate the classes."""


def log_odds(z: Array) -> Array:
    """Return the log-odds of class 1 of logits ``[..., 2]``, cut at ±87."""
    xp = namespace(z)
    x = xp.astype(z, working_dtype(z))
    return xp.clip(x[..., 1] - x[..., 0], -MAX_LOG_ODDS, MAX_LOG_ODDS)


def two_log_probs(z: Array, margin: Array) -> Array:
    """Return log-probabilities ``[..., 2]`` of log-odds; classes impossible in `z` stay so."""
    xp = namespace(z)
    both = xp.stack([log_sigmoid(-margin), log_sigmoid(margin)], axis=-1)
    is_possible = xp.isfinite(z)
    other_out = ~xp.flip(is_possible, axis=-1)
    both = xp.where(other_out, xp.zeros_like(both), both)
    both = xp.where(is_possible, both, xp.full_like(both, -xp.inf))
    return xp.astype(both, z.dtype)


@final
@dataclass(frozen=True)
class PlattScaling(Calibrator):
    r"""Platt scaling of two classes' log-odds: :math:`\sigma(a s + b)`.

    References:
        Platt (1999), *Probabilistic outputs for support vector machines*.
    """

    slope: float
    bias: float
    kind: ClassVar[str] = "platt"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_numbers((self.slope, self.bias), name="slope, bias")

    def _own_classes(self) -> int:
        return 2

    def _log_probs(self, x: Array) -> Array:
        return two_log_probs(x, self.slope * log_odds(x) + self.bias)

    def describe(self) -> str:
        """Return a one-line description."""
        return f"Platt scaling: slope {self.slope:.4g}, bias {self.bias:.4g}"


@final
@dataclass(frozen=True)
class QuadraticScaling(Calibrator):
    r"""Quadratic map of two classes' log-odds: :math:`\sigma(a s + b + c s^2)`.

    References:
        Berta, Holzmüller, Jordan & Bach (2026), *Structured matrix scaling for multi-class
        calibration*, where it is the two-class case.
    """

    slope: float
    bias: float
    curvature: float
    kind: ClassVar[str] = "quadratic"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_numbers((self.slope, self.bias, self.curvature), name="slope, bias, curvature")

    def _own_classes(self) -> int:
        return 2

    def _log_probs(self, x: Array) -> Array:
        s = log_odds(x)
        return two_log_probs(x, s * (self.slope + self.curvature * s) + self.bias)

    def describe(self) -> str:
        """Return a one-line description."""
        return (
            f"quadratic scaling: slope {self.slope:.4g}, bias {self.bias:.4g}, "
            f"curvature {self.curvature:.4g}"
        )


@final
@dataclass(frozen=True)
class BetaCalibration(Calibrator):
    r"""Beta calibration: log-odds :math:`a\log p - b\log(1-p) + c` with a, b >= 0.

    References:
        Kull, Silva Filho & Flach (2017), *Beta calibration*.
    """

    a: float
    b: float
    c: float
    kind: ClassVar[str] = "beta"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_numbers((self.a, self.b, self.c), name="a, b, c")
        if self.a < 0 or self.b < 0:
            raise ValueError(f"`a` and `b` must be >= 0, got {self.a} and {self.b}.")

    def _own_classes(self) -> int:
        return 2

    def _log_probs(self, x: Array) -> Array:
        s = log_odds(x)
        margin = self.a * log_sigmoid(s) - self.b * log_sigmoid(-s) + self.c
        return two_log_probs(x, margin)

    def describe(self) -> str:
        """Return a one-line description."""
        return f"beta calibration: a={self.a:.4g}, b={self.b:.4g}, c={self.c:.4g}"


def fit_platt(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    return_report: bool = False,
) -> Any:
    r"""Fit :math:`\sigma(a s + b)` to the log-odds of two classes, by log loss.

    Args:
        logits: real array ``[N, 2]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``, both classes among them.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        return_report: also return a `FitReport`.

    Returns:
        `PlattScaling`, and the report if requested.

    Numerics:
        Newton's method in float64. Log-odds are cut at ±87; a ridge of 1e-6 keeps the map finite
        where the classes do not overlap.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> s = 2 * rng.standard_normal(20000)
        >>> labels = (s + rng.logistic(size=s.shape) > 0).astype(int)
        >>> fit_platt(2 * s + 1, labels).describe()
        'Platt scaling: slope 0.5076, bias -0.5176'

    References:
        Platt (1999).
    """
    rows = two_classes(logits, labels, probs, sample_weight, "Platt scaling")
    s = log_odds(rows.logits.astype(np.float64))
    result = _minimum(rows, np.stack([s, np.ones_like(s)], axis=1), [1.0, 0.0])
    return _finished(rows, PlattScaling(*result.x.tolist()), result, return_report)


def fit_quadratic(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    return_report: bool = False,
) -> Any:
    r"""Fit :math:`\sigma(a s + b + c s^2)` to the log-odds of two classes, by log loss.

    Arguments and numerics as in `fit_platt`; returns `QuadraticScaling`.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> s = 2 * rng.standard_normal(20000)
        >>> labels = (s + 0.2 * s**2 + rng.logistic(size=s.shape) > 0).astype(int)
        >>> round(fit_quadratic(s, labels).curvature, 1)
        0.2
    """
    rows = two_classes(logits, labels, probs, sample_weight, "quadratic scaling")
    s = log_odds(rows.logits.astype(np.float64))
    result = _minimum(rows, np.stack([s, np.ones_like(s), s**2], axis=1), [1.0, 0.0, 0.0])
    return _finished(rows, QuadraticScaling(*result.x.tolist()), result, return_report)


def fit_beta(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    return_report: bool = False,
) -> Any:
    r"""Fit :math:`a\log p - b\log(1-p) + c` with a, b >= 0 to two classes, by log loss.

    Arguments and numerics as in `fit_platt`; returns `BetaCalibration`. The constrained problem
    is solved directly, not by a second fit with one parameter left out.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> p = rng.beta(0.5, 0.5, 20000)
        >>> labels = (rng.random(p.shape) < p).astype(int)
        >>> fit_beta(probs=p, labels=labels).describe()
        'beta calibration: a=1.015, b=0.9779, c=0.04715'

    References:
        Kull, Silva Filho & Flach (2017).
    """
    rows = two_classes(logits, labels, probs, sample_weight, "beta calibration")
    s = log_odds(rows.logits.astype(np.float64))
    features = np.stack([log_sigmoid(s), -log_sigmoid(-s), np.ones_like(s)], axis=1)
    lower = np.array([0.0, 0.0, -np.inf])
    result = _minimum(rows, features, [1.0, 1.0, 0.0], lower=lower)
    return _finished(rows, BetaCalibration(*result.x.tolist()), result, return_report)


def two_classes(
    logits: Any, labels: Any, probs: Any, sample_weight: Any, method: str
) -> ScoredRows:
    """Return the rows of a map that is for two classes, both of which must occur."""
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    if rows.n_classes != 2:
        raise ValueError(
            f"`logits` must have two classes for {method}, got {rows.n_classes}. Use "
            "`fit_structured_matrix` for more."
        )
    check_classes_present(rows.labels, 2, method=method)
    true = rows.logits[np.arange(rows.n_rows), rows.labels]
    check_rows(rows.logits.max(axis=1), true, rows.logits, rows.labels)
    return rows


def _minimum(
    rows: ScoredRows, features: Floats, start: list[float], *, lower: Floats | None = None
) -> ConvexMinimum:
    centre = np.asarray(start)
    squares = np.average(features**2, axis=0, weights=rows.weights)
    penalty = np.diag(WEAK * squares / rows.size)
    objective = logistic_objective(
        features, rows.labels == 1, rows.weights, penalty=penalty, centre=centre
    )
    return minimise_convex(objective, centre, lower=lower)


def _finished(
    rows: ScoredRows, found: Calibrator, result: ConvexMinimum, return_report: bool
) -> Any:
    return finished(
        rows.stamp(found),
        rows,
        return_report,
        value=result.value,
        n_evaluations=result.n_evaluations,
        converged=result.converged,
    )
