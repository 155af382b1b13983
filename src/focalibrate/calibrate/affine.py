"""Calibrators that are a softmax regression: vector, structured and Dirichlet, with their fits."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, device, like, namespace, working_dtype
from focalibrate._check import check_choice, check_gamma, check_positive
from focalibrate._stable import log_softmax
from focalibrate.calibrate.calibrator import Calibrator, check_numbers, check_temperature
from focalibrate.calibrate.fit_focal_temperature import lowest_focal_temperature
from focalibrate.calibrate.fit_temperature import lowest_temperature
from focalibrate.calibrate.optimise import (
    Design,
    MatrixDesign,
    RegressionMinimum,
    VectorDesign,
    softmax_regression,
)
from focalibrate.calibrate.report import warn
from focalibrate.calibrate.rows import (
    Rows,
    check_classes_present,
    check_rows,
    read_scores,
    working_precision,
)
from focalibrate.calibrate.temperature import recovered

Base = Literal["temperature", "focal_temperature"]
Strength = float | Literal["cross_validated"]

MAX_LOG_ODDS = 87.0
"""Larger log-odds, such as those of masks, are cut to this."""
WEAK = 1e-12
"""Penalty that keeps vector scaling finite where the loss has no minimum."""
LARGE = 10.0
"""A scale times T, or a bias, above this is one that the loss would let grow without end."""
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Multiples of the published penalty that cross-validation chooses from."""
N_FOLDS = 5


@final
@dataclass(frozen=True)
class VectorScaling(Calibrator):
    r"""Vector scaling :math:`\operatorname{softmax}(w \odot z + b)`: may change predictions.

    References:
        Guo et al. (2017), Sec. 4.2.
    """

    scale: tuple[float, ...]
    bias: tuple[float, ...]
    kind: ClassVar[str] = "vector"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_numbers(self.scale, name="scale")
        check_numbers(self.bias, name="bias")
        if len(self.scale) != len(self.bias) or len(self.scale) < 2:
            raise ValueError(
                "`scale` and `bias` must have one entry per class, got "
                f"{len(self.scale)} and {len(self.bias)}."
            )

    def _log_probs(self, x: Array) -> Array:
        xp = namespace(x)
        z = xp.astype(x, working_dtype(x))
        scale, bias = (like(v, z) for v in self._arrays)
        is_possible = xp.isfinite(z)
        scaled = xp.where(is_possible, z, xp.zeros_like(z)) * scale + bias
        scaled = xp.where(is_possible, scaled, xp.full_like(z, -xp.inf))
        return xp.astype(log_softmax(scaled), x.dtype)

    def _own_classes(self) -> int:
        return len(self.scale)

    @cached_property
    def _arrays(self) -> tuple[list[float], list[float]]:
        return list(self.scale), list(self.bias)

    def describe(self) -> str:
        """Return a one-line description."""
        return (
            f"vector scaling: {len(self.scale)} classes, scales "
            f"{min(self.scale):.4g} to {max(self.scale):.4g}"
        )


def tempered(z: Array, *, gamma: float, temperature: float, mix: float) -> Array:
    r"""Return the logarithms of :math:`(1-\varepsilon)\Psi_\gamma(v) + \varepsilon/K`.

    With :math:`v = \operatorname{softmax}(z/T)`; mixing bounds the logarithms, so that a matrix
    can act on them.
    """
    xp = namespace(z)
    x = xp.astype(z, working_dtype(z))
    probs = xp.exp(recovered(x, gamma=gamma, temperature=temperature))
    return xp.log((1.0 - mix) * probs + mix / x.shape[-1])


def scaled_log_probs(z: Array, logits: Array) -> Array:
    """Return the log-softmax of `logits`, with classes that are impossible in `z` left so."""
    xp = namespace(z)
    logits = xp.where(xp.isfinite(z), logits, xp.full_like(logits, -xp.inf))
    return xp.astype(log_softmax(logits), z.dtype)


