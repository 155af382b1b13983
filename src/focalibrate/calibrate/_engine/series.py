r"""Sums over classes of very many: those of small probability together, by a series."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats

FocalMap = tuple[float, float]
"""Gamma and temperature of :math:`\\Psi_\\gamma(\\operatorname{softmax}(z/T))`."""

LARGE = 4e-4
r"""Classes of at least this probability, over gamma, are worked on one by one. The others have
:math:`1/\varphi_\gamma` by its series up to the second power: what is left out is about 3e-8 of
their share."""


def powers(t: NDArray[Any], gamma: float) -> Floats:
    r"""Return what a class adds to the sums of the series, ``[2, ...]`` or ``[6, ...]``.

    For gamma = 0: :math:`e` and :math:`e^2`, with :math:`e = e^t` and :math:`t = -\text{gap}/T`.
    Else also what the series needs. Where :math:`e = 0` all are 0.
    """
    e = np.exp(t)
    if gamma == 0:
        return np.stack([e, e**2])
    t = np.where(e > 0, t, 0.0)
    return np.stack([e, e**2, e**2 * t, e**3, e**3 * t, e**3 * t**2])


def moved(sums: Floats, shift: Floats) -> Floats:
    r"""Return the sums of `powers` for :math:`t - s` from those for t.

    Args:
        sums: ``[n, 2]`` or ``[n, 6]``.
        shift: s of each row, ``[n]``.
    """
    f = np.exp(-shift)
    if sums.shape[1] == 2:
        of_two: Floats = sums * np.stack([f, f**2], axis=1)
        return of_two
    s1, s2, s2t, s3, s3t, s3tt = sums.T
    s = shift
    terms = [
        f * s1,
        f**2 * s2,
        f**2 * (s2t - s * s2),
        f**3 * s3,
        f**3 * (s3t - s * s3),
        f**3 * (s3tt - 2.0 * s * s3t + s**2 * s3),
    ]
    return np.stack(terms, axis=1)


def reach_of_large(form: FocalMap, total: Floats) -> Floats:
    """Return the gaps below which classes are large, in rows whose sums of e are `total`."""
    gamma, temperature = form
    reach: Floats = -temperature * np.log(LARGE / max(1.0, abs(gamma)) * total)
    return reach


@dataclass(frozen=True, eq=False)
class LargeClasses:
    """The classes of some rows that are taken one by one.

    Attributes:
        row: of each ``[L]``.
        gap: to the top logit of the row ``[L]``.
        count: how many classes of the row have this gap ``[L]``.
        n_rows: number of rows.
    """

    row: NDArray[np.intp]
    gap: Floats
    count: Floats
    n_rows: int

    def summed(self, values: Floats) -> Floats:
        """Return the sum of `values` over the classes of each row, ``[n]``."""
        weights = self.count * values
        return np.bincount(self.row, weights, minlength=self.n_rows).astype(np.float64, copy=False)

    def sums(self, rest: Floats, form: FocalMap) -> Floats:
        r"""Return the three sums over these classes, ``[3, n]``.

        Args:
            rest: 1 and the sum of e over all other classes ``[n]``.
            form: gamma and T.
        """
        gamma, temperature = form
        t = -self.gap / temperature
        e = np.exp(t)
        rivals = self.summed(e)
        if gamma == 0:
            return np.stack([rivals, rivals, self.summed(e * e)])
        total = (rest + rivals)[self.row]
        v, x = e / total, t - np.log(total)
        share = e * np.exp(-gamma * np.log1p(-v)) / (1.0 - gamma * x * v / (1.0 - v))
        return np.stack([rivals, self.summed(share), self.summed(share * share)])


def with_series(sums: Floats, large: Floats, gamma: float) -> tuple[Floats, Floats, Floats]:
    r"""Return the three sums over all classes, from those of `powers` ``[n, 2]`` or ``[n, 6]``.

    With :math:`v = e/(1+S)`, :math:`x = \log v`: :math:`1/\varphi_\gamma(v) = 1 + \gamma v (1+x)
    + v^2 (\tfrac{\gamma(\gamma+1)}2 + \gamma(\gamma+1) x + \gamma^2 x^2) + \dots`
    """
    rivals = sums[:, 0] + large[0]
    if gamma == 0:
        return rivals, rivals, sums[:, 1] + large[2]
    s1, s2, s2t, s3, s3t, s3tt = sums.T
    log_total, u, g = np.log1p(rivals), 1.0 / (1.0 + rivals), gamma
    first = s2 * (1.0 - log_total) + s2t
    second = (
        0.5 * g * (g + 1.0) * s3
        + g * (g + 1.0) * (s3t - log_total * s3)
        + g * g * (s3tt - 2.0 * log_total * s3t + log_total**2 * s3)
    )
    minors = s1 + g * u * first + u * u * second + large[1]
    squares = s2 + 2.0 * g * u * (s3 * (1.0 - log_total) + s3t) + large[2]
    return rivals, minors, squares
