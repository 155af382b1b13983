r"""Confidence and log loss of :math:`\Psi_\gamma(\operatorname{softmax}(z/T))`, row by row.

The kernels under every fit. They work on gaps :math:`d_k = z_{\max} - z_k` with weights, so
that one atom may represent many classes, and share all that does not depend on gamma.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate._engine.blocks import Workspace
from focalibrate.theory.factor import log_phi, log_phi_minor

IMPOSSIBLE = 1e30
"""The gap of a class at -inf: finite, so that 0 probability times the gap is 0, not nan."""
NEAR_LIMIT = -0.9
"""Below this gamma the factor of the top class needs the series of `theory.factor.log_phi`."""
SMALLEST_SUM = 1e-290
"""Below it a sum of exponentials is taken again, in logarithms."""
SINGLE_REACH = 75.0
"""In float32 a larger gap, over T, counts as this: numbers near exp(-88) take a slow path of the
processor. It leaves confidences as they are to 1e-14 for gammas of at least -0.5."""


@dataclass(frozen=True, eq=False)
class TemperedRows:
    r"""Rows at one temperature: what :math:`\Psi_\gamma` of them needs, for several gammas.

    .. math:: \frac{1 - \Psi_1}{\Psi_1} = \varphi_\gamma(v_1) M_\gamma, \qquad
              M_\gamma = \sum_{k\ne1} w_k \frac{e_k}{\varphi_\gamma(v_k)}, \qquad
              e_k = \frac{v_k}{v_1}, \quad v = \operatorname{softmax}(z/T)
    """

    log_rivals: Floats
    r""":math:`\log S`, :math:`S = \sum_{k\ne1} w_k e_k = (1-v_1)/v_1`, shape ``[N]``."""
    minors: Floats
    r""":math:`M_\gamma` for each of the gammas, shape ``[G, N]``."""

    def odds_against(self, index: int, gamma: float) -> Floats:
        r"""Return :math:`(1-\Psi_1)/\Psi_1` for the gamma at `index`, shape ``[N]``."""
        minors: Floats = self.minors[index]
        if gamma == 0:
            return minors
        # The cap matters for gamma < 0 where the sum underflowed: 0, not inf times 0.
        factor: Floats = np.exp(np.minimum(self.top_log_phi(gamma), 700.0))
        return factor * minors

    @cached_property
    def log_total(self) -> Floats:
        r""":math:`-\log v_1`."""
        total: Floats = np.logaddexp(0.0, self.log_rivals)
        return total

    @cached_property
    def top_r(self) -> Floats:
        r""":math:`r(v_1) = \log(1+S)/S`, which needs no series."""
        rivals = np.exp(np.maximum(self.log_rivals, -600.0))
        r: Floats = np.log1p(rivals) / rivals
        return r

    def top_log_phi(self, gamma: float) -> Floats:
        r"""Return :math:`\log\varphi_\gamma(v_1)`, shape ``[N]``."""
        log_rest = self.log_rivals - self.log_total
        if gamma < NEAR_LIMIT:  # 1 + gamma r cancels
            phi: Floats = log_phi(-self.log_total, log_rest, np.asarray(gamma))
            return phi
        return gamma * log_rest + np.log1p(gamma * self.top_r)

    def confidence(self, index: int, gamma: float) -> Floats:
        r"""Return :math:`\Psi_1`, shape ``[N]``."""
        total = 1.0 + self.odds_against(index, gamma)
        return np.divide(1.0, total, out=total)

    def log_loss(self, index: int, gamma: float, log_odds_true: Floats) -> Floats:
        r"""Return :math:`-\log\Psi_y`, shape ``[N]``, from :math:`\log(v_y/v_1)`."""
        loss: Floats = np.log1p(self.odds_against(index, gamma)) - log_odds_true
        if gamma == 0:
            return loss
        is_minor = log_odds_true < 0  # else the label is the top class, or ties with it
        log_v = log_odds_true - self.log_total
        log_v = np.where(is_minor, log_v, -1.0)
        minor = log_phi_minor(log_v, np.log1p(-np.exp(log_v)), np.asarray(gamma))
        loss += np.where(is_minor, minor - self.top_log_phi(gamma), 0.0)
        return loss


def temper(
    atoms: NDArray[Any],
    top: NDArray[np.int32],
    weights: NDArray[np.float32] | None,
    *,
    temperature: float,
    gammas: Sequence[float],
    space: Workspace,
    dtype: Any = np.float64,
) -> tuple[Floats, Floats]:
    r"""Return one block's :math:`\log S`, shape ``[n]``, and :math:`M_\gamma`, ``[G, n]``.

    Args:
        atoms: logits of the atoms, ``[n, A]``; -inf allowed.
        top: column of each row's top class, whose weight is 1.
        weights: weights of the last atoms, or None where each atom is one class.
        temperature: ``> 0``.
        gammas: exponents ``>= -1``.
        space: buffers.
        dtype: to work in; float32 keeps confidences to about 1e-6, for gammas of at least -0.5.
    """
    n, width = atoms.shape
    names = ("log_e", "e", "weighted")
    log_e, e, weighted = (space.array(name, (n, width), dtype) for name in names)
    at_top = (np.arange(n), top)
    np.subtract(atoms, atoms[at_top].astype(dtype)[:, None], out=log_e)
    is_single = dtype is np.float32
    np.maximum(log_e, -SINGLE_REACH * temperature if is_single else -IMPOSSIBLE, out=log_e)
    log_e *= dtype(1.0 / temperature)
    np.exp(log_e, out=e)
    e[at_top] = 0.0
    if weights is None:
        weighted = e
    else:
        n_exact = width - weights.shape[1]
        weighted[:, :n_exact] = e[:, :n_exact]
        np.multiply(e[:, n_exact:], weights, out=weighted[:, n_exact:])
    # Not a matrix product: BLAS would start threads of its own for it, inside ours.
    rivals = np.vecdot(weighted, np.ones(width, dtype=dtype))
    minors = np.empty((len(gammas), n), dtype=dtype)
    if any(gammas):
        _minor_sums(minors, rivals, gammas, (log_e, e, weighted), space)
    for row, gamma in zip(minors, gammas, strict=True):
        if gamma == 0:
            row[:] = rivals
    return _log_sum(rivals, log_e, at_top, weights), minors


def _minor_sums(
    minors: NDArray[Any],
    rivals: NDArray[Any],
    gammas: Sequence[float],
    rows: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    space: Workspace,
) -> None:
    r"""Fill in :math:`M_\gamma`, with :math:`1/\varphi(v) = (1-v)^{-\gamma}/(1+\gamma r(v))`.

    No rival exceeds one half, so :math:`1-v` loses no digits.
    """
    log_e, e, weighted = rows
    names = ("v", "r", "share", "gain")
    v, r, share, gain = (space.array(name, e.shape, e.dtype) for name in names)
    np.multiply(e, (1.0 / (1.0 + rivals))[:, None], out=v)
    np.subtract(log_e, np.log1p(rivals)[:, None], out=r)
    r *= v
    np.subtract(v, 1.0, out=share)
    r /= share
    np.negative(v, out=v)
    log_rest = np.log1p(v, out=v)
    for row, gamma in zip(minors, gammas, strict=True):
        if gamma != 0:
            np.multiply(log_rest, -gamma, out=share)
            np.exp(share, out=share)
            np.multiply(r, gamma, out=gain)
            gain += 1.0
            share /= gain
            np.vecdot(share, weighted, out=row)


def _log_sum(
    rivals: NDArray[Any],
    log_e: NDArray[Any],
    at_top: tuple[NDArray[Any], NDArray[Any]],
    weights: NDArray[np.float32] | None,
) -> Floats:
    """Return the logarithm of `rivals`, also where it underflowed."""
    is_lost = rivals < SMALLEST_SUM
    log_rivals = np.log(np.where(is_lost, 1.0, rivals)).astype(np.float64)
    if not is_lost.any():
        return log_rivals
    exponents = log_e[is_lost].astype(np.float64)
    if weights is not None:
        share = np.maximum(weights[is_lost].astype(np.float64), 1e-300)
        exponents[:, -weights.shape[1] :] += np.log(share)
    exponents[np.arange(len(exponents)), at_top[1][is_lost]] = -IMPOSSIBLE * 1e30
    most = exponents.max(axis=-1)
    log_rivals[is_lost] = most + np.log(np.exp(exponents - most[:, None]).sum(axis=-1))
    return log_rivals
