"""Spline calibration: a smooth curve of two classes' log-odds."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, namespace
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.convex import logistic_objective, minimise_convex
from focalibrate.calibrate._engine.reporting import finished
from focalibrate.calibrate._settings import check_numbers
from focalibrate.calibrate.binary import log_odds, two_classes, two_log_probs
from focalibrate.calibrate.structured import constant

MAX_KNOTS = 12
ROWS_PER_KNOT = 12
"""Rows per knot; 4 to 12 knots are placed at quantiles of the log-odds."""
PENALTIES = tuple(10.0**e for e in range(-6, 3))
"""Weights of the roughness that cross-validation chooses from."""
N_FOLDS = 5


@final
@dataclass(frozen=True)
class SplineCalibration(Calibrator):
    r"""Natural cubic spline :math:`\sigma(f(s))` of the log-odds: may change predictions.

    :math:`f(s) = c_0 + c_1 u + \sum_j c_{j+1}\,g_j(u)` with :math:`u` the log-odds in units of
    the knots' range; straight beyond the outer knots.

    References:
        Lucena (2018), *Spline-based probability calibration*.
    """

    knots: tuple[float, ...]
    """Log-odds, rising."""
    coefficients: tuple[float, ...]
    """As many as knots."""
    kind: ClassVar[str] = "spline"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_numbers(self.knots, name="knots")
        check_numbers(self.coefficients, name="coefficients")
        if len(self.knots) != len(self.coefficients) or len(self.knots) < 3:
            raise ValueError(
                "`knots` and `coefficients` must have the same length, at least 3, got "
                f"{len(self.knots)} and {len(self.coefficients)}."
            )
        if any(np.diff(self.knots) <= 0):
            raise ValueError("`knots` must be ascending.")

    def _own_classes(self) -> int:
        return 2

    def _log_probs(self, x: Array) -> Array:
        features = natural_basis(log_odds(x), self._knots)
        margin = features @ constant(self._coefficients, features)
        return two_log_probs(x, margin)

    @cached_property
    def _knots(self) -> Floats:
        return np.asarray(self.knots)

    @cached_property
    def _coefficients(self) -> Floats:
        return np.asarray(self.coefficients)

    def describe(self) -> str:
        """Return a one-line description."""
        return f"spline calibration: {len(self.knots)} knots"


def natural_basis(s: Array, knots: Floats) -> Array:
    r"""Return the natural cubic basis at `s`, ``[..., L]`` for `L` knots.

    :math:`1`, :math:`u`, and :math:`d_j(u) - d_{L-1}(u)` with
    :math:`d_j = ((u - \kappa_j)_+^3 - (u - \kappa_L)_+^3)/(\kappa_L - \kappa_j)`, in units in
    which the knots run from 0 to 1.
    """
    xp = namespace(s)
    low, width = float(knots[0]), float(knots[-1] - knots[0])
    u = (s - low) / width
    at = ((knots - low) / width).tolist()

    def cube(t: float) -> Array:
        above = xp.clip(u - t, 0.0, None)
        return above * above * above

    last = cube(at[-1])
    parts = [(cube(t) - last) / (at[-1] - t) for t in at[:-1]]
    curves = [part - parts[-1] for part in parts[:-1]]
    return xp.stack([xp.ones_like(u), u, *curves], axis=-1)


def fit_spline(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    return_report: bool = False,
) -> Any:
    r"""Fit a natural cubic spline of the log-odds of two classes, by penalised log loss.

    .. math:: \min_f \frac1n\sum_i \ell(\sigma(f(s_i)), y_i) + \lambda \int f''(u)^2\,du

    Args:
        logits: real array ``[N, 2]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``, both classes among them.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        return_report: also return a `FitReport`.

    Returns:
        `SplineCalibration`, and the report if requested.

    Numerics:
        Knots at quantiles of the log-odds; :math:`\lambda` of least log loss in five folds, cut
        by the order of the scores, so that it depends on no seed. Newton's method in float64.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> s = 2 * rng.standard_normal(5000)
        >>> labels = (np.tanh(s) + rng.logistic(size=s.shape) > 0).astype(int)
        >>> found = fit_spline(s, labels)
        >>> bool(abs(found.probs(np.array([[3.0]]))[0, 1] - 0.73) < 0.03)
        True

    References:
        Lucena (2018).
    """
    rows = two_classes(logits, labels, probs, sample_weight, "spline calibration")
    s = np.asarray(log_odds(rows.logits.astype(np.float64)))
    weights = np.ones(len(s)) if rows.weights is None else rows.weights
    is_one = rows.labels == 1
    knots = _knots_of(s, weights, rows.size)
    features = np.asarray(natural_basis(s, knots))
    roughness = _roughness(knots)
    penalty = _chosen_penalty(s, features, is_one, weights, roughness)
    result = _minimum(features, is_one, weights, penalty * roughness)
    found = rows.stamp(SplineCalibration(tuple(knots.tolist()), tuple(result[0].tolist())))
    return finished(
        found,
        rows,
        return_report,
        value=_loss(features, is_one, weights, result[0]),
        n_evaluations=result[1],
    )


def _knots_of(s: Floats, weights: Floats, size: float) -> Floats:
    """Return distinct knots at quantiles of the log-odds, at least three."""
    n_knots = int(np.clip(size / ROWS_PER_KNOT, 4, MAX_KNOTS))
    order = np.argsort(s, kind="stable")
    mass = np.cumsum(weights[order]) / weights.sum()
    at = np.searchsorted(mass, np.linspace(0.01, 0.99, n_knots))
    knots = np.unique(s[order][np.minimum(at, len(s) - 1)])
    low, high = float(s.min()), float(s.max())
    if high - low < 1e-6:
        low, high = low - 0.5, high + 0.5
    if len(knots) < 3 or knots[-1] - knots[0] < 1e-6 * (high - low):
        return np.linspace(low, high, 3)
    # Knots that nearly touch make the basis singular.
    kept = [float(knots[0])]
    for knot in knots[1:].tolist():
        if knot - kept[-1] > 1e-3 * (knots[-1] - knots[0]):
            kept.append(knot)
    return np.asarray(kept) if len(kept) >= 3 else np.linspace(low, high, 3)


def _roughness(knots: Floats) -> Floats:
    """Return the matrix of integrals of products of second derivatives, by Simpson's rule."""
    width = knots[-1] - knots[0]
    at = (knots - knots[0]) / width
    # Second derivatives are piecewise linear: Simpson's rule between knots is exact.
    middles = 0.5 * (at[:-1] + at[1:])
    points = np.concatenate([at, middles])
    step = np.diff(at)
    share = np.zeros(len(points))
    share[: len(at) - 1] += step / 6
    share[1 : len(at)] += step / 6
    share[len(at) :] += 4 * step / 6

    def second(t: float) -> Floats:
        above = np.maximum(points - t, 0.0) - np.maximum(points - at[-1], 0.0)
        return np.asarray(6.0 * above / (at[-1] - t))

    parts = [second(t) for t in at[:-1].tolist()]
    zero = np.zeros(len(points))
    bends = np.stack([zero, zero, *(part - parts[-1] for part in parts[:-1])], axis=1)
    return np.asarray((bends * share[:, None]).T @ bends)


