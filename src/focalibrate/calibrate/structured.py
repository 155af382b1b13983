"""Structured scaling: the calibrators of a regularised vector or matrix after a temperature."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from focalibrate._array import Array, Floats, device, namespace, working_dtype
from focalibrate._check import check_gamma
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._settings import check_numbers, check_temperature
from focalibrate.calibrate.parametric import recovered


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
