"""Fits of structured scaling."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_choice, check_positive
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.reporting import report_on
from focalibrate.calibrate._engine.ridge import RidgeMinimum, minimise_ridge
from focalibrate.calibrate._engine.ridge_design import Design, MatrixDesign, VectorDesign
from focalibrate.calibrate._input import ScoredRows, read_scores, working_precision
from focalibrate.calibrate.fit_report import FitReport
from focalibrate.calibrate.focal_temperature import quiet_focal_temperature
from focalibrate.calibrate.parts import Parts
from focalibrate.calibrate.structured import (
    StructuredMatrixScaling,
    StructuredVectorScaling,
    tempered,
)
from focalibrate.calibrate.temperature import quiet_temperature, share_temperatures

Base = Literal["temperature", "focal_temperature"]


Strength = float | Literal["cross_validated"]


STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Multiples of the published penalty that cross-validation chooses from."""


N_FOLDS = 5


def fit_structured_vector(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    base: Base = "temperature",
    strength: Strength = 1.0,
    return_report: bool = False,
) -> Any:
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
        return_report: also return a `FitReport`.

    Returns:
        `StructuredVectorScaling`, and the report if requested.

    Numerics:
        Newton's method in float64, to within 1e-11 of the minimum; conjugate gradients for its
        steps where there are more than 420 parameters. Deterministic.

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
    found, report = _fit(rows, base, strength, _Vector)
    return (found, report) if return_report else found


def fit_structured_matrix(
    logits: Array | None = None,
    labels: Array | None = None,
    *,
    probs: Array | None = None,
    sample_weight: Array | None = None,
    base: Base = "temperature",
    strength: Strength = 1.0,
    return_report: bool = False,
) -> Any:
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
    found, report = _fit(rows, base, strength, _Matrix)
    return (found, report) if return_report else found


class _Vector:
    """How the parameters of a vector are penalised and named."""

    @staticmethod
    def design(x: NDArray[Any]) -> Design:
        return VectorDesign(x)

    @staticmethod
    def penalty(n_classes: int, size: float) -> Floats:
        return np.full(2 * n_classes, n_classes / size)

    @staticmethod
    def calibrator(base: tuple[float, float, float], x: Floats) -> Calibrator:
        scale, bias = x.reshape(2, -1)
        return StructuredVectorScaling(
            *base, tuple((1.0 + scale).tolist()), tuple((bias - bias.mean()).tolist())
        )


class _Matrix:
    """How the parameters of a matrix are penalised and named."""

    @staticmethod
    def design(x: NDArray[Any]) -> Design:
        return MatrixDesign(np.concatenate([x, np.ones((len(x), 1), dtype=x.dtype)], axis=1))

    @staticmethod
    def penalty(n_classes: int, size: float) -> Floats:
        k = n_classes
        strengths = np.full((k, k + 1), k * (k - 1) / size)
        strengths[np.arange(k), np.arange(k)] = strengths[:, k] = k / size
        return strengths.ravel()

    @staticmethod
    def calibrator(base: tuple[float, float, float], x: Floats) -> Calibrator:
        k = round((len(x) + 0.25) ** 0.5 - 0.5)
        table = x.reshape(k, k + 1)
        matrix, bias = np.eye(k) + table[:, :k], table[:, k]
        return StructuredMatrixScaling(
            *base,
            tuple(map(tuple, matrix.tolist())),
            tuple((bias - bias.mean()).tolist()),
        )


Form = type[_Vector] | type[_Matrix]


def form_of_shape(shape: Literal["vector", "matrix"]) -> Form:
    """Return how the parameters of a vector or a matrix are penalised and named."""
    return _Vector if shape == "vector" else _Matrix


def _fit(
    rows: ScoredRows, base: Base, strength: Strength, form: Form
) -> tuple[Calibrator, FitReport]:
    check_choice(base, ("temperature", "focal_temperature"), name="base")
    if strength == "cross_validated":
        strength = _chosen_strength(rows, base, form)
    check_positive(strength, name="strength")
    start = _base_of(rows, base)
    result = _minimum(rows, start, strength, form)
    found = rows.stamp(form.calibrator(start, result.parameters))
    return found, report_on(
        found,
        rows,
        value=result.loss,
        n_evaluations=result.n_evaluations,
        converged=result.converged,
    )


def cross_fit_structured(
    parts: Parts, *, base: Base, shape: Literal["vector", "matrix"]
) -> list[Calibrator]:
    """Return the structured scaling of each part, with the published penalty.

    The first's minimum, and its second derivatives, are near those of the others; what is found
    does not depend on where a search starts.
    """
    share_temperatures(parts)
    form = form_of_shape(shape)
    bases = [_base_of(parts[i], base) for i in range(len(parts))]
    near = _minimum(parts[0], bases[0], 1.0, form)
    found = [form.calibrator(bases[0], near.parameters)]
    for i in range(1, len(parts)):
        result = _minimum(parts[i], bases[i], 1.0, form, near=near)
        found.append(form.calibrator(bases[i], result.parameters))
    return found


def _base_of(rows: ScoredRows, base: Base) -> tuple[float, float, float]:
    """Return gamma, T and the weight of the uniform distribution."""
    mix = 1.0 / (rows.size + 1.0)
    if base == "temperature":
        return 0.0, quiet_temperature(rows)[0], mix
    return (*quiet_focal_temperature(rows), mix)


def _minimum(
    rows: ScoredRows,
    base: tuple[float, float, float],
    strength: float,
    form: Form,
    *,
    near: RidgeMinimum | None = None,
) -> RidgeMinimum:
    gamma, temperature, mix = base
    z = rows.logits.astype(working_precision(rows.logits), copy=False)
    x = tempered(z, gamma=gamma, temperature=temperature, mix=mix)
    offset = np.where(np.isfinite(z), x, -np.inf)
    penalty = strength * form.penalty(rows.n_classes, rows.size)
    return minimise_ridge(
        form.design(x),
        offset,
        rows.labels,
        penalty,
        weights=rows.weights,
        start=None if near is None else near.parameters,
        inverse=None if near is None else near.inverse,
    )


def _chosen_strength(rows: ScoredRows, base: Base, form: Form) -> float:
    """Return the strength of least log loss in cross-validation."""
    folds = np.array_split(np.random.default_rng(0).permutation(rows.n_rows), N_FOLDS)
    loss = np.zeros(len(STRENGTHS))
    for fold in folds:
        kept = np.setdiff1d(np.arange(rows.n_rows), fold)
        part, held = rows.take(kept), rows.take(fold)
        start = _base_of(part, base)
        weights = np.ones(held.n_rows) if held.weights is None else held.weights
        for i, strength in enumerate(STRENGTHS):
            found = form.calibrator(start, _minimum(part, start, strength, form).parameters)
            log_probs = np.asarray(found.log_probs(held.logits))
            loss[i] -= weights @ log_probs[np.arange(held.n_rows), held.labels]
    return STRENGTHS[int(loss.argmin())]
