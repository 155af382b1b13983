"""Calibrators with a formula: any array library, device and dtype kept."""

from dataclasses import dataclass
from typing import ClassVar, final

from focalibrate._array import Array, device, namespace, stop_gradient, working_dtype
from focalibrate._check import check_gamma, check_logits
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._settings import check_numbers, check_temperature
from focalibrate.theory import recover_log_posterior


@final
@dataclass(frozen=True)
class Identity(Calibrator):
    """The model's own probabilities, ``softmax(z)``."""

    kind: ClassVar[str] = "identity"
    keeps_argmax: ClassVar[bool] = True

    def log_probs(self, logits: Array) -> Array:
        """Return log-probabilities; see `Calibrator`."""
        return _recovered(logits, gamma=0.0, temperature=1.0)

    def describe(self) -> str:
        """Return one line for a person to read."""
        return "identity: the model's own probabilities"


@final
@dataclass(frozen=True)
class PosteriorRecovery(Calibrator):
    r"""Posterior recovery :math:`\Psi_\gamma(\operatorname{softmax}(z))` with the training gamma.

    Example:
        >>> import numpy as np
        >>> PosteriorRecovery(gamma=2.0).probs(np.log([[0.7, 0.2, 0.1]])).round(4)
        array([[0.9197, 0.0546, 0.0257]])

    References:
        Charoenphakdee et al. (2021), Thm. 11.
    """

    gamma: float
    kind: ClassVar[str] = "posterior_recovery"
    keeps_argmax: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_gamma(self.gamma, minimum=-1.0)

    def log_probs(self, logits: Array) -> Array:
        """Return log-probabilities; see `Calibrator`."""
        return _recovered(logits, gamma=self.gamma, temperature=1.0)

    def describe(self) -> str:
        """Return one line for a person to read."""
        return f"posterior recovery: gamma={self.gamma:g}"


@final
@dataclass(frozen=True)
class TemperatureScaling(Calibrator):
    r"""Temperature scaling :math:`\operatorname{softmax}(z/T)`.

    Example:
        >>> import numpy as np
        >>> TemperatureScaling(temperature=2.0).probs(np.log([[0.64, 0.36]])).round(4)
        array([[0.5714, 0.4286]])

    References:
        Guo et al. (2017), *On Calibration of Modern Neural Networks*.
    """

    temperature: float
    kind: ClassVar[str] = "temperature_scaling"
    keeps_argmax: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_temperature(self.temperature)

    def log_probs(self, logits: Array) -> Array:
        """Return log-probabilities; see `Calibrator`."""
        return _recovered(logits, gamma=0.0, temperature=self.temperature)

    def describe(self) -> str:
        """Return one line for a person to read."""
        return f"temperature scaling: T={self.temperature:.4g}"


@final
@dataclass(frozen=True)
class FocalTemperatureScaling(Calibrator):
    r"""Focal temperature scaling :math:`\Psi_\gamma(\operatorname{softmax}(z/T))`.

    Both parameters are fitted on validation data; gamma need not be the training one.

    Example:
        >>> import numpy as np
        >>> fts = FocalTemperatureScaling(gamma=1.0, temperature=1.5)
        >>> fts.probs(np.log([[0.7, 0.2, 0.1]])).round(4)
        array([[0.6831, 0.197 , 0.1198]])

    References:
        Komisarenko & Kull (2024), *Improving Calibration by Relating Focal Loss, Temperature
        Scaling, and Properness*.
    """

    gamma: float
    temperature: float
    kind: ClassVar[str] = "focal_temperature_scaling"
    keeps_argmax: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_gamma(self.gamma, minimum=-1.0)
        check_temperature(self.temperature)

    def log_probs(self, logits: Array) -> Array:
        """Return log-probabilities; see `Calibrator`."""
        return _recovered(logits, gamma=self.gamma, temperature=self.temperature)

    def describe(self) -> str:
        """Return one line for a person to read."""
        return f"focal temperature scaling: gamma={self.gamma:.4g}, T={self.temperature:.4g}"


@final
@dataclass(frozen=True)
class FocalLossTemperature(Calibrator):
    r"""The temperature of least focal loss, then :math:`\Psi_\gamma` with the same gamma.

    The focal loss is not proper: its best temperature gives good focal scores, and only
    :math:`\Psi_\gamma` turns those into probabilities.

    References:
        Charoenphakdee et al. (2021), Sec. 6 (there TS with FL, then :math:`\Psi`).
    """

    gamma: float
    temperature: float
    kind: ClassVar[str] = "focal_loss_temperature"
    keeps_argmax: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_temperature(self.temperature)

    def log_probs(self, logits: Array) -> Array:
        """Return log-probabilities; see `Calibrator`."""
        return _recovered(logits, gamma=self.gamma, temperature=self.temperature)

    def describe(self) -> str:
        """Return one line for a person to read."""
        return (
            f"temperature by focal loss: T={self.temperature:.4g}, "
            f"then posterior recovery with gamma={self.gamma:.4g}"
        )


@final
@dataclass(frozen=True)
class VectorScaling(Calibrator):
    r"""Vector scaling :math:`\operatorname{softmax}(w \odot z + b)`: may change predictions.

    References:
        Guo et al. (2017), Sec. 4.2.
    """

    scale: tuple[float, ...]
    bias: tuple[float, ...]
    kind: ClassVar[str] = "vector_scaling"
    keeps_argmax: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_numbers(self.scale, name="scale")
        check_numbers(self.bias, name="bias")
        if len(self.scale) != len(self.bias) or len(self.scale) < 2:
            raise ValueError(
                "`scale` and `bias` must have one entry a class, got "
                f"{len(self.scale)} and {len(self.bias)}."
            )

    def log_probs(self, logits: Array) -> Array:
        """Return log-probabilities; see `Calibrator`."""
        check_logits(logits)
        check_class_count(logits, len(self.scale))
        xp = namespace(logits)
        x = xp.astype(logits, working_dtype(logits))
        scale, bias = (
            xp.asarray(list(v), dtype=x.dtype, device=device(x)) for v in (self.scale, self.bias)
        )
        is_possible = xp.isfinite(x)
        scaled = xp.where(is_possible, x, xp.zeros_like(x)) * scale + bias
        scaled = xp.where(is_possible, scaled, xp.full_like(x, -xp.inf))
        return xp.astype(log_softmax(scaled), logits.dtype)

    def describe(self) -> str:
        """Return one line for a person to read."""
        return (
            f"vector scaling: {len(self.scale)} classes, scales "
            f"{min(self.scale):.4g} to {max(self.scale):.4g}"
        )


def check_class_count(logits: Array, n_classes: int) -> None:
    """Raise `ValueError` unless `logits` have the classes the calibrator was fitted on."""
    if logits.shape[-1] != n_classes:
        raise ValueError(
            f"`logits` must have the {n_classes} classes of the fit on the last axis, got shape "
            f"{tuple(logits.shape)}."
        )


def _recovered(logits: Array, *, gamma: float, temperature: float) -> Array:
    check_logits(logits)
    xp = namespace(logits)
    x = xp.astype(logits, working_dtype(logits))  # a half-precision z / T may overflow
    if temperature != 1.0:
        # Gaps first: a large quotient would round them away.
        x = (x - stop_gradient(xp.max(x, axis=-1, keepdims=True))) / temperature
    scores = log_softmax(x) if gamma == 0 else recover_log_posterior(x, gamma)
    return xp.astype(scores, logits.dtype)
