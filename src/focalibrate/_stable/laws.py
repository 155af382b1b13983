"""Normal, chi-square and gamma functions that the metrics need.

They agree with `scipy.special`, which takes a quarter of a second to import: as long as all that
``focalibrate evaluate`` computes for 10,000 rows.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal law; infinite at 0 and 1."""
    from statistics import NormalDist

    if not 0.0 < probability < 1.0:
        return math.copysign(math.inf, probability - 0.5)
    return NormalDist().inv_cdf(probability)


def normal_cdf(x: NDArray[Any]) -> Floats:
    """Return the distribution function of the standard normal law, for a few values."""
    return np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in np.ravel(x)])


def log_gamma(x: Floats) -> Floats:
    r"""Return :math:`\log\Gamma(x)` of the distinct values of `x`."""
    distinct, index = np.unique(x, return_inverse=True)
    return np.array([math.lgamma(value) for value in distinct])[index].reshape(x.shape)


def x_log_y(x: Floats, y: Floats) -> Floats:
    r"""Return :math:`x \log y`, and 0 where `x` is 0."""
    log = np.log(y, out=np.zeros(np.broadcast_shapes(x.shape, y.shape)), where=x != 0.0)
    return x * log


def x_log1p_y(x: Floats, y: Floats) -> Floats:
    r"""Return :math:`x \log(1 + y)`, and 0 where `x` is 0."""
    log = np.log1p(y, out=np.zeros(np.broadcast_shapes(x.shape, y.shape)), where=x != 0.0)
    return x * log


class NoncentralChiSquare:
    r"""Chi-square laws with :math:`\nu` degrees of freedom and any noncentrality, below `x`.

    .. math:: P(\chi'^2_\nu(\lambda) \le x)
              = \sum_{i \ge 0} \frac{(x/2)^{\nu/2 + i} e^{-x/2}}{\Gamma(\nu/2 + i + 1)}
                \sum_{j \le i} \frac{(\lambda/2)^j e^{-\lambda/2}}{j!}

    All terms are positive, so nothing cancels. Their number grows with `x`.
    """

    def __init__(self, x: float, nu: float) -> None:
        half = x / 2.0
        n = math.ceil(half + 12.0 * math.sqrt(half + 40.0)) + 40
        steps = np.arange(1.0, n)
        a = nu / 2.0
        if half > 0.0:
            log = np.concatenate([[0.0], np.cumsum(math.log(half) - np.log(a + steps))])
            log += a * math.log(half) - half - math.lgamma(a + 1.0)
            self._terms = np.exp(log)
        else:
            self._terms = np.zeros(n)
        self._log_factorial = np.concatenate([[0.0], np.cumsum(np.log(steps))])

    def cdf(self, noncentrality: float) -> float:
        """Return the probability below `x`."""
        half = noncentrality / 2.0
        if half <= 0.0:
            return min(1.0, float(self._terms.sum()))
        log = np.arange(len(self._terms)) * math.log(half) - half - self._log_factorial
        return min(1.0, float(self._terms @ np.cumsum(np.exp(log))))
