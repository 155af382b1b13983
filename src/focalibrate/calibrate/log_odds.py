"""Maps of the log-odds of two classes: Platt, quadratic, beta and spline calibration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, like, namespace, working_dtype
from focalibrate._check import check_choice
from focalibrate._stable import log_sigmoid
from focalibrate.calibrate.affine import MAX_LOG_ODDS
from focalibrate.calibrate.calibrator import Calibrator
from focalibrate.calibrate.optimise import Minimum, logistic_objective, minimise_convex
from focalibrate.calibrate.rows import Rows, check_classes_present

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


def _of_margin(own: Any, x: Array) -> Array:
    return two_log_probs(x, own._margin(log_odds(x)))


@final
@dataclass(frozen=True)
class PlattScaling(Calibrator):
    r"""Platt scaling of two classes' log-odds: :math:`\sigma(a s + b)`, fitted by log loss.

    Option ``pseudo_count`` of the fit, 0.5 by default: every label of a class of n rows counts as
    the other class with weight ``pseudo_count / (n + 1)``, which keeps the map finite where the
    classes do not overlap. 0: maximum likelihood, with a ridge of 1e-6. Log-odds are cut at ±87.

    Example:
        >>> from focalibrate.calibrate import fit
        >>> rng = np.random.default_rng(0)
        >>> s = 2 * rng.standard_normal(20000)
        >>> labels = (s + rng.logistic(size=s.shape) > 0).astype(int)
        >>> fit(2 * s + 1, labels, method="platt").describe()
        'Platt scaling: slope 0.5075, bias -0.5175'

    References:
        Platt (1999), *Probabilistic outputs for support vector machines*.
    """

    slope: float
    bias: float
    kind: ClassVar[str] = "platt"
    fixed_classes: ClassVar[int | None] = 2
    _log_probs = _of_margin

    def _margin(self, s: Array) -> Array:
        return self.slope * s + self.bias

    def _described(self) -> str:
        return f"Platt scaling: slope {self.slope:.4g}, bias {self.bias:.4g}"


@final
@dataclass(frozen=True)
class QuadraticScaling(Calibrator):
    r"""Quadratic map of two classes' log-odds: :math:`\sigma(a s + b + c s^2)`.

    Fitted as `PlattScaling`.

    Example:
        >>> from focalibrate.calibrate import fit
        >>> rng = np.random.default_rng(0)
        >>> s = 2 * rng.standard_normal(20000)
        >>> labels = (s + 0.2 * s**2 + rng.logistic(size=s.shape) > 0).astype(int)
        >>> round(fit(s, labels, method="quadratic").curvature, 1)
        0.2

    References:
        Berta, Holzmüller, Jordan & Bach (2026), *Structured matrix scaling for multi-class
        calibration*, where it is the two-class case.
    """

    slope: float
    bias: float
    curvature: float
    kind: ClassVar[str] = "quadratic"
    fixed_classes: ClassVar[int | None] = 2
    _log_probs = _of_margin

    def _margin(self, s: Array) -> Array:
        return s * (self.slope + self.curvature * s) + self.bias

    def _described(self) -> str:
        return (
            f"quadratic scaling: slope {self.slope:.4g}, bias {self.bias:.4g}, "
            f"curvature {self.curvature:.4g}"
        )


@final
@dataclass(frozen=True)
class BetaCalibration(Calibrator):
    r"""Beta calibration: log-odds :math:`a\log p - b\log(1-p) + c` with a, b >= 0.

    Fitted as `PlattScaling`, with a further option ``variant``: ``"abm"``, all three parameters;
    ``"am"``, with a = b; or ``"ab"``, with :math:`c = (a - b)\log 2`, which keeps 1/2 in place.
    The constrained problem is solved directly, not by a second fit with one parameter left out.

    Example:
        >>> from focalibrate.calibrate import fit
        >>> rng = np.random.default_rng(0)
        >>> p = rng.beta(0.5, 0.5, 20000)
        >>> labels = (rng.random(p.shape) < p).astype(int)
        >>> fit(probs=p, labels=labels, method="beta").describe()
        'beta calibration: a=1.015, b=0.9775, c=0.04711'

    References:
        Kull, Silva Filho & Flach (2017), *Beta calibration*.
    """

    a: float
    b: float
    c: float
    kind: ClassVar[str] = "beta"
    fixed_classes: ClassVar[int | None] = 2
    _log_probs = _of_margin

    def _check(self) -> None:
        if self.a < 0 or self.b < 0:
            raise ValueError(f"`a` and `b` must be >= 0, got {self.a} and {self.b}.")

    def _margin(self, s: Array) -> Array:
        return self.a * log_sigmoid(s) - self.b * log_sigmoid(-s) + self.c

    def _described(self) -> str:
        return f"beta calibration: a={self.a:.4g}, b={self.b:.4g}, c={self.c:.4g}"


@final
@dataclass(frozen=True)
class SplineCalibration(Calibrator):
    r"""Natural cubic spline :math:`\sigma(f(s))` of the log-odds: may change predictions.

    :math:`f(s) = c_0 + c_1 u + \sum_j c_{j+1}\,g_j(u)` with :math:`u` the log-odds in units of
    the knots' range; straight beyond the outer knots. Knots are at quantiles of the log-odds; the
    fit minimises :math:`\frac1n\sum_i \ell(\sigma(f(s_i)), y_i) + \lambda \int f''(u)^2\,du` with
    the :math:`\lambda` of least log loss in five folds, cut by the order of the scores, so that it
    depends on no seed.

    Example:
        >>> from focalibrate.calibrate import fit
        >>> rng = np.random.default_rng(0)
        >>> s = 2 * rng.standard_normal(5000)
        >>> labels = (np.tanh(s) + rng.logistic(size=s.shape) > 0).astype(int)
        >>> found = fit(s, labels, method="spline")
        >>> bool(abs(found.probs(np.array([[3.0]]))[0, 1] - 0.73) < 0.03)
        True

    References:
        Lucena (2018), *Spline-based probability calibration*.
    """

    knots: tuple[float, ...]
    """Log-odds, rising."""
    coefficients: tuple[float, ...]
    """As many as knots."""
    kind: ClassVar[str] = "spline"
    fixed_classes: ClassVar[int | None] = 2

    def _check(self) -> None:
        if len(self.knots) != len(self.coefficients) or len(self.knots) < 3:
            raise ValueError(
                "`knots` and `coefficients` must have the same length, at least 3, got "
                f"{len(self.knots)} and {len(self.coefficients)}."
            )
        if any(np.diff(self.knots) <= 0):
            raise ValueError("`knots` must be ascending.")

    def _log_probs(self, x: Array) -> Array:
        features = natural_basis(log_odds(x), self.knots)
        weighted = features * like(list(self.coefficients), features)
        return two_log_probs(x, namespace(x).sum(weighted, axis=-1))

    def _described(self) -> str:
        return f"spline calibration: {len(self.knots)} knots"


def natural_basis(s: Array, knots: Sequence[float]) -> Array:
    r"""Return the natural cubic basis at `s`, ``[..., L]`` for `L` knots.

    :math:`1`, :math:`u`, and :math:`d_j(u) - d_{L-1}(u)` with
    :math:`d_j = ((u - \kappa_j)_+^3 - (u - \kappa_L)_+^3)/(\kappa_L - \kappa_j)`, in units in
    which the knots run from 0 to 1.
    """
    xp = namespace(s)
    low, width = knots[0], knots[-1] - knots[0]
    u = (s - low) / width
    at = [(knot - low) / width for knot in knots]

    def cube(t: float) -> Array:
        above = xp.clip(u - t, 0.0, None)
        return above * above * above

    last = cube(at[-1])
    parts = [(cube(t) - last) / (at[-1] - t) for t in at[:-1]]
    curves = [part - parts[-1] for part in parts[:-1]]
    return xp.stack([xp.ones_like(u), u, *curves], axis=-1)


def fit_beta(
    rows: Rows,
    *,
    variant: Literal["abm", "am", "ab"] = "abm",
    pseudo_count: float = PSEUDO_COUNT,
    start: Calibrator | None = None,
) -> BetaCalibration:
    """Fit `BetaCalibration`."""
    check_choice(variant, ("abm", "am", "ab"), name="variant")
    basis, identity = np.eye(3), [1.0, 1.0, 0.0]
    if variant == "am":  # the same for a and b, then c
        basis, identity = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), [1.0, 0.0]
    elif variant == "ab":
        basis = np.array([[1.0, 0.0, math.log(2.0)], [0.0, 1.0, -math.log(2.0)]])
        identity = [1.0, 1.0]
    n_positive = 1 if variant == "am" else 2
    return fit_margin(
        BetaCalibration, basis, identity, n_positive, rows, pseudo_count=pseudo_count
    )


def two_classes(rows: Rows, method: str) -> Floats:
    """Return the log-odds ``[N]`` for a map of two classes, both of which must occur."""
    if rows.n_classes != 2:
        raise ValueError(
            f"`logits` must have two classes for {method}, got {rows.n_classes}. Use "
            '`method="structured_matrix"` for more.'
        )
    check_classes_present(rows.labels, 2, method=method)
    rows.check()
    return np.asarray(log_odds(rows.logits.astype(np.float64)))


Map = TypeVar("Map", PlattScaling, QuadraticScaling, BetaCalibration)


def fit_margin(
    kind: type[Map],
    basis: NDArray[np.floating],
    identity: Sequence[float],
    n_positive: int,
    rows: Rows,
    *,
    pseudo_count: float = PSEUDO_COUNT,
    start: Calibrator | None = None,
) -> Map:
    """Return the map of least log loss, with parameters ``x @ basis`` and the first of x >= 0.

    The map is linear in its parameters: its features are the margins with one parameter 1. A few
    steps from anywhere, without `start`.
    """
    s = two_classes(rows, kind.__name__)
    every = [kind(*row)._margin(s) for row in np.eye(basis.shape[1]).tolist()]
    features = np.stack(np.broadcast_arrays(*every), axis=1) @ basis.T
    centre = np.asarray(identity, dtype=np.float64)
    lower = np.where(np.arange(len(centre)) < n_positive, 0.0, -np.inf)
    squares = np.average(features**2, axis=0, weights=rows.weights)
    penalty = np.diag(WEAK * squares / rows.size)
    mass = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    n_class = np.bincount(rows.labels, mass, 2) * (rows.size / mass.sum())
    labels = np.abs(rows.labels - (pseudo_count / (n_class + 1.0))[rows.labels])
    objective = logistic_objective(features, labels, mass, penalty=penalty, centre=centre)
    result = minimise_convex(objective, centre, lower=lower)
    return rows.finish(kind(*(result.x @ basis)), result)


def fit_spline(rows: Rows, *, start: Calibrator | None = None) -> SplineCalibration:
    """Fit `SplineCalibration`; a few steps from anywhere, without `start`."""
    s = two_classes(rows, "SplineCalibration")
    weights = np.ones(len(s)) if rows.weights is None else rows.weights
    is_one = rows.labels == 1
    knots: Any = _knots_of(s, weights, rows.size)
    features = np.asarray(natural_basis(s, knots.tolist()))
    roughness = _roughness(knots)
    penalty = _chosen_penalty(s, features, is_one, weights, roughness)
    result = _spline(features, is_one, weights, penalty * roughness)
    found = SplineCalibration(knots, result.x)
    return rows.finish(found, result, value=_loss(features, is_one, weights, result.x))


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
    """Return the matrix of integrals of products of second derivatives, by Gauss's rule."""
    at = (knots - knots[0]) / (knots[-1] - knots[0])
    # Second derivatives are piecewise linear: two points between knots are exact.
    step = np.diff(at)
    middle, reach = 0.5 * (at[:-1] + at[1:]), step / math.sqrt(12.0)
    points, share = np.append(middle - reach, middle + reach), np.tile(0.5 * step, 2)
    above = np.maximum(points[:, None] - at, 0.0)
    parts = 6.0 * (above[:, :-1] - above[:, -1:]) / (at[-1] - at[:-1])
    bends = np.zeros((len(points), len(at)))
    bends[:, 2:] = parts[:, :-1] - parts[:, -1:]
    return np.asarray((bends * share[:, None]).T @ bends)


def _spline(
    features: Floats, is_one: NDArray[np.bool_], weights: Floats, penalty: Floats
) -> Minimum:
    regular = penalty + 1e-9 * np.eye(len(penalty))
    objective = logistic_objective(features, is_one, weights, penalty=regular)
    return minimise_convex(objective, np.zeros(features.shape[1]))


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
            x = _spline(
                features[~is_held], is_one[~is_held], weights[~is_held], penalty * roughness
            ).x
            share = weights[is_held].sum()
            losses[i] += share * _loss(features[is_held], is_one[is_held], weights[is_held], x)
    # The smoothest of equals.
    best = losses.min()
    return float(PENALTIES[int(np.flatnonzero(losses <= best + 1e-12)[-1])])