@final
@dataclass(frozen=True)
class StructuredVectorScaling(Calibrator):
    r"""Temperature, then :math:`\operatorname{softmax}(s \odot x + b)`: may change predictions.

    :math:`x` are log-probabilities after :math:`\Psi_\gamma(\operatorname{softmax}(z/T))`
    (gamma 0: plain temperature), mixed with a little of the uniform distribution.

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
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        _check_base(self.gamma, self.temperature, self.mix)
        check_numbers(self.scale, name="scale")
        check_numbers(self.bias, name="bias")
        if len(self.scale) != len(self.bias) or len(self.scale) < 2:
            raise ValueError(
                "`scale` and `bias` must have one entry per class, got "
                f"{len(self.scale)} and {len(self.bias)}."
            )

    def _own_classes(self) -> int:
        return len(self.scale)

    def _log_probs(self, x: Array) -> Array:
        u = tempered(x, gamma=self.gamma, temperature=self.temperature, mix=self.mix)
        scale, bias = (constant(v, u) for v in self._arrays)
        return scaled_log_probs(x, scale * u + bias)

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats]:
        return np.asarray(self.scale), np.asarray(self.bias)

    @property
    def _changes(self) -> Floats:
        return np.concatenate([np.asarray(self.scale) - 1.0, self.bias])

    @classmethod
    def _of_changes(cls, base: tuple[float, float, float], changes: Floats) -> Self:
        scale, bias = changes.reshape(2, -1)
        return cls(*base, tuple((1.0 + scale).tolist()), tuple((bias - bias.mean()).tolist()))

    def describe(self) -> str:
        """Return a one-line description."""
        return (
            f"structured vector scaling after {_base_words(self.gamma, self.temperature)}: "
            f"{len(self.scale)} classes, scales {min(self.scale):.4g} to {max(self.scale):.4g}"
        )


@final
@dataclass(frozen=True)
class StructuredMatrixScaling(Calibrator):
    r"""Temperature, then :math:`\operatorname{softmax}(W x + b)`: may change predictions.

    :math:`x` as in `StructuredVectorScaling`.

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
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        _check_base(self.gamma, self.temperature, self.mix)
        check_matrix(self.matrix, self.bias)

    def _own_classes(self) -> int:
        return len(self.bias)

    def _log_probs(self, x: Array) -> Array:
        u = tempered(x, gamma=self.gamma, temperature=self.temperature, mix=self.mix)
        matrix, bias = (constant(v, u) for v in self._arrays)
        return scaled_log_probs(x, u @ matrix + bias)

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats]:
        return np.ascontiguousarray(np.asarray(self.matrix).T), np.asarray(self.bias)

    @property
    def _changes(self) -> Floats:
        matrix = np.asarray(self.matrix) - np.eye(len(self.bias))
        return np.concatenate([matrix, np.asarray(self.bias)[:, None]], axis=1).ravel()

    @classmethod
    def _of_changes(cls, base: tuple[float, float, float], changes: Floats) -> Self:
        k = round((len(changes) + 0.25) ** 0.5 - 0.5)
        table = changes.reshape(k, k + 1)
        matrix, bias = np.eye(k) + table[:, :k], table[:, k]
        rows = tuple(map(tuple, matrix.tolist()))
        return cls(*base, rows, tuple((bias - bias.mean()).tolist()))

    def describe(self) -> str:
        """Return a one-line description."""
        return (
            f"structured matrix scaling after {_base_words(self.gamma, self.temperature)}: "
            f"{len(self.bias)} classes"
        )


def constant(values: Floats, beside: Array) -> Array:
    """Return `values` in the library, dtype and device of `beside`."""
    return namespace(beside).asarray(values, dtype=beside.dtype, device=device(beside))


def check_matrix(matrix: Any, bias: Any) -> None:
    """Raise `ValueError` unless `matrix` is square with one entry of `bias` per row."""
    check_numbers(bias, name="bias")
    if not isinstance(matrix, tuple) or len(matrix) != len(bias) or len(bias) < 2:
        raise ValueError("`matrix` and `bias` must have one row and one entry per class.")
    for row in matrix:
        check_numbers(row, name="matrix")
        if len(row) != len(bias):
            raise ValueError(f"`matrix` must be square, got a row of {len(row)} numbers.")


def _check_base(gamma: float, temperature: float, mix: float) -> None:
    check_gamma(gamma, minimum=-1.0)
    check_temperature(temperature)
    if not 0 < mix < 1:
        raise ValueError(f"`mix` must lie between 0 and 1, got {mix!r}.")


