"""Policies for the focusing exponent: by sample, by epoch, by validation, or by name."""

import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from focalibrate._array import Array, is_array_api_obj, like, namespace, stop_gradient
from focalibrate._check import check_gamma, check_n_bins, check_positive
from focalibrate.metrics.cells import Cells
from focalibrate.metrics.rows import read_outcomes
from focalibrate.theory.factor import focal_term

CROSSING = 0.2
"""Size below which an exponent changes its sign."""
LEAST, GREATEST = -2.0, 20.0


class SignedSteps(NamedTuple):
    """A signed exponent for each example, looked up from its true-class probability.

    Bin ``b`` is ``(cuts[b-1], cuts[b]]``, the first from 0 and the last to 1. No derivative
    flows through the choice.
    """

    cuts: Array | tuple[float, ...]
    """inner bin edges, rising, ``[B - 1]``; an array must be of the library of `p`"""
    gammas: Array | tuple[float, ...]
    """exponent of each bin, ``[B]``"""

    def __call__(self, p: Array) -> Array:
        """Return the exponent of each probability of the true class, in the dtype of `p`."""
        xp = namespace(p)
        p = stop_gradient(p)
        cuts, gammas = (like(x, p, dtype=p.dtype) for x in self)
        flat = xp.reshape(p, (-1,))
        return xp.reshape(xp.take(gammas, xp.searchsorted(cuts, flat, side="left")), p.shape)


@dataclass(frozen=True)
class AdaFocal:
    r"""A policy by sample whose exponents follow the gaps of equal-mass validation bins.

    .. math:: \ell(p) = \begin{cases} -(1-p)^{\gamma_b}\log p & \gamma_b > 0 \\
              -(1+p)^{|\gamma_b|}\log p & \gamma_b < 0 \end{cases}

    with :math:`b` the bin that the true-class probability :math:`p` falls in. Every exponent is
    1 at first. After each epoch :math:`\gamma_b \leftarrow \gamma_b\,e^{\pm\lambda g_b}`, where
    :math:`g_b` is the mean confidence minus the accuracy of bin :math:`b` of the validation
    examples and the sign is that of :math:`\gamma_b`: it rises where the model is overconfident.
    An exponent of size below 0.2 crosses to the other sign at 0.2; all stay in [-2, 20].

    The policy is a value: `updated` returns the next one. `focalibrate.nn.FocalLoss` holds one
    and updates it by its own `update`; `focalibrate.losses.focal_loss` takes one as `gamma`.

    Attributes:
        n_bins: number of bins ``B``.
        rate: :math:`\lambda`.
        cuts: inner edges of the latest validation bins, ``B - 1``; left out, evenly spaced.
        gammas: exponent of each bin, ``B``; left out, all 1.

    Example:
        >>> import numpy as np
        >>> policy = AdaFocal(n_bins=2).updated(
        ...     np.array([0.6, 0.7, 0.9, 1.0]), np.array([1, 1, 0, 1])
        ... )
        >>> policy.cuts, [round(gamma, 4) for gamma in policy.gammas]
        ((0.7,), [0.7047, 1.5683])
        >>> policy(np.array([0.3, 0.8])).round(4)
        array([0.7047, 1.5683])

    References:
        Ghosh, Schaaf, Gormley (2022), *AdaFocal: Calibration-aware Adaptive Focal Loss*.
    """

    n_bins: int = 15
    rate: float = 1.0
    cuts: tuple[float, ...] = ()
    gammas: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_n_bins(self.n_bins)
        check_positive(self.rate, name="rate")
        even = (b / self.n_bins for b in range(1, self.n_bins))
        cuts, gammas = tuple(self.cuts or even), tuple(self.gammas or (1.0,) * self.n_bins)
        object.__setattr__(self, "cuts", cuts)
        object.__setattr__(self, "gammas", gammas)
        if (len(cuts), len(gammas)) != (self.n_bins - 1, self.n_bins):
            raise ValueError(
                f"`cuts` and `gammas` must have {self.n_bins - 1} and {self.n_bins} entries for "
                f"`n_bins` = {self.n_bins}, got {len(cuts)} and {len(gammas)}."
            )
        if not all(LEAST <= gamma <= GREATEST for gamma in gammas):
            raise ValueError(f"`gammas` must lie in [{LEAST:g}, {GREATEST:g}], got {gammas}.")
        if not all(a <= b for a, b in pairwise((0.0, *cuts, 1.0))):
            raise ValueError(f"`cuts` must rise within [0, 1] without falling, got {cuts}.")

    def __call__(self, p: Array) -> Array:
        """Return the exponent of each probability of the true class, in the dtype of `p`."""
        return SignedSteps(self.cuts, self.gammas)(p)

    def updated(self, confidence: Array, correct: Array) -> Self:
        """Return the policy after an epoch.

        Args:
            confidence: largest probability of each validation example, ``[N]``, ``N >= n_bins``.
            correct: whether that class was the label: 0, 1 or booleans, ``[N]``.
        """
        values, hits = read_outcomes(confidence, correct)
        return self.updated_from(Cells.of_distinct(values, hits.astype(np.bool_)))

    def updated_from(self, cells: Cells) -> Self:
        """Return the policy after an epoch, from a table of fine cells.

        Args:
            cells: a table whose bins are much finer than `n_bins`, such as
                ``Cells.of_top_label(..., bins=log_odds_edges())`` or the `cells` of a
                `focalibrate.nn.CalibrationMonitor`; see `Cells.equal_mass`.
        """
        if cells.n < self.n_bins:
            raise ValueError(
                f"validation examples must be at least `n_bins` = {self.n_bins}, one in each "
                f"bin, got {cells.n}. Pass more of them or use fewer bins."
            )
        table = cells.equal_mass(self.n_bins)
        pairs = zip(self.gammas, table.gap.tolist(), strict=True)
        return replace(
            self,
            cuts=tuple(table.edges[1:-1].tolist()),
            gammas=tuple(next_exponent(gamma, gap, rate=self.rate) for gamma, gap in pairs),
        )


