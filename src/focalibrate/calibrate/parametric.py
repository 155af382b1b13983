"""Calibrators with a formula: any array library, device and dtype kept."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from focalibrate._array import Array, like, namespace, stop_gradient, to_numpy, working_dtype
from focalibrate._check import check_gamma
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._document import check_keys, frozen_numbers
from focalibrate.calibrate._settings import check_numbers, check_temperature
from focalibrate.theory import is_outside_smoothing, recover_log_posterior


@dataclass(frozen=True)
class Identity(Calibrator):
    """The model's own probabilities, ``softmax(z)``."""

    kind: ClassVar[str] = "identity"
    keeps_argmax: ClassVar[bool] = True

    def _log_probs(self, x: Array) -> Array:
        return recovered(x, gamma=0.0, temperature=1.0)

    def describe(self) -> str:
        """Return a one-line description."""
        return "identity: the model's own probabilities"


@final
@dataclass(frozen=True)
class PosteriorRecovery(Calibrator):
    r"""Posterior recovery :math:`\Psi_\gamma(\operatorname{softmax}(z))` with the training gamma.

    The effects of class weights, of smoothed labels and of other class frequencies where the
    model is used are undone as well; see `focalibrate.theory.recover_log_posterior`. For a sigmoid
    focal loss with ``alpha``, two classes: ``class_weight=(1 - alpha, alpha)``.

    Example:
        >>> import numpy as np
        >>> PosteriorRecovery(gamma=2.0).probs(np.log([[0.7, 0.2, 0.1]])).round(4)
        array([[0.9197, 0.0546, 0.0257]])
        >>> weighted = PosteriorRecovery(gamma=2.0, class_weight=(0.75, 0.25))
        >>> weighted.probs(np.array([[-1.0]])).round(4)
        array([[0.8296, 0.1704]])

    References:
        Charoenphakdee et al. (2021), Thm. 11.
    """

    gamma: float
    class_weight: tuple[float, ...] | None = None
    """Weights of the training loss, or rates at which classes were sampled, one per class."""
    label_smoothing: float = 0.0
    """Share of each target that was spread over all classes."""
    prior: tuple[float, ...] | None = None
    """Class frequencies of the training data."""
    target_prior: tuple[float, ...] | None = None
    """Class frequencies where the model is used."""
    kind: ClassVar[str] = "posterior_recovery"

    @property
    def keeps_argmax(self) -> bool:  # type: ignore[override]
        """Whether the predicted class never changes: not if classes are weighted."""
        return self.class_weight is None and self.target_prior is None

    def _check(self) -> None:
        check_gamma(self.gamma, minimum=-1.0)
        for name in ("class_weight", "prior", "target_prior"):
            if getattr(self, name) is not None:
                check_numbers(getattr(self, name), name=name)
        n_classes = self._own_classes() or 2
        recover_log_posterior(np.zeros(n_classes), self.gamma, **self._conditions())

    def _own_classes(self) -> int | None:
        for values in (self.class_weight, self.prior, self.target_prior):
            if values is not None:
                return len(values)
        return None

    def _conditions(self) -> dict[str, Any]:
        return {
            "class_weight": self.class_weight,
            "label_smoothing": self.label_smoothing,
            "prior": self.prior,
            "target_prior": self.target_prior,
        }

    def _parameters(self) -> dict[str, Any]:
        given = {name: value for name, value in self._conditions().items() if value}
        return {"gamma": self.gamma, **given}

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        optional = ("class_weight", "label_smoothing", "prior", "target_prior")
        what = f"parameters of {cls.kind!r}"
        check_keys(parameters, ("gamma",), what=what, optional=optional)
        return {name: frozen_numbers(value, name) for name, value in parameters.items()}

    def _log_probs(self, x: Array) -> Array:
        return recover_log_posterior(x, self.gamma, **self._conditions())

    def n_clipped(self, logits: Any = None, *, probs: Any = None) -> int:
        """Return how many rows have an entry that undoing label smoothing clips to 0.

        A model at the minimum of its loss has none: its probabilities, the weights undone, are
        at least ``label_smoothing / K``.

        Args:
            logits: ``[N, K]``, as `log_probs` takes them.
            probs: probabilities instead.
        """
        if not self.label_smoothing:
            return 0
        before = replace(self, label_smoothing=0.0, prior=None, target_prior=None)
        found = is_outside_smoothing(before.log_probs(logits, probs=probs), self.label_smoothing)
        return int(to_numpy(found).sum())

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self._parameters().items())
        return f"PosteriorRecovery({given})"

    def describe(self) -> str:
        """Return a one-line description."""
        words = [f"posterior recovery: gamma={self.gamma:g}"]
        if self.class_weight is not None:
            weights = ", ".join(f"{w:g}" for w in self.class_weight[:6])
            more = ", …" if len(self.class_weight) > 6 else ""
            words.append(f"class weights {weights}{more}")
        if self.label_smoothing:
            words.append(f"label smoothing {self.label_smoothing:g}")
        if self.target_prior is not None:
            words.append("other class frequencies")
        return ", ".join(words)


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
    kind: ClassVar[str] = "temperature"
    keeps_argmax: ClassVar[bool] = True

    def _check(self) -> None:
        check_temperature(self.temperature)

    def _log_probs(self, x: Array) -> Array:
        return recovered(x, gamma=0.0, temperature=self.temperature)

    def describe(self) -> str:
        """Return a one-line description."""
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
    kind: ClassVar[str] = "focal_temperature"
    keeps_argmax: ClassVar[bool] = True

    def _check(self) -> None:
        check_gamma(self.gamma, minimum=-1.0)
        check_temperature(self.temperature)

    def _log_probs(self, x: Array) -> Array:
        return recovered(x, gamma=self.gamma, temperature=self.temperature)

    def describe(self) -> str:
        """Return a one-line description."""
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

    def _check(self) -> None:
        check_gamma(self.gamma)
        check_temperature(self.temperature)

    def _log_probs(self, x: Array) -> Array:
        return recovered(x, gamma=self.gamma, temperature=self.temperature)

    def describe(self) -> str:
        """Return a one-line description."""
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


def recovered(logits: Array, *, gamma: float, temperature: float) -> Array:
    r"""Return :math:`\log\Psi_\gamma(\operatorname{softmax}(z/T))`, in the dtype of the logits."""
    xp = namespace(logits)
    x = xp.astype(logits, working_dtype(logits))  # a half-precision z / T may overflow
    if temperature != 1.0:
        # Gaps first: a large quotient would round them away.
        x = (x - stop_gradient(xp.max(x, axis=-1, keepdims=True))) / temperature
    scores = log_softmax(x) if gamma == 0 else recover_log_posterior(x, gamma)
    return xp.astype(scores, logits.dtype)
