"""AdaFocal: exponents that follow the calibration of validation bins."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from focalibrate._array import Array, like, namespace, stop_gradient
from focalibrate._check import check_n_bins, check_positive
from focalibrate.metrics.cells import Cells
from focalibrate.metrics.rows import read_outcomes
from focalibrate.theory.focal import focal_term

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