def _minimum(
    features: Floats, is_one: NDArray[np.bool_], weights: Floats, penalty: Floats
) -> tuple[Floats, int]:
    regular = penalty + 1e-9 * np.eye(len(penalty))
    objective = logistic_objective(features, is_one, weights, penalty=regular)
    result = minimise_convex(objective, np.zeros(features.shape[1]))
    return result.x, result.n_evaluations


def _loss(features: Floats, is_one: NDArray[np.bool_], weights: Floats, x: Floats) -> float:
    return logistic_objective(features, is_one, weights)(x)[0]


def _chosen_penalty(
    s: Floats, features: Floats, is_one: NDArray[np.bool_], weights: Floats, roughness: Floats
) -> float:
    """Return the penalty of least held-out log loss."""
    # Copies of a row must be held out together: the fold follows the rank of the score.
    _, rank = np.unique(s, return_inverse=True)
    fold = rank % N_FOLDS
    losses = np.zeros(len(PENALTIES))
    for held in range(N_FOLDS):
        is_held = fold == held
        if not is_held.any() or len(np.unique(is_one[~is_held])) < 2:
            continue
        for i, penalty in enumerate(PENALTIES):
            x, _ = _minimum(
                features[~is_held], is_one[~is_held], weights[~is_held], penalty * roughness
            )
            share = weights[is_held].sum()
            losses[i] += share * _loss(features[is_held], is_one[is_held], weights[is_held], x)
    # The smoothest of equals.
    best = losses.min()
    return float(PENALTIES[int(np.flatnonzero(losses <= best + 1e-12)[-1])])
