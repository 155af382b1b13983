r"""Calibrators :math:`\Psi_\gamma(\operatorname{softmax}(z/T))`: recovery and temperatures."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from focalibrate._array import Array, namespace, stop_gradient, to_numpy, working_dtype
from focalibrate._check import check_gamma
from focalibrate._stable import log_sigmoid, log_softmax
from focalibrate.calibrate.calibrator import (
    Calibrator,
    check_keys,
    check_temperature,
    frozen_numbers,
)
from focalibrate.theory import LossForm, loss_form, recover_log_posterior
from focalibrate.theory.training_conditions import is_outside_smoothing


@dataclass(frozen=True)
class Identity(Calibrator):
    """The model's own probabilities, ``softmax(z)``."""

    kind: ClassVar[str] = "identity"
    keeps_argmax: ClassVar[bool] = True

    def _log_probs(self, x: Array) -> Array:
        return recovered(x, gamma=0.0, temperature=1.0)

    def _described(self) -> str:
        return "identity: the model's own probabilities"


@final
@dataclass(frozen=True)
class PosteriorRecovery(Calibrator):
    r"""Posterior recovery :math:`\Psi_\gamma(\operatorname{softmax}(z))` with the training gamma.

    The effects of class weights, of smoothed labels and of other class frequencies where the
    model is used are undone as well; see `focalibrate.theory.recover_log_posterior`. For a sigmoid
    focal loss with ``alpha``, two classes: ``class_weight=(1 - alpha, alpha)``. For another loss,
    ``loss=loss_form(name, ...)`` in place of `gamma`; losses of single labels take two classes.

    Example:
        >>> import numpy as np
        >>> from focalibrate.theory import loss_form
        >>> other = PosteriorRecovery(loss=loss_form("poly_focal", gamma=2.0, epsilon=1.0))
        >>> other.probs(np.log([[0.7, 0.2, 0.1]])).round(4)
        array([[0.8918, 0.071 , 0.0372]])
        >>> PosteriorRecovery(gamma=2.0).probs(np.log([[0.7, 0.2, 0.1]])).round(4)
        array([[0.9197, 0.0546, 0.0257]])
        >>> weighted = PosteriorRecovery(gamma=2.0, class_weight=(0.75, 0.25))
        >>> weighted.probs(np.array([[-1.0]])).round(4)
        array([[0.8296, 0.1704]])

    References:
        Charoenphakdee et al. (2021), Thm. 11.
    """

    gamma: float | None = None
    class_weight: tuple[float, ...] | None = None
    """Weights of the training loss, or rates at which classes were sampled, one per class."""
    label_smoothing: float = 0.0
    """Share of each target that was spread over all classes."""
    prior: tuple[float, ...] | None = None
    """Class frequencies of the training data."""
    target_prior: tuple[float, ...] | None = None
    """Class frequencies where the model is used."""
    loss: LossForm | None = None
    """The training loss, where it was not the focal loss."""
    kind: ClassVar[str] = "posterior_recovery"

    @property
    def keeps_argmax(self) -> bool:  # type: ignore[override]
        """Whether the predicted class never changes: not if classes are weighted."""
        is_even = self.loss is None or self.loss.keeps_argmax
        return is_even and self.class_weight is None and self.target_prior is None

    def _check(self) -> None:
        if (self.gamma is None) == (self.loss is None):
            raise ValueError("Pass either `gamma`, of a focal loss, or `loss`, another one.")
        if self.loss is not None and not isinstance(self.loss, LossForm):
            raise ValueError(
                "`loss` must be what `focalibrate.theory.loss_form(name, ...)` returns, got "
                f"{self.loss!r}. A function of your own goes to `theory.recover_posterior`."
            )
        if self.gamma is not None:
            check_gamma(self.gamma, minimum=-1.0)
        if not self._is_binary:
            self._log_probs(np.zeros((1, self._own_classes() or 2)))
        elif any(self._conditions().values()):
            raise ValueError(f"The loss {self.loss} is of single labels: it has no class weights.")

    @property
    def _is_binary(self) -> bool:
        return self.loss is not None and self.loss.head == "sigmoid"

    def _own_classes(self) -> int | None:
        if self._is_binary:
            return 2
        own = self.loss.parameters if self.loss is not None else {}
        for values in (own.get("counts"), own.get("frequencies")):
            if values is not None:
                return len(values)
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
        parameters = super()._parameters()
        if self.loss is not None:
            parameters["loss"] = {"name": self.loss.name, **self.loss.parameters}
        return parameters

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        given = super()._from_parameters(parameters).get("loss")
        if given is None:
            return parameters
        check_keys(given, ("name",), what=f"loss of {cls.kind!r}", optional=tuple(given))
        if not isinstance(given["name"], str):
            raise ValueError(f"The name of a loss must be text, got {given['name']!r:.80}.")
        settings = {
            name: value and frozen_numbers(value, name, depth=int(isinstance(value, list)))
            for name, value in given.items()
            if name != "name"
        }
        return parameters | {"loss": loss_form(given["name"], **settings)}

    def _log_probs(self, x: Array) -> Array:
        if self.loss is None:
            return recover_log_posterior(x, self.gamma, **self._conditions())
        if not self._is_binary:
            return recover_log_posterior(x, loss=self.loss, **self._conditions())
        xp = namespace(x)
        z = xp.astype(x, working_dtype(x))
        log_odds = self.loss.recovered(z[..., 1] - z[..., 0])
        # Below the margin of a loss every posterior of class 1 is excluded; see `n_clipped`.
        lowest = xp.full_like(log_odds, -xp.inf)
        log_odds = xp.where(log_odds == log_odds, log_odds, lowest)  # nan differs from itself
        both = xp.stack([log_sigmoid(-log_odds), log_sigmoid(log_odds)], axis=-1)
        return xp.astype(both, x.dtype)

    def n_clipped(self, logits: Any = None, *, probs: Any = None) -> int:
        """Return how many rows have an entry that is 0 because no posterior explains it.

        These are entries below what label smoothing allows, or rows below the margin of an
        asymmetric loss. A model at the minimum of its loss has none.

        Args:
            logits: ``[N, K]``, as `log_probs` takes them.
            probs: probabilities instead.
        """
        if self._is_binary:
            low = np.exp(to_numpy(self.log_probs(logits, probs=probs))).min(axis=-1)
            return int((low == 0).sum())
        if not self.label_smoothing:
            return 0
        before = replace(self, label_smoothing=0.0, prior=None, target_prior=None)
        found = is_outside_smoothing(before.log_probs(logits, probs=probs), self.label_smoothing)
        return int(to_numpy(found).sum())

    def __repr__(self) -> str:
        parameters = self._parameters()
        if self.loss is not None:
            settings = "".join(f", {k}={v!r}" for k, v in self.loss.parameters.items())
            parameters["loss"] = f"loss_form({self.loss.name!r}{settings})"
        given = ", ".join(f"{name}={value}" for name, value in parameters.items())
        return f"PosteriorRecovery({given})"

    def _described(self) -> str:
        trained = f"gamma={self.gamma:g}" if self.loss is None else f"loss {self.loss}"
        words = [f"posterior recovery: {trained}"]
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

    def _described(self) -> str:
        return f"temperature scaling: T={self.temperature:.4g}"


