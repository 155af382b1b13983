r"""The log loss of :math:`\Psi_\gamma(\operatorname{softmax}(z/T))` with its derivatives, by row.

In :math:`\gamma` and :math:`u = \log T`. With :math:`e_k = v_k/v_1`,
:math:`F = \log\varphi_\gamma` and the odds against the top class
:math:`O = e^{F_1}\sum_{k\ne1} w_k e_k e^{-F_k}`,

.. math:: \ell = \log(1 + O) - \log e_y + F_y - F_1 .

Where the differences of a grid would take nine looks at the rows, this takes one.
"""

from typing import NamedTuple

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate._engine.blocks import Workers, Workspace
from focalibrate.calibrate._engine.recovery import IMPOSSIBLE, NEAR_LIMIT, SMALLEST_SUM
from focalibrate.calibrate.compressed import CompressedLogits

LEAST_GAMMA = NEAR_LIMIT
r"""Below it :math:`1 + \gamma r` cancels."""
BLOCK_ENTRIES = 1 << 15
"""Probabilities worked on at once: arrays of 256 kB, which stay in cache."""


class RowDerivatives(NamedTuple):
    r"""Something of each row ``[n]``, and its derivatives in :math:`\gamma` and :math:`u`."""

    value: Floats
    by_g: Floats
    by_u: Floats
    by_gg: Floats
    by_gu: Floats
    by_uu: Floats