def next_exponent(gamma: float, gap: float, *, rate: float = 1.0) -> float:
    r"""Return the exponent of a bin after an epoch; `gap` is confidence − accuracy.

    :math:`\gamma e^{\pm\lambda g}`, the sign that of :math:`\gamma`; then across zero if its
    size is below 0.2, to 0.2 of the other sign; then into [-2, 20].

    Example:
        >>> next_exponent(1.0, 0.0), next_exponent(0.2, -0.1), next_exponent(-0.2, 0.1)
        (1.0, -0.2, 0.2)
    """
    sign = math.copysign(1.0, gamma)
    moved = gamma * math.exp(min(sign * rate * gap, 700.0))  # `exp` overflows at 710
    if abs(moved) < CROSSING:
        moved = -sign * CROSSING
    return min(max(moved, LEAST), GREATEST)


def signed_focal_term(log_p: Array, log_rest: Array, gamma: Array) -> Array:
    r"""Return the loss for exponents of both signs, given :math:`\log p` and :math:`\log(1-p)`.

    :math:`-(1-p)^\gamma\log p` where :math:`\gamma\ge0`, else :math:`-(1+p)^{|\gamma|}\log p`.
    """
    xp = namespace(log_p)
    zero = xp.zeros_like(log_rest)
    is_negative = gamma < 0
    # Either branch must be finite where the other is taken: its derivative is multiplied by 0.
    focal = focal_term(log_p, log_rest, xp.where(is_negative, zero, gamma))
    power = xp.exp(xp.where(is_negative, -gamma, zero) * xp.log1p(xp.exp(log_p)))
    return xp.where(is_negative, power, xp.ones_like(power)) * focal


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
