"""Maps of the log-odds of two classes: Platt, quadratic, beta and spline calibration."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, namespace, working_dtype
from focalibrate._stable import log_sigmoid
from focalibrate.calibrate.affine import MAX_LOG_ODDS, constant
from focalibrate.calibrate.calibrator import Calibrator, check_numbers
from focalibrate.calibrate.optimise import logistic_objective, minimise_convex
from focalibrate.calibrate.rows import Rows, check_classes_present, check_rows, read_scores

PSEUDO_COUNT = 0.5
"""Labels of each class that count as the other: half of one."""
WEAK = 1e-6
"""Penalty that keeps maps finite if the scores separate the classes."""


MAX_KNOTS = 12
ROWS_PER_KNOT = 12
"""Rows per knot; 4 to 12 knots are placed at quantiles of the log-odds."""
PENALTIES = tuple(10.0**e for e in range(-6, 3))
"""Weights of the roughness that cross-validation chooses from."""
N_FOLDS = 5


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
        weighted = features * constant(self._coefficients, features)
        return two_log_probs(x, namespace(x).sum(weighted, axis=-1))

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


def fit_platt(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    pseudo_count: float = PSEUDO_COUNT,
    start: Calibrator | None = None,
) -> PlattScaling:
    r"""Fit :math:`\sigma(a s + b)` to the log-odds of two classes, by log loss.

    Args:
        logits: real array ``[N, 2]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``, both classes among them.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        pseudo_count: every label of a class of n rows counts as the other class with weight
            `pseudo_count` / (n + 1), which keeps the map finite where the classes do not
            overlap. 0: maximum likelihood.
        start: not used: the fit takes a few steps from anywhere.

    Returns:
        `PlattScaling`.

    Numerics:
        Newton's method in float64. Log-odds are cut at ±87; a ridge of 1e-6 keeps the map finite
        where the classes do not overlap.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> s = 2 * rng.standard_normal(20000)
        >>> labels = (s + rng.logistic(size=s.shape) > 0).astype(int)
        >>> fit_platt(2 * s + 1, labels).describe()
        'Platt scaling: slope 0.5075, bias -0.5175'

    References:
        Platt (1999).
    """
    rows = two_classes(logits, labels, probs, sample_weight, "Platt scaling")
    s = log_odds(rows.logits.astype(np.float64))
    features = np.stack([s, np.ones_like(s)], axis=1)
    return _fitted(PlattScaling, rows, features, [1.0, 0.0], pseudo_count)


def fit_quadratic(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    pseudo_count: float = PSEUDO_COUNT,
    start: Calibrator | None = None,
) -> QuadraticScaling:
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
    features = np.stack([s, np.ones_like(s), s**2], axis=1)
    return _fitted(QuadraticScaling, rows, features, [1.0, 0.0, 0.0], pseudo_count)


def fit_beta(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    pseudo_count: float = PSEUDO_COUNT,
    start: Calibrator | None = None,
) -> BetaCalibration:
    r"""Fit :math:`a\log p - b\log(1-p) + c` with a, b >= 0 to two classes, by log loss.

    Arguments and numerics as in `fit_platt`; returns `BetaCalibration`. The constrained problem
    is solved directly, not by a second fit with one parameter left out.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> p = rng.beta(0.5, 0.5, 20000)
        >>> labels = (rng.random(p.shape) < p).astype(int)
        >>> fit_beta(probs=p, labels=labels).describe()
        'beta calibration: a=1.015, b=0.9775, c=0.04711'

    References:
        Kull, Silva Filho & Flach (2017).
    """
    rows = two_classes(logits, labels, probs, sample_weight, "beta calibration")
    s = log_odds(rows.logits.astype(np.float64))
    features = np.stack([log_sigmoid(s), -log_sigmoid(-s), np.ones_like(s)], axis=1)
    lower = np.array([0.0, 0.0, -np.inf])
    return _fitted(BetaCalibration, rows, features, [1.0, 1.0, 0.0], pseudo_count, lower=lower)


def two_classes(logits: Any, labels: Any, probs: Any, sample_weight: Any, method: str) -> Rows:
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


Map = TypeVar("Map", PlattScaling, QuadraticScaling, BetaCalibration)


def _fitted(
    kind: Callable[..., Map],
    rows: Rows,
    features: Floats,
    identity: list[float],
    pseudo_count: float,
    *,
    lower: Floats | None = None,
) -> Map:
    """Return the map whose parameters minimise the log loss of ``sigmoid(features @ x)``."""
    centre = np.asarray(identity)
    squares = np.average(features**2, axis=0, weights=rows.weights)
    penalty = np.diag(WEAK * squares / rows.size)
    labels, weights = rows.labels == 1, rows.weights
    if pseudo_count:
        mass = np.ones(rows.n_rows) if weights is None else weights
        n_class = np.bincount(rows.labels, mass, 2) * (rows.size / mass.sum())
        flipped = (pseudo_count / (n_class + 1.0))[rows.labels]
        features, labels = np.concatenate([features, features]), np.concatenate([labels, ~labels])
        weights = np.concatenate([mass * (1.0 - flipped), mass * flipped])
    objective = logistic_objective(features, labels, weights, penalty=penalty, centre=centre)
    result = minimise_convex(objective, centre, lower=lower)
    return rows.finish(
        kind(*result.x.tolist()),
        value=result.value,
        n_evaluations=result.n_evaluations,
        converged=result.converged,
    )


def fit_spline(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    start: Calibrator | None = None,
) -> SplineCalibration:
    r"""Fit a natural cubic spline of the log-odds of two classes, by penalised log loss.

    .. math:: \min_f \frac1n\sum_i \ell(\sigma(f(s_i)), y_i) + \lambda \int f''(u)^2\,du

    Args:
        logits: real array ``[N, 2]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``, both classes among them.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        start: not used: the fit takes a few steps from anywhere.

    Returns:
        `SplineCalibration`.

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
    result = _spline(features, is_one, weights, penalty * roughness)
    return rows.finish(
        SplineCalibration(tuple(knots.tolist()), tuple(result[0].tolist())),
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


def _spline(
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
            x, _ = _spline(
                features[~is_held], is_one[~is_held], weights[~is_held], penalty * roughness
            )
            share = weights[is_held].sum()
            losses[i] += share * _loss(features[is_held], is_one[is_held], weights[is_held], x)
    # The smoothest of equals.
    best = losses.min()
    return float(PENALTIES[int(np.flatnonzero(losses <= best + 1e-12)[-1])])