def _base_words(gamma: float, temperature: float) -> str:
    return f"T={temperature:.4g}" if gamma == 0 else f"gamma={gamma:.4g}, T={temperature:.4g}"


def _cut_logs(z: Array) -> Array:
    """Return log-probabilities, cut at -87."""
    xp = namespace(z)
    x = xp.astype(z, working_dtype(z))
    return xp.clip(log_softmax(x), -MAX_LOG_ODDS, 0.0)


@final
@dataclass(frozen=True)
class DirichletCalibration(Calibrator):
    r"""Dirichlet calibration :math:`\operatorname{softmax}(W\log p + b)`: may change predictions.

    References:
        Kull, Perelló-Nieto et al. (2019), *Beyond temperature scaling*.
    """

    matrix: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]
    kind: ClassVar[str] = "dirichlet"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_matrix(self.matrix, self.bias)

    def _own_classes(self) -> int:
        return len(self.bias)

    def _log_probs(self, x: Array) -> Array:
        logs = _cut_logs(x)
        matrix, bias = (constant(v, logs) for v in self._arrays)
        return scaled_log_probs(x, logs @ matrix + bias)

    @cached_property
    def _arrays(self) -> tuple[Floats, Floats]:
        return np.ascontiguousarray(np.asarray(self.matrix).T), np.asarray(self.bias)

    def describe(self) -> str:
        """Return a one-line description."""
        return f"Dirichlet calibration: {len(self.bias)} classes"


