"""Policies for the focusing exponent: by sample, by epoch, or by name."""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

from focalibrate._array import Array, is_array_api_obj, namespace, stop_gradient
from focalibrate._check import check_gamma
from focalibrate.losses.adafocal import AdaFocal, SignedSteps


def _check_steps(gammas: tuple[float, ...], cuts: tuple[Any, ...], *, name: str) -> None:
    for gamma in gammas:
        check_gamma(gamma, name="gammas")
    if len(gammas) != len(cuts) + 1:
        raise ValueError(
            f"`gammas` must have one entry more than `{name}`, got {len(gammas)} and {len(cuts)}."
        )
    if not all(a < b for a, b in pairwise(cuts)):
        raise ValueError(f"`{name}` must rise strictly, got {cuts}.")


@dataclass(frozen=True)
class BySample:
    r"""An exponent for each example, looked up from its current true-class probability.

    ``gammas[i]`` applies below ``cuts[i]``, the last one from the last cut on. An example on a
    cut belongs to the upper side, or to the lower if `right_closed`. No derivative flows
    through the choice. With `focalibrate.theory.gamma_star` of a cut as the exponent below it,
    focal loss learns faster than cross-entropy there and slower above.

    Example:
        >>> import numpy as np
        >>> BySample((0.2,), (5.0, 3.0))(np.array([0.1, 0.2, 0.9]))
        array([5., 3., 3.])
    """

    cuts: tuple[float, ...]
    gammas: tuple[float, ...]
    right_closed: bool = False

    def __post_init__(self) -> None:
        for name in ("cuts", "gammas"):
            object.__setattr__(self, name, tuple(map(float, getattr(self, name))))
        _check_steps(self.gammas, self.cuts, name="cuts")
        if not all(0.0 < cut < 1.0 for cut in self.cuts):
            raise ValueError(f"`cuts` must be probabilities in (0, 1), got {self.cuts}.")

    def __call__(self, p: Array) -> Array:
        """Return the exponent of each probability of the true class, in the dtype of `p`."""
        xp = namespace(p)
        p = stop_gradient(p)
        gamma = xp.full_like(p, self.gammas[-1])
        steps = list(zip(self.cuts, self.gammas, strict=False))
        for cut, value in reversed(steps):
            is_below = p <= cut if self.right_closed else p < cut
            gamma = xp.where(is_below, xp.full_like(p, value), gamma)
        return gamma


@dataclass(frozen=True)
class ByEpoch:
    """An exponent for each phase of a training run.

    ``gammas[i]`` applies while less than the share ``until[i]`` of the run is done. Shares are
    fractions, so that a run of any length switches where the published one does.

    Example:
        >>> policy = gamma_policy("fls-532")
        >>> [policy.at(epoch, 350) for epoch in (0, 99, 100, 249, 250)]
        [5.0, 5.0, 3.0, 3.0, 2.0]
        >>> policy.at(10, 35)
        3.0
    """

    gammas: tuple[float, ...]
    until: tuple[Fraction | float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "gammas", tuple(map(float, self.gammas)))
        object.__setattr__(self, "until", tuple(Fraction(x) for x in self.until))
        _check_steps(self.gammas, self.until, name="until")
        if not all(0 < share < 1 for share in self.until):
            raise ValueError(f"`until` must be shares of the run in (0, 1), got {self.until}.")

    def at(self, epoch: int, n_epochs: int) -> float:
        """Return the exponent for `epoch`, counted from 0, of a run of `n_epochs`."""
        if not 0 <= epoch < n_epochs:
            raise ValueError(
                f"`epoch` must lie in [0, n_epochs - 1 = {n_epochs - 1}], got {epoch}. "
                "Count epochs from 0."
            )
        for share, gamma in zip(self.until, self.gammas, strict=False):
            if epoch < share * n_epochs:
                return gamma
        return self.gammas[-1]


Gamma: TypeAlias = Any
"""A number, one number per example (array), or a policy by sample: `BySample`, `AdaFocal`."""

GammaPolicy: TypeAlias = float | BySample | ByEpoch | AdaFocal


_PUBLISHED_SHARES = (Fraction(100, 350), Fraction(250, 350))
_NAMED: dict[str, BySample | ByEpoch | AdaFocal] = {
    "flsd-53": BySample((0.2,), (5.0, 3.0)),
    "flsd-532": BySample((0.2, 0.5), (5.0, 3.0, 2.0)),
    "flsd-53-paper": BySample((0.19,), (5.0, 3.0), right_closed=True),
    "flsd-532-paper": BySample((0.19, 0.5), (5.0, 3.0, 2.0), right_closed=True),
    "fls-531": ByEpoch((5.0, 3.0, 1.0), _PUBLISHED_SHARES),
    "fls-532": ByEpoch((5.0, 3.0, 2.0), _PUBLISHED_SHARES),
    "adafocal": AdaFocal(),
}


def gamma_policy(spec: str | GammaPolicy) -> GammaPolicy:
    """Return the policy given as a number, a name or a policy.

    Names: ``flsd-53`` and ``flsd-532`` (sample-wise, cut at 0.2 as in the widely used code),
    ``flsd-53-paper`` and ``flsd-532-paper`` (cut at 0.19, right-closed, as printed),
    ``fls-531`` and ``fls-532`` (scheduled), ``adafocal`` (by the gaps of validation bins), or a
    number such as ``"2"``.

    Example:
        >>> gamma_policy("flsd-53").gammas
        (5.0, 3.0)
        >>> gamma_policy("2")
        2.0
    """
    if isinstance(spec, (BySample, ByEpoch, AdaFocal)):
        return spec
    if isinstance(spec, str):
        if spec in _NAMED:
            return _NAMED[spec]
        if not re.fullmatch(r"\d+(\.\d*)?", spec):
            raise ValueError(
                f"`gamma` must be a number or one of {', '.join(_NAMED)}, got {spec!r}. "
                "Build your own with `BySample` or `ByEpoch`."
            )
        spec = float(spec)
    check_gamma(spec)
    return float(spec)


def resolve_gamma(gamma: Gamma, p: Array) -> Any:
    """Return the exponent to use for examples of true-class probability `p`.

    Raises `ValueError` for a schedule: only the training loop knows the epoch.
    """
    if isinstance(gamma, str):
        gamma = gamma_policy(gamma)
    if isinstance(gamma, ByEpoch):
        raise ValueError(
            "`gamma` must not be a schedule here, as the loss does not know the epoch. "
            "Pass `policy.at(epoch, n_epochs)`."
        )
    if isinstance(gamma, (BySample, AdaFocal, SignedSteps)):
        return gamma(p)
    check_gamma(gamma)
    if is_array_api_obj(gamma):
        if gamma.ndim > 0 and tuple(gamma.shape) != tuple(p.shape):
            raise ValueError(
                f"`gamma` must be a number or one per example, shape {tuple(p.shape)}, got "
                f"{tuple(gamma.shape)}."
            )
        return namespace(p).astype(gamma, p.dtype)
    return float(gamma)
