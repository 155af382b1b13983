"""Calibrators that are a softmax regression: vector, structured and Dirichlet, with their fits."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, device, namespace, working_dtype
from focalibrate._check import check_choice, check_gamma, check_open_interval, check_positive
from focalibrate._stable import log_softmax
from focalibrate.calibrate.calibrator import Calibrator, check_temperature
from focalibrate.calibrate.fit_focal_temperature import lowest_focal_temperature
from focalibrate.calibrate.fit_temperature import lowest_temperature
from focalibrate.calibrate.optimise import (
    Design,
    MatrixDesign,
    Minimum,
    VectorDesign,
    softmax_regression,
    warn,
)
from focalibrate.calibrate.rows import Rows, check_classes_present, working_precision
from focalibrate.calibrate.temperature import recovered

Base = Literal["temperature", "focal_temperature"]

MAX_LOG_ODDS = 87.0
"""Larger log-odds, such as those of masks, are cut to this."""
WEAK = 1e-12
"""Penalty that keeps vector scaling finite where the loss has no minimum."""
LARGE = 10.0
"""A scale times T, or a bias, above this is one that the loss would let grow without end."""


def _weights_and_bias(own: Any) -> tuple[Floats, Floats]:
    weights = np.asarray(own.scale if hasattr(own, "scale") else own.matrix)
    return np.ascontiguousarray(weights.T), np.asarray(own.bias)


def _applied(own: Any, z: Array, u: Array) -> Array:
    """Return the log-softmax of ``W u + b``; classes that are impossible in `z` stay so."""
    xp = namespace(z)
    weights, bias = (xp.asarray(v, dtype=u.dtype, device=device(u)) for v in own._weights_and_bias)
    logits = (u @ weights if len(weights.shape) == 2 else u * weights) + bias
    logits = xp.where(xp.isfinite(z), logits, xp.full_like(logits, -xp.inf))
    return xp.astype(log_softmax(logits), z.dtype)


def _tempered(z: Array, gamma: float, temperature: float, mix: float) -> Array:
    r"""Return the logarithms of :math:`(1-\varepsilon)\Psi_\gamma(v) + \varepsilon/K`.

    With :math:`v = \operatorname{softmax}(z/T)`; mixing bounds the logarithms, so that a matrix
    can act on them.
    """
    xp = namespace(z)
    x = xp.astype(z, working_dtype(z))
    probs = xp.exp(recovered(x, gamma=gamma, temperature=temperature))
    return xp.log((1.0 - mix) * probs + mix / x.shape[-1])


def _cut_logs(z: Array) -> Array:
    """Return log-probabilities, cut at -87."""
    xp = namespace(z)
    x = xp.astype(z, working_dtype(z))
    return xp.clip(log_softmax(x), -MAX_LOG_ODDS, 0.0)


def _check_affine(own: Any) -> None:
    if hasattr(own, "temperature"):
        check_gamma(own.gamma, minimum=-1.0)
        check_temperature(own.temperature)
        check_open_interval(own.mix, low=0.0, high=1.0, name="mix")
    k = len(own.bias)
    if hasattr(own, "scale"):
        if len(own.scale) != k or k < 2:
            raise ValueError(
                f"`scale` and `bias` must have one entry per class, got {len(own.scale)} and {k}."
            )
        return
    if len(own.matrix) != k or k < 2:
        raise ValueError("`matrix` and `bias` must have one row and one entry per class.")
    for row in own.matrix:
        if len(row) != k:
            raise ValueError(f"`matrix` must be square, got a row of {len(row)} numbers.")


def _structured_log_probs(own: Any, x: Array) -> Array:
    return _applied(own, x, _tempered(x, own.gamma, own.temperature, own.mix))


def _scales(own: "VectorScaling | StructuredVectorScaling") -> str:
    low, high = min(own.scale), max(own.scale)
    return f"{len(own.scale)} classes, scales {low:.4g} to {high:.4g}"


def _base_words(gamma: float, temperature: float) -> str:
    return f"T={temperature:.4g}" if gamma == 0 else f"gamma={gamma:.4g}, T={temperature:.4g}"


@final
@dataclass(frozen=True)
class VectorScaling(Calibrator):
    r"""Vector scaling :math:`\operatorname{softmax}(w \odot z + b)`: may change predictions.

    The fit minimises the log loss, which is convex in both, from temperature scaling to within
    1e-9; a penalty of 1e-12 keeps separable data finite. The biases sum to 0. Of a class that
    never occurs the bias becomes very low, with a warning.

    Example:
        >>> from focalibrate.calibrate import fit
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((20000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit(truth - [0.0, 1.0, 0.0], labels, method="vector")
        >>> round(found.bias[1] - found.bias[0], 1)
        1.0

    References:
        Guo et al. (2017), Sec. 4.2.
    """

    scale: tuple[float, ...]
    bias: tuple[float, ...]
    kind: ClassVar[str] = "vector"
    _weights_and_bias = cached_property(_weights_and_bias)
    by_class: ClassVar[str | None] = "bias"
    _check = _check_affine

    def _log_probs(self, x: Array) -> Array:
        xp = namespace(x)
        z = xp.astype(x, working_dtype(x))
        return _applied(self, x, xp.where(xp.isfinite(z), z, xp.zeros_like(z)))

    def _described(self) -> str:
        return f"vector scaling: {_scales(self)}"


@final
@dataclass(frozen=True)
class StructuredVectorScaling(Calibrator):
    r"""Temperature, then :math:`\operatorname{softmax}(s \odot x + b)`: may change predictions.

    :math:`x` are log-probabilities after :math:`\Psi_\gamma(\operatorname{softmax}(z/T))`
    (gamma 0: plain temperature), mixed with a little of the uniform distribution. After the
    temperature the fit minimises

    .. math:: \frac1n \sum_i -\log\operatorname{softmax}(s \odot x_i + b)_{y_i}
              + \lambda \|s - 1\|^2 + \lambda \|b\|^2, \qquad \lambda = K/n

    Option of the fit: ``base``, ``"temperature"`` or ``"focal_temperature"`` with a fitted gamma,
    both by log loss.

    References:
        Berta, Holzmüller, Jordan & Bach (2026), *Structured matrix scaling for multi-class
        calibration*.
    """

    gamma: float
    temperature: float
    mix: float
    scale: tuple[float, ...]
    bias: tuple[float, ...]
    kind: ClassVar[str] = "structured_vector"
    _weights_and_bias = cached_property(_weights_and_bias)
    by_class: ClassVar[str | None] = "bias"
    _check = _check_affine
    _log_probs = _structured_log_probs

    def _described(self) -> str:
        base = _base_words(self.gamma, self.temperature)
        return f"structured vector scaling after {base}: {_scales(self)}"


@final
@dataclass(frozen=True)
class StructuredMatrixScaling(Calibrator):
    r"""Temperature, then :math:`\operatorname{softmax}(W x + b)`: may change predictions.

    :math:`x` and the option of the fit as in `StructuredVectorScaling`. With
    :math:`D = W - I`, the fit minimises

    .. math:: \frac1n \sum_i -\log\operatorname{softmax}(W x_i + b)_{y_i}
              + \frac Kn \left(\|b\|^2 + \|\operatorname{diag} D\|^2\right)
              + \frac{K(K-1)}n \|\operatorname{offdiag} D\|^2

    Example:
        >>> from focalibrate.calibrate import fit
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((2000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit(2 * truth - [0.0, 2.0, 0.0], labels, method="structured_matrix")
        >>> found.bias[1] > found.bias[0]
        True

    References:
        Berta, Holzmüller, Jordan & Bach (2026), *Structured matrix scaling for multi-class
        calibration*.
    """

    gamma: float
    temperature: float
    mix: float
    matrix: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]
    kind: ClassVar[str] = "structured_matrix"
    _weights_and_bias = cached_property(_weights_and_bias)
    by_class: ClassVar[str | None] = "bias"
    _check = _check_affine
    _log_probs = _structured_log_probs

    def _described(self) -> str:
        base = _base_words(self.gamma, self.temperature)
        return f"structured matrix scaling after {base}: {len(self.bias)} classes"


@final
@dataclass(frozen=True)
class DirichletCalibration(Calibrator):
    r"""Dirichlet calibration :math:`\operatorname{softmax}(W\log p + b)`: may change predictions.

    Log-probabilities are cut at -87. The fit minimises, from the identity,

    .. math:: \frac1n \sum_i -\log\operatorname{softmax}(W\log p_i + b)_{y_i}
              + \frac{\lambda}{K(K-1)} \|\operatorname{offdiag} W\|^2 + \frac{\mu}{K} \|b\|^2

    with the options ``off_diagonal``, :math:`\lambda > 0`, and ``intercept``, :math:`\mu > 0`,
    both 0.001 by default.

    Example:
        >>> from focalibrate.calibrate import fit
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((4000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit(2 * truth, labels, method="dirichlet")
        >>> round(found.matrix[0][0] - found.matrix[1][0], 1)
        0.5

    References:
        Kull, Perelló-Nieto et al. (2019), *Beyond temperature scaling*, Sec. 2.3.
    """

    matrix: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]
    kind: ClassVar[str] = "dirichlet"
    _weights_and_bias = cached_property(_weights_and_bias)
    by_class: ClassVar[str | None] = "bias"
    _check = _check_affine

    def _log_probs(self, x: Array) -> Array:
        return _applied(self, x, _cut_logs(x))

    def _described(self) -> str:
        return f"Dirichlet calibration: {len(self.bias)} classes"


def fit_vector_scaling(rows: Rows, *, start: Calibrator | None = None) -> VectorScaling:
    """Fit `VectorScaling`, from `start`, one fitted to similar rows."""
    check_classes_present(rows.labels, rows.n_classes, method="vector scaling")
    plain = lowest_temperature(rows)
    z = rows.logits.astype(working_precision(rows.logits), copy=False)
    x = np.where(np.isfinite(z), z, 0.0).astype(z.dtype, copy=False) / plain.temperature
    near = None
    if isinstance(start, VectorScaling):
        scale = np.asarray(start.scale) * plain.temperature - 1.0
        near = np.concatenate([scale, start.bias])
    result = _regressed(rows, z, x, np.full(2 * rows.n_classes, WEAK), near)
    scale, bias = _of_changes(result.x, rows.n_classes)
    bias = bias - bias.mean()
    at_bound = bool(max(np.abs(scale).max(), np.abs(bias).max()) > LARGE)
    at_bound |= bool(plain.report and plain.report.at_bound)
    found = VectorScaling(scale / plain.temperature, bias)
    if at_bound:
        warn(
            f"{found.describe()}: a scale or bias is very large, as the log loss still falls "
            "there. Fit on more data, or fit a temperature."
        )
    return rows.finish(found, result, at_bound=at_bound)


def fit_structured_vector(
    rows: Rows, *, base: Base = "temperature", start: Calibrator | None = None
) -> StructuredVectorScaling:
    """Fit `StructuredVectorScaling`, from `start`, one fitted to similar rows."""
    penalty = np.full(2 * rows.n_classes, rows.n_classes / rows.size)
    return _fit_structured(StructuredVectorScaling, rows, base, penalty, start)


def fit_structured_matrix(
    rows: Rows, *, base: Base = "temperature", start: Calibrator | None = None
) -> StructuredMatrixScaling:
    """Fit `StructuredMatrixScaling`, from `start`, one fitted to similar rows."""
    k, n = rows.n_classes, rows.size
    penalty = _penalties(k, k * (k - 1) / n, k / n, k / n)
    return _fit_structured(StructuredMatrixScaling, rows, base, penalty, start)


Structured = TypeVar("Structured", StructuredVectorScaling, StructuredMatrixScaling)


def _fit_structured(
    kind: type[Structured], rows: Rows, base: Base, penalty: Floats, start: Calibrator | None
) -> Structured:
    check_choice(base, ("temperature", "focal_temperature"), name="base")
    gamma, mix = 0.0, 1.0 / (rows.size + 1.0)
    if base == "temperature":
        temperature = lowest_temperature(rows, start=start).temperature
    else:
        both = lowest_focal_temperature(rows, start=start)
        gamma, temperature = both.gamma, both.temperature
    z = rows.logits.astype(working_precision(rows.logits), copy=False)
    near = _changes(start) if isinstance(start, kind) else None
    result = _regressed(rows, z, _tempered(z, gamma, temperature, mix), penalty, near)
    weights, bias = _of_changes(result.x, rows.n_classes)
    found = kind(gamma, temperature, mix, weights, bias - bias.mean())
    return rows.finish(found, result)


def fit_dirichlet(
    rows: Rows,
    *,
    off_diagonal: float = 1e-3,
    intercept: float = 1e-3,
    start: Calibrator | None = None,
) -> DirichletCalibration:
    """Fit `DirichletCalibration`, from `start`, one fitted to similar rows."""
    check_positive(off_diagonal, name="off_diagonal")
    check_positive(intercept, name="intercept")
    check_classes_present(rows.labels, rows.n_classes, method="Dirichlet calibration")
    rows.check()
    z, k = rows.logits.astype(np.float64), rows.n_classes
    # The penalty pulls towards 0, and the parameters are changes from the identity, whose
    # off-diagonal entries and intercept are 0 too.
    penalty = _penalties(k, off_diagonal / (k * (k - 1)), 0.0, intercept / k)
    near = _changes(start) if isinstance(start, DirichletCalibration) else None
    result = _regressed(rows, z, np.asarray(_cut_logs(z)), penalty, near)
    matrix, bias = _of_changes(result.x, k)
    return rows.finish(DirichletCalibration(matrix, bias), result)


def _penalties(k: int, off_diagonal: float, diagonal: float, bias: float) -> Floats:
    """Return the penalty of each entry of a matrix ``[K, K]`` and a bias ``[K]``, row by row."""
    table = np.full((k, k + 1), off_diagonal)
    table[np.arange(k), np.arange(k)] = diagonal
    table[:, k] = bias
    return table.ravel()


def _changes(own: Any) -> Floats:
    """Return the parameters as changes from the identity, as `softmax_regression` has them."""
    weights, bias = own._weights_and_bias
    if weights.ndim == 1:
        return np.concatenate([weights - 1.0, bias])
    return np.concatenate([weights.T - np.eye(len(bias)), bias[:, None]], axis=1).ravel()


def _of_changes(changes: Floats, k: int) -> tuple[Any, Any]:
    """Return scales ``[K]`` or a matrix ``[K, K]``, and the bias."""
    if len(changes) == 2 * k:
        return 1.0 + changes[:k], changes[k:]
    table = changes.reshape(k, k + 1)
    return np.eye(k) + table[:, :k], table[:, k]


def _regressed(
    rows: Rows, z: NDArray[Any], x: NDArray[Any], penalty: Floats, near: Floats | None
) -> Minimum:
    """Return the softmax regression on `x`, of scales or of a matrix as the penalty has."""
    design: Design = VectorDesign(x)
    if len(penalty) > 2 * rows.n_classes:
        design = MatrixDesign(np.concatenate([x, np.ones((len(x), 1), dtype=x.dtype)], axis=1))
    offset = np.where(np.isfinite(z), x, -np.inf)
    return softmax_regression(
        design, offset, rows.labels, penalty, weights=rows.weights, start=near
    )
