"""Mixtures of probabilities: the average of calibrators, and ensemble temperature scaling."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from focalibrate._array import Array, Floats, namespace, working_dtype
from focalibrate.calibrate.calibrator import (
    Calibrator,
    check_temperature,
    read_member,
    uniform,
)
from focalibrate.calibrate.fit_temperature import lowest_temperature
from focalibrate.calibrate.optimise import Minimum, minimise_convex
from focalibrate.calibrate.rows import Rows
from focalibrate.calibrate.temperature import TemperatureScaling, recovered

LEAST_WEIGHT = 0.02
"""Members of a smaller weight are dropped."""
LEAST_LOG = -1e30
"""Stands for the logarithm of 0 in a sum of exponentials."""


@final
@dataclass(frozen=True)
class Average(Calibrator):
    r"""Weighted mean :math:`\sum_m w_m p_m` of the probabilities of its members."""

    members: tuple[Calibrator, ...]
    weights: tuple[float, ...]
    """Weights of the members, > 0, sum 1."""
    kind: ClassVar[str] = "average"
    is_table: ClassVar[bool] = True

    def _check(self) -> None:
        if not self.members or len(self.members) != len(self.weights):
            raise ValueError(
                "`members` must be at least one calibrator with a weight each, got "
                f"{len(self.members)} and weights {self.weights!r:.80}."
            )
        if min(self.weights) <= 0 or abs(sum(self.weights) - 1.0) > 1e-9:
            raise ValueError(
                f"`weights` must be numbers > 0 that sum to 1, got {self.weights!r:.80}."
            )
        if any(isinstance(member, Average) for member in self.members):
            raise ValueError("`members` must not be averages themselves.")

    def _own_classes(self) -> int | None:
        return next((m.n_classes for m in self.members if m.n_classes is not None), None)

    def _log_probs(self, x: Array) -> Array:
        xp = namespace(x)
        z = xp.astype(x, working_dtype(x))
        is_possible = xp.isfinite(z)
        parts = []
        for weight, member in zip(self.weights, self.members, strict=True):
            part = member.log_probs_of(z) + float(np.log(weight))
            # A class that is impossible, or has probability 0, would be inf - inf below.
            parts.append(xp.where(part > LEAST_LOG, part, xp.full_like(part, LEAST_LOG)))
        top = parts[0]
        for part in parts[1:]:
            top = xp.maximum(top, part)
        total = xp.zeros_like(top)
        for part in parts:
            total = total + xp.exp(part - top)
        logs = top + xp.log(total)
        found = xp.where(is_possible & (top > LEAST_LOG), logs, xp.full_like(logs, -xp.inf))
        return xp.astype(found, x.dtype)

    @classmethod
    def _from_parameters(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        members = super()._from_parameters(parameters)["members"]
        if not isinstance(members, (list, tuple)):
            raise ValueError(f"`members` must be a list, got {type(members).__name__}.")
        return parameters | {"members": tuple(read_member(member, cls) for member in members)}

    def _described(self) -> str:
        parts = zip(self.weights, self.members, strict=True)
        return "average: " + ", ".join(f"{100 * w:.0f} % {m.kind}" for w, m in parts)


def average_weights(losses: Floats, weights: Floats | None = None) -> Floats:
    r"""Return the weights of the average with the least mean log loss.

    .. math:: \min_{w \ge 0,\, \sum w = 1} -\frac1n\sum_i \log \sum_m w_m p_m(y_i)

    Weights below 0.02 are dropped and the others renormalised.

    Args:
        losses: held-out log loss of each row and member ``[N, M]``.
        weights: of the rows ``[N]``.

    Example:
        >>> average_weights(np.log([[2.0, 4.0], [2.0, 1.0], [2.0, 4.0], [2.0, 1.0]])).round(2)
        array([0.5, 0.5])
    """
    found = likeliest(np.exp(losses.min(axis=1, keepdims=True) - losses), weights).x
    found[found < LEAST_WEIGHT] = 0.0
    return np.asarray(found / found.sum())


def likeliest(true: Floats, weights: Floats | None) -> Minimum:
    r"""Return the weights :math:`w \ge 0` that mix the columns of `true` ``[N, M]`` best.

    They minimise :math:`-\frac1n\sum_i \log (q_i w) + \sum w`, which is convex and makes them sum
    to 1.
    """
    n_members = true.shape[1]
    share = np.ones(len(true)) if weights is None else weights
    share = share / share.sum()

    def objective(w: Floats) -> tuple[float, Floats, Floats]:
        mixed = true @ w
        if not (mixed > 0).all():
            return np.inf, np.zeros(n_members), np.eye(n_members)
        ratio = true / mixed[:, None]
        value = -float(share @ np.log(mixed)) + float(w.sum())
        return value, 1.0 - ratio.T @ share, (ratio * share[:, None]).T @ ratio

    found = minimise_convex(
        objective, np.full(n_members, 1.0 / n_members), lower=np.zeros(n_members)
    )
    return replace(found, x=found.x / found.x.sum())


def averaged_losses(losses: Floats, weights: Floats) -> Floats:
    """Return the log loss of each row by the average of members with `losses` ``[N, M]``."""
    least = losses.min(axis=1)
    return np.asarray(least - np.log(np.exp(least[:, None] - losses) @ weights))


def average_of(members: Sequence[Calibrator], weights: Floats) -> Calibrator:
    """Return the average of those members that have a weight; one member is itself."""
    kept = [(float(w), member) for w, member in zip(weights, members, strict=True) if w > 0]
    if len(kept) == 1:
        return kept[0][1]
    return Average(tuple(m for _, m in kept), tuple(w for w, _ in kept))


@final
@dataclass(frozen=True)
class EnsembleTemperatureScaling(Calibrator):
    r"""Mixture :math:`w_1\operatorname{softmax}(z/T) + w_2\operatorname{softmax}(z) + w_3/K`.

    An impossible class (-inf) has no share of the uniform part. The fit takes the temperature of
    least log loss, then the weights: minimising :math:`-\frac1n\sum\log(q_i w) + \sum w` over
    ``w >= 0``, which is convex, gives weights that sum to 1.

    Example:
        >>> from focalibrate.calibrate import fit
        >>> rng = np.random.default_rng(0)
        >>> truth = 2.0 * rng.standard_normal((4000, 5))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> fit(3.0 * truth, labels, method="ensemble_temperature").describe()[:37]
        'ensemble temperature scaling: T=2.957'

    References:
        Zhang, Kailkhura & Han (2020), *Mix-n-Match*, Sec. 3.2.
    """

    temperature: float
    weights: tuple[float, ...]
    """Weights of the tempered, the model's own and the uniform probabilities; sum 1."""
    kind: ClassVar[str] = "ensemble_temperature"
    keeps_argmax: ClassVar[bool] = True

    def _check(self) -> None:
        check_temperature(self.temperature)
        if len(self.weights) != 3 or min(self.weights) < 0 or abs(sum(self.weights) - 1) > 1e-9:
            raise ValueError(
                f"`weights` must be three numbers >= 0 that sum to 1, got {self.weights!r}."
            )

    def _probs(self, x: Array) -> Array:
        xp = namespace(x)
        z = xp.astype(x, working_dtype(x))
        tempered, own, even = self.weights
        mixed = tempered * xp.exp(recovered(z, gamma=0.0, temperature=self.temperature))
        mixed += own * xp.exp(recovered(z, gamma=0.0, temperature=1.0))
        return xp.astype(mixed + even * uniform(z, z.dtype), x.dtype)

    def _described(self) -> str:
        shares = ", ".join(f"{w:.3g}" for w in self.weights)
        return f"ensemble temperature scaling: T={self.temperature:.4g}, weights {shares}"


def fit_ensemble_temperature(
    rows: Rows, *, start: Calibrator | None = None
) -> EnsembleTemperatureScaling:
    """Fit `EnsembleTemperatureScaling`, from `start`, one fitted to similar rows."""
    temperature = lowest_temperature(rows, start=start).temperature
    losses = [rows.losses(TemperatureScaling(t)) for t in (temperature, 1.0)]
    uniform = 1.0 / np.isfinite(rows.logits).sum(axis=1)
    true = np.stack([*(np.exp(-loss) for loss in losses), uniform], axis=1)
    result = likeliest(true, rows.weights)
    weights = np.append(result.x[:2], max(0.0, 1.0 - result.x[:2].sum()))
    return rows.finish(
        EnsembleTemperatureScaling(temperature, tuple(weights.tolist())),
        result,
        value=-float(np.average(np.log(true @ weights), weights=rows.weights)),
    )