def fit_vector_scaling(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    start: Calibrator | None = None,
) -> VectorScaling:
    r"""Fit one scale and one bias per class by log loss, to validation data.

    .. math:: \min_{w, b} \frac1N \sum_i -\log\operatorname{softmax}(w \odot z_i + b)_{y_i}

    Convex in both. Starts from temperature scaling.

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]`` of at least two classes; for classes that never occur
            the bias becomes very low, with a warning.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        start: a vector scaling fitted to similar rows, such as all but another fold.

    Returns:
        `VectorScaling`; the biases sum to 0.

    Numerics:
        `softmax_regression` in float64 (float32 for large single-precision logits), in units of
        1/T of temperature scaling, to within 1e-9 of the least log loss; a penalty of 1e-12 keeps
        separable data finite.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((20000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit_vector_scaling(truth - [0.0, 1.0, 0.0], labels)
        >>> round(found.bias[1] - found.bias[0], 1)
        1.0

    References:
        Guo et al. (2017), Sec. 4.2.
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    check_classes_present(rows.labels, rows.n_classes, method="vector scaling")
    plain = lowest_temperature(rows)
    z = rows.logits.astype(working_precision(rows.logits), copy=False)
    is_possible = np.isfinite(z)
    x = np.where(is_possible, z, 0.0).astype(z.dtype, copy=False) / plain.temperature
    offset = np.where(is_possible, x, -np.inf)
    near = None
    if isinstance(start, VectorScaling):
        scale = np.asarray(start.scale) * plain.temperature - 1.0
        near = np.concatenate([scale, start.bias])
    penalty = np.full(2 * rows.n_classes, WEAK)
    result = softmax_regression(
        VectorDesign(x), offset, rows.labels, penalty, weights=rows.weights, start=near
    )
    scale, bias = result.parameters.reshape(2, -1)
    scale, bias = 1.0 + scale, bias - bias.mean()
    at_bound = bool(max(np.abs(scale).max(), np.abs(bias).max()) > LARGE)
    at_bound |= bool(plain.report and plain.report.at_bound)
    scale = scale / plain.temperature
    found = VectorScaling(tuple(scale.tolist()), tuple(bias.tolist()))
    if at_bound:
        warn(
            f"{found.describe()}: a scale or bias is very large, as the log loss still falls "
            "there. Fit on more data, or fit a temperature."
        )
    return _finished(found, rows, result, at_bound=at_bound)


def fit_structured_vector(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    base: Base = "temperature",
    strength: Strength = 1.0,
    start: Calibrator | None = None,
) -> StructuredVectorScaling:
    r"""Fit a temperature, then a regularised scale and bias per class, to validation data.

    .. math:: \min_{d, b} \frac1n \sum_i -\log\operatorname{softmax}((1 + d) \odot x_i + b)_{y_i}
              + \lambda \|d\|^2 + \lambda \|b\|^2, \qquad \lambda = K/n

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        base: what :math:`x` are the log-probabilities of: ``"temperature"`` scaling, or
            ``"focal_temperature"`` scaling with a fitted gamma; both by log loss.
        strength: factor on the published penalty, or ``"cross_validated"``: the best of
            0.1, 0.3, 1, 3 and 10 in five folds.
        start: a scaling of this kind fitted to similar rows, such as all but another fold.

    Returns:
        `StructuredVectorScaling`.

    Numerics:
        Newton's method by conjugate gradients in float64 (float32 for large single-precision
        logits), to within 1e-10 of the minimum. Deterministic.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((2000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit_structured_vector(2 * truth - [0.0, 2.0, 0.0], labels)
        >>> found.bias[1] > found.bias[0]
        True

    References:
        Berta, Holzmüller, Jordan & Bach (2026).
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    return _fit_structured(rows, base, strength, StructuredVectorScaling, start)


def fit_structured_matrix(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    base: Base = "temperature",
    strength: Strength = 1.0,
    start: Calibrator | None = None,
) -> StructuredMatrixScaling:
    r"""Fit a temperature, then a regularised matrix and bias, to validation data.

    .. math:: \min_{D, b} \frac1n \sum_i -\log\operatorname{softmax}((I + D) x_i + b)_{y_i}
              + \frac Kn \left(\|b\|^2 + \|\operatorname{diag} D\|^2\right)
              + \frac{K(K-1)}n \|\operatorname{offdiag} D\|^2

    Arguments, result (`StructuredMatrixScaling`) and numerics as in `fit_structured_vector`.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((2000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit_structured_matrix(2 * truth - [0.0, 2.0, 0.0], labels)
        >>> found.bias[1] > found.bias[0]
        True

    References:
        Berta, Holzmüller, Jordan & Bach (2026).
    """
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    return _fit_structured(rows, base, strength, StructuredMatrixScaling, start)


Structured = TypeVar("Structured", StructuredVectorScaling, StructuredMatrixScaling)


def _fit_structured(
    rows: Rows,
    base: Base,
    strength: Strength,
    kind: type[Structured],
    start: Calibrator | None,
) -> Structured:
    check_choice(base, ("temperature", "focal_temperature"), name="base")
    if strength == "cross_validated":
        strength = _chosen_strength(rows, base, kind)
    check_positive(strength, name="strength")
    found, result = _structured(rows, _base_of(rows, base, start), strength, kind, start)
    return _finished(found, rows, result)


def _base_of(rows: Rows, base: Base, start: Calibrator | None) -> tuple[float, float, float]:
    """Return gamma, T and the weight of the uniform distribution."""
    mix = 1.0 / (rows.size + 1.0)
    if base == "temperature":
        return 0.0, lowest_temperature(rows, start=start).temperature, mix
    both = lowest_focal_temperature(rows, start=start)
    return both.gamma, both.temperature, mix


def _structured(
    rows: Rows,
    base: tuple[float, float, float],
    strength: float,
    kind: type[Structured],
    start: Calibrator | None = None,
) -> tuple[Structured, RegressionMinimum]:
    gamma, temperature, mix = base
    k = rows.n_classes
    z = rows.logits.astype(working_precision(rows.logits), copy=False)
    x = tempered(z, gamma=gamma, temperature=temperature, mix=mix)
    offset = np.where(np.isfinite(z), x, -np.inf)
    penalty = np.full(2 * k, k / rows.size)
    design: Design = VectorDesign(x)
    if kind is StructuredMatrixScaling:
        table = np.full((k, k + 1), k * (k - 1) / rows.size)
        table[np.arange(k), np.arange(k)] = table[:, k] = k / rows.size
        penalty, design = table.ravel(), _matrix_design(x)
    near = start._changes if isinstance(start, kind) else None
    result = softmax_regression(
        design, offset, rows.labels, strength * penalty, weights=rows.weights, start=near
    )
    return kind._of_changes(base, result.parameters), result


def _matrix_design(x: NDArray[Any]) -> MatrixDesign:
    return MatrixDesign(np.concatenate([x, np.ones((len(x), 1), dtype=x.dtype)], axis=1))


def _chosen_strength(rows: Rows, base: Base, kind: type[Structured]) -> float:
    """Return the strength of least log loss in cross-validation."""
    folds = np.array_split(np.random.default_rng(0).permutation(rows.n_rows), N_FOLDS)
    loss = np.zeros(len(STRENGTHS))
    for fold in folds:
        kept = np.setdiff1d(np.arange(rows.n_rows), fold)
        part, held = rows.take(kept), rows.take(fold)
        fitted = _base_of(part, base, None)
        weights = np.ones(held.n_rows) if held.weights is None else held.weights
        for i, strength in enumerate(STRENGTHS):
            found, _ = _structured(part, fitted, strength, kind)
            log_probs = np.asarray(found.log_probs(held.logits))
            loss[i] -= weights @ log_probs[np.arange(held.n_rows), held.labels]
    return STRENGTHS[int(loss.argmin())]


def fit_dirichlet(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    off_diagonal: float = 1e-3,
    intercept: float = 1e-3,
    start: Calibrator | None = None,
) -> DirichletCalibration:
    r"""Fit a matrix and a bias on log-probabilities, by log loss with two penalties.

    .. math:: \min_{W, b} \frac1n \sum_i -\log\operatorname{softmax}(W\log p_i + b)_{y_i}
              + \frac{\lambda}{K(K-1)} \|\operatorname{offdiag} W\|^2 + \frac{\mu}{K} \|b\|^2

    Args:
        logits: real array ``[N, K]`` of any library, data frame or list; ``[N]`` or ``[N, 1]`` are
            margins of class 1.
        labels: class indices ``[N]``.
        probs: probabilities instead of logits; ``[N]`` or ``[N, 1]`` are those of class 1.
        sample_weight: one number >= 0 per row; a whole number counts copies of the row.
        off_diagonal: :math:`\lambda > 0`.
        intercept: :math:`\mu > 0`.
        start: a Dirichlet calibration fitted to similar rows, such as all but another fold.

    Returns:
        `DirichletCalibration`.

    Numerics:
        Convex; Newton's method in float64 from the identity. Log-probabilities are cut at -87.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> truth = rng.standard_normal((4000, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> found = fit_dirichlet(2 * truth, labels)
        >>> round(found.matrix[0][0] - found.matrix[1][0], 1)
        0.5

    References:
        Kull, Perelló-Nieto et al. (2019), Sec. 2.3 (off-diagonal and intercept regularisation).
    """
    check_positive(off_diagonal, name="off_diagonal")
    check_positive(intercept, name="intercept")
    rows = read_scores(logits, labels, probs=probs, sample_weight=sample_weight)
    check_classes_present(rows.labels, rows.n_classes, method="Dirichlet calibration")
    z = rows.logits.astype(np.float64)
    check_rows(z.max(axis=1), z[np.arange(len(z)), rows.labels], rows.logits, rows.labels)
    k, logs = rows.n_classes, np.asarray(_cut_logs(z))
    penalty = np.full((k, k + 1), off_diagonal / (k * (k - 1)))
    penalty[np.arange(k), np.arange(k)] = 0.0
    penalty[:, k] = intercept / k
    # The penalty pulls towards 0, and the parameters are changes from the identity, whose
    # off-diagonal entries and intercept are 0 too.
    offset = np.where(np.isfinite(z), logs, -np.inf)
    near = None
    if isinstance(start, DirichletCalibration):
        changes = np.asarray(start.matrix) - np.eye(k)
        near = np.concatenate([changes, np.asarray(start.bias)[:, None]], axis=1).ravel()
    result = softmax_regression(
        _matrix_design(logs),
        offset,
        rows.labels,
        penalty.ravel(),
        weights=rows.weights,
        start=near,
    )
    table = result.parameters.reshape(k, k + 1)
    matrix = tuple(map(tuple, (np.eye(k) + table[:, :k]).tolist()))
    found = DirichletCalibration(matrix, tuple(table[:, k].tolist()))
    return _finished(found, rows, result)


Affine = TypeVar("Affine", bound=Calibrator)


def _finished(
    found: Affine, rows: Rows, result: RegressionMinimum, *, at_bound: bool = False
) -> Affine:
    return rows.finish(
        found,
        value=result.loss,
        n_evaluations=result.n_evaluations,
        converged=result.converged,
        at_bound=at_bound,
    )