def loss_derivatives(
    rows: CompressedLogits, gamma: float, temperature: float, workers: Workers
) -> Floats | None:
    """Return the log loss of each row and its five derivatives, ``[6, N]``.

    None where a row is so certain that the sum over its other classes underflows, or gamma is
    less than `LEAST_GAMMA`.
    """
    n, width = rows.atoms.shape
    if gamma < LEAST_GAMMA:
        return None
    found = np.empty((6, n))
    step = max(1, BLOCK_ENTRIES // width)
    # A thread takes several blocks at once: handing over costs as much as a block.
    stride = max(step, -(-n // (8 * workers.n_threads)))

    def fill(start: int, space: Workspace) -> bool:
        for i in range(start, min(start + stride, n), step):
            part = slice(i, min(i + step, start + stride, n))
            loss = _losses(rows.take(part), gamma, temperature)
            if loss is None:
                return False
            found[:, part] = loss
        return True

    return found if all([*workers.map(fill, range(0, n, stride))]) else None


def _losses(rows: CompressedLogits, gamma: float, temperature: float) -> RowDerivatives | None:
    at_top = (np.arange(len(rows.top)), rows.top)
    gap = rows.atoms[at_top].astype(np.float64)[:, None] - rows.atoms  # -log e, T apart
    np.minimum(gap, IMPOSSIBLE, out=gap)
    gap *= 1.0 / temperature
    e = np.exp(-gap)
    e[at_top] = 0.0
    mass = e
    if rows.weights is not None:
        mass = e.copy()
        mass[:, -rows.weights.shape[1] :] *= rows.weights
    total = mass.sum(axis=-1)
    if not (total > SMALLEST_SUM).all():
        return None
    rivals = _Rivals.of(mass, gap, total)
    top = _top(rivals, gamma)
    against = _plus(top, _minors(rivals, gap, e, mass, gamma))
    loss = _log1p_exp(against)
    label = _label(rivals, rows.true_gap.astype(np.float64) / temperature, gamma)
    is_minor = rows.true_gap > 0
    return RowDerivatives(
        *(a + np.where(is_minor, b - c, 0.0) for a, b, c in zip(loss, label, top, strict=True))
    )


class _Rivals(NamedTuple):
    r"""Sums over the classes below the top one, ``[n]``."""

    total: Floats
    r""":math:`S = \sum w_k e_k`"""
    log1p: Floats
    r""":math:`\log(1 + S)`"""
    mean: Floats
    r"""derivative of :math:`\log S` in u: the mean gap"""
    bend: Floats
    r"""its second derivative"""

    @classmethod
    def of(cls, mass: Floats, gap: Floats, total: Floats) -> "_Rivals":
        moment = mass * gap
        mean = moment.sum(axis=-1) / total
        square = np.vecdot(moment, gap) / total
        return cls(total, np.log1p(total), mean, square - mean - mean**2)

    @property
    def slopes(self) -> tuple[Floats, Floats]:
        r"""First and second derivative of :math:`\log(1 + S)` in u."""
        share = self.total / (1.0 + self.total)
        first = share * self.mean
        return first, share * (self.bend + self.mean**2) - first**2


def _plus(a: RowDerivatives, b: RowDerivatives) -> RowDerivatives:
    return RowDerivatives(*(x + y for x, y in zip(a, b, strict=True)))


def _log1p_exp(a: RowDerivatives) -> RowDerivatives:
    odds = np.exp(np.minimum(a.value, 700.0))
    p = odds / (1.0 + odds)
    q = p * (1.0 - p)
    return RowDerivatives(
        np.log1p(odds),
        p * a.by_g,
        p * a.by_u,
        p * a.by_gg + q * a.by_g**2,
        p * a.by_gu + q * a.by_g * a.by_u,
        p * a.by_uu + q * a.by_u**2,
    )


def _top(rivals: _Rivals, gamma: float) -> RowDerivatives:
    r"""Return :math:`F_1` through :math:`s = \log S`, with :math:`r = \log(1+S)/S`."""
    total, mean, bend = rivals.total, rivals.mean, rivals.bend
    v = 1.0 / (1.0 + total)
    log_rest = np.log(total) - rivals.log1p
    r = rivals.log1p / total
    r_s = v - r
    r_ss = -total * v * v - r_s
    inverse = 1.0 / (1.0 + gamma * r)
    turn = gamma * r_s * inverse
    by_s = gamma * v + turn
    by_ss = gamma * (r_ss * inverse - total * v * v) - turn**2
    by_gs = v + r_s * inverse**2
    return RowDerivatives(
        gamma * log_rest - np.log(inverse),
        log_rest + r * inverse,
        by_s * mean,
        -((r * inverse) ** 2),
        by_gs * mean,
        by_ss * mean**2 + by_s * bend,
    )


class _Factor(NamedTuple):
    r""":math:`F` of classes with :math:`v \le 1/2`, in :math:`x = \log v` and :math:`\gamma`."""

    log_rest: Floats
    inverse: Floats
    r""":math:`1/(1 + \gamma r)`, so that :math:`F = \gamma\log(1-v) - \log` of it"""
    by_g: Floats
    by_gg: Floats
    by_x: Floats
    by_gx: Floats
    by_xx: Floats

    @classmethod
    def of(cls, x: Floats, h: Floats, gamma: float) -> "_Factor":
        r"""From :math:`h = v/(1-v)`; :math:`r = -xh`."""
        log_rest = -np.log1p(h)
        more = 1.0 + h
        r = -x * h
        r_x = r * more - h
        r_xx = more * (r_x + (r - 1.0) * h)
        inverse = 1.0 / (1.0 + gamma * r)
        ratio, turn = r * inverse, r_x * inverse
        return cls(
            log_rest,
            inverse,
            log_rest + ratio,
            -ratio * ratio,
            gamma * (turn - h),
            turn * inverse - h,
            gamma * (r_xx * inverse - h * more) - (gamma * turn) ** 2,
        )


def _label(rivals: _Rivals, gap: Floats, gamma: float) -> RowDerivatives:
    r"""Return :math:`-\log e_y + F_y` of a label below the top."""
    slope, bend = rivals.slopes
    x = -np.maximum(gap, 0.0) - rivals.log1p
    v = np.minimum(np.exp(x), 0.5)
    f = _Factor.of(x, v / (1.0 - v), gamma)
    x_u, x_uu = gap - slope, -gap - bend
    return RowDerivatives(
        gap + gamma * f.log_rest - np.log(f.inverse),
        f.by_g,
        f.by_x * x_u - gap,
        f.by_gg,
        f.by_gx * x_u,
        f.by_xx * x_u**2 + f.by_x * x_uu + gap,
    )


def _minors(rivals: _Rivals, gap: Floats, e: Floats, mass: Floats, gamma: float) -> RowDerivatives:
    r"""Return :math:`\log\sum w_k e^{a_k}` over the classes below the top, a = log e - F."""
    slope, bend = (part[:, None] for part in rivals.slopes)
    f = _Factor.of(-gap - rivals.log1p[:, None], e / ((1.0 + rivals.total)[:, None] - e), gamma)
    share = np.exp(-gamma * f.log_rest)
    share *= f.inverse
    share *= mass
    sums = share.sum(axis=-1)
    share /= sums[:, None]
    x_u = gap - slope
    a_u = gap - f.by_x * x_u
    g, u = -np.vecdot(share, f.by_g), np.vecdot(share, a_u)
    gg = np.vecdot(share, f.by_g**2 - f.by_gg)
    gu = -np.vecdot(share, f.by_gx * x_u + f.by_g * a_u)
    a_uu = f.by_x * (gap + bend) - f.by_xx * x_u**2 - gap
    uu = np.vecdot(share, a_u**2 + a_uu)
    return RowDerivatives(np.log(sums), g, u, gg - g * g, gu - g * u, uu - u * u)