@final
@dataclass(frozen=True)
class FocalTemperatureScaling(Calibrator):
    r"""Focal temperature scaling :math:`\Psi_\gamma(\operatorname{softmax}(z/T))`.

    Both parameters are fitted on validation data; gamma need not be the training one. Or gamma is
    that of training and T that of the least focal loss (``method="focal_loss_temperature"``): the
    focal loss is not proper, and only :math:`\Psi_\gamma` turns its scores into probabilities.

    Example:
        >>> import numpy as np
        >>> fts = FocalTemperatureScaling(gamma=1.0, temperature=1.5)
        >>> fts.probs(np.log([[0.7, 0.2, 0.1]])).round(4)
        array([[0.6831, 0.197 , 0.1198]])

    References:
        Komisarenko & Kull (2024), *Improving Calibration by Relating Focal Loss, Temperature
        Scaling, and Properness*; Charoenphakdee et al. (2021), Sec. 6.
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

    def _described(self) -> str:
        return f"focal temperature scaling: gamma={self.gamma:.4g}, T={self.temperature:.4g}"


def recovered(logits: Array, *, gamma: float, temperature: float) -> Array:
    r"""Return :math:`\log\Psi_\gamma(\operatorname{softmax}(z/T))`, in the dtype of the logits."""
    xp = namespace(logits)
    x = xp.astype(logits, working_dtype(logits))  # a half-precision z / T may overflow
    if temperature != 1.0:
        # Gaps first: a large quotient would round them away.
        x = (x - stop_gradient(xp.max(x, axis=-1, keepdims=True))) / temperature
    scores = log_softmax(x) if gamma == 0 else recover_log_posterior(x, gamma)
    return xp.astype(scores, logits.dtype)
