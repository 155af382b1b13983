"""Pool: a log-linear mixture of several calibrators."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

from focalibrate._array import Array, namespace, working_dtype
from focalibrate._stable import log_softmax
from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._document import check_keys, frozen_numbers
from focalibrate.calibrate._settings import check_numbers


@final
@dataclass(frozen=True)
class Pool(Calibrator):
    r"""Log-linear pool :math:`\operatorname{softmax}(\sum_m w_m \log p_m)`, mixed with uniform.

    The result is :math:`(1-\varepsilon)` of the pool plus :math:`\varepsilon/K`, so that no
    possible class gets probability 0.
    """

    members: tuple[Calibrator, ...]
    weights: tuple[float, ...]
    """Weights of the members, > 0; they need not sum to 1."""
    mix: float
    r""":math:`\varepsilon`."""
    kind: ClassVar[str] = "pool"
    keeps_argmax: ClassVar[bool] = False

    def _check(self) -> None:
        check_numbers(self.weights, name="weights")
        if not self.members or len(self.members) != len(self.weights) or min(self.weights) <= 0:
            raise ValueError(
                "`members` must be at least one calibrator with a weight > 0 each, got "
                f"{len(self.members)} and weights {self.weights!r:.80}."
            )
        if any(isinstance(member, Pool) for member in self.members):
            raise ValueError("`members` must not be pools themselves.")
        if not 0 <= self.mix < 1:
            raise ValueError(f"`mix` must lie in [0, 1), got {self.mix!r}.")

    def _own_classes(self) -> int | None:
        return next((m.n_classes for m in self.members if m.n_classes is not None), None)

    def _log_probs(self, x: Array) -> Array:
        xp = namespace(x)
        z = xp.astype(x, working_dtype(x))
        is_possible = xp.isfinite(z)
        total = xp.zeros_like(z)
        for weight, member in zip(self.weights, self.members, strict=True):
            part = member._log_probs(z)
            # 0 times -inf is nan, in a derivative if not here
            total = total + weight * xp.where(is_possible, part, xp.zeros_like(part))
        pooled = log_softmax(xp.where(is_possible, total, xp.full_like(total, -xp.inf)))
        if self.mix:
            count = xp.sum(xp.astype(is_possible, z.dtype), axis=-1, keepdims=True)
            mixed = xp.log((1.0 - self.mix) * xp.exp(pooled) + self.mix / count)
            pooled = xp.where(is_possible, mixed, xp.full_like(mixed, -xp.inf))
        return xp.astype(pooled, x.dtype)

    def _parameters(self) -> dict[str, Any]:
        return {
            "members": [member.to_dict() for member in self.members],
            "weights": self.weights,
            "mix": self.mix,
        }

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        check_keys(parameters, ("members", "weights", "mix"), what="parameters of 'pool'")
        members = parameters["members"]
        if not isinstance(members, (list, tuple)):
            raise ValueError(f"`members` must be a list, got {type(members).__name__}.")
        for member in members:
            if isinstance(member, dict) and member.get("kind") == cls.kind:
                raise ValueError("`members` must not be pools themselves.")
        return {
            "members": tuple(Calibrator.from_dict(member) for member in members),
            "weights": frozen_numbers(parameters["weights"], "weights"),
            "mix": frozen_numbers(parameters["mix"], "mix"),
        }

    def describe(self) -> str:
        """Return a one-line description."""
        parts = ", ".join(
            f"{w:.3g} {m.kind}" for w, m in zip(self.weights, self.members, strict=True)
        )
        return f"pool: {parts}"
