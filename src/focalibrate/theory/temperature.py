r"""How close posterior recovery is to temperature scaling."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats, array_of, is_array_api_obj, like, namespace
from focalibrate._check import check_gamma, check_n_classes, check_open_interval
from focalibrate._stable import log_sigmoid
from focalibrate.theory.factor import log_phi


@dataclass(frozen=True)
class NearestTemperature:
    """The temperature closest to posterior recovery, and how far they still differ."""

    temperature: float
    largest_difference: float


def recover_log_odds(log_odds: Array, gamma: float, *, alpha: float | None = None) -> Array:
    r"""Binary posterior recovery on the log-odds scale.

    .. math:: \operatorname{logit}\Psi(s) = (\gamma+1)s
              - \log\frac{1+\gamma e^{s}\log(1+e^{-s})}{1+\gamma e^{-s}\log(1+e^{s})}

    minus :math:`\log\frac{\alpha}{1-\alpha}` where the loss of a sigmoid head gave weight
    :math:`\alpha` to the positive and :math:`1-\alpha` to the negative labels, as
    `sigmoid_focal_loss` does. Without weights it is odd in :math:`s` and close to linear, which is
    why a temperature comes so close to it.

    Args:
        log_odds: log-odds of class 1, any shape and array library; infinite ones stay infinite.
        gamma: exponent of the training loss, ``>= -1``.
        alpha: weight of the positive labels in the training loss, between 0 and 1; None where
            it had no weights.

    Returns:
        Log-odds of the recovered posterior, of the library and dtype of `log_odds` (whole numbers
        and lists: NumPy float64), same shape. In float64 they are right to about 3e-14 at
        ``gamma = 1000``, and to 1e-16 for common exponents.

    Example:
        >>> recover_log_odds(np.array([-2.0, 0.0, 2.0]), 2.0).round(4)
        array([-5.3984,  0.    ,  5.3984])
        >>> recover_log_odds(np.array([-2.0, 0.0, 2.0]), 2.0, alpha=0.25).round(4)
        array([-4.2998,  1.0986,  6.497 ])

    References:
        Komisarenko & Kull (2024), Prop. 2.
    """
    check_gamma(gamma, minimum=-1.0)
    if alpha is not None:
        check_open_interval(alpha, low=0.0, high=1.0, name="alpha")
    given = array_of(log_odds)
    if not is_array_api_obj(given) or not namespace(given).isdtype(given.dtype, "real floating"):
        given = np.asarray(given, dtype=np.float64)
    result = given if gamma == 0 else _recovered(given, float(gamma))
    return result if alpha is None else result - math.log(alpha / (1.0 - alpha))


def _recovered(s: Array, gamma: float) -> Array:
    xp = namespace(s)
    is_finite = xp.isfinite(s)
    finite = xp.where(is_finite, s, xp.zeros_like(s))
    g = like(gamma, s, dtype=s.dtype)
    up, down = log_sigmoid(finite), log_sigmoid(-finite)
    return xp.where(is_finite, finite - (log_phi(up, down, g) - log_phi(down, up, g)), s)


def nearest_temperature(gamma: float, n_classes: int) -> NearestTemperature:
    r"""Temperature whose map differs least, at its worst, from posterior recovery.

    .. math:: \min_T \max_z \bigl\lVert \Psi_\gamma(\operatorname{softmax}(z))
              - \operatorname{softmax}(z/T) \bigr\rVert_\infty

    Args:
        gamma: exponent of the training loss, ``>= 0``.
        n_classes: number of classes, ``>= 2``.

    Returns:
        The temperature and the largest difference in any class's probability over all logits.

    Numerics:
        The worst logits take two levels: `a` classes tied on top, `b` tied below, the others
        impossible (a full grid of logits finds none worse for 3 and 4 classes). All pairs
        (a, b) are searched up to 24 classes, a geometric selection beyond. A coarse grid of
        logits misses the worst case for large `gamma` and gives a higher temperature.

    Example:
        >>> n = nearest_temperature(3.0, 2)
        >>> round(n.temperature, 3), n.largest_difference < 1e-3
        (0.276, True)

    References:
        Komisarenko & Kull (2024), Sec. 3.2 and 3.3, Fig. 2 and 6.
    """
    check_gamma(gamma)
    check_n_classes(n_classes)
    if gamma == 0:
        return NearestTemperature(1.0, 0.0)
    from scipy.optimize import minimize_scalar

    counts = _counts(n_classes)
    a, b = (x.ravel()[:, None].astype(np.float64) for x in np.meshgrid(counts, counts))
    is_possible = (a + b <= n_classes)[:, 0]
    a, b = a[is_possible], b[is_possible]
    coarse = _differences(gamma, a, b, np.geomspace(1e-3, 60.0, 400))
    betas = np.linspace(-0.5, math.log(1.0 + gamma) + 0.5, 51)  # log(1/T)
    best = int(np.argmin([coarse(beta).max() for beta in betas]))
    low, high = betas[max(best - 1, 0)], betas[min(best + 1, len(betas) - 1)]
    rough = minimize_scalar(lambda x: coarse(x).max(), bounds=(low, high), method="bounded").x
    # With finer logits only the pairs that come within 10 % of the worst.
    around = [coarse(x) for x in (rough - 0.01, rough, rough + 0.01)]
    keep = np.any([pairs >= 0.9 * pairs.max() for pairs in around], axis=0)
    fine = _differences(gamma, a[keep], b[keep], np.geomspace(1e-3, 60.0, 20_001))
    exact = minimize_scalar(
        lambda x: fine(x).max(),
        bounds=(rough - 0.02, rough + 0.02),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return NearestTemperature(math.exp(-float(exact.x)), float(exact.fun))


def _differences(gamma: float, a: Floats, b: Floats, s: Floats) -> Callable[[float], Floats]:
    """Return the largest difference of each pair to the map of temperature exp(-beta).

    A pair stands for logits with `a` classes at 0, `b` at -s and the others impossible.
    """
    g = np.asarray(float(gamma))
    log_total = np.log(a + b * np.exp(-s))
    log_h = [
        log_v - log_total - log_phi(log_v - log_total, np.log(rest) - log_total, g)
        for log_v, rest in ((0.0, (a - 1.0) + b * np.exp(-s)), (-s, a + (b - 1.0) * np.exp(-s)))
    ]
    top = 1.0 / (a + b * np.exp(log_h[1] - log_h[0]))
    # A class of the lower level differs by a/b times as much: the sum of all stays 1.
    scale = np.maximum(1.0, a / b)

    def largest(beta: float) -> Floats:
        scaled = 1.0 / (a + b * np.exp(-s * math.exp(beta)))
        return np.asarray((np.abs(top - scaled) * scale).max(axis=1))

    return largest


def _counts(n_classes: int) -> NDArray[np.int64]:
    if n_classes <= 24:
        return np.arange(1, n_classes)
    return np.unique(np.geomspace(1, n_classes - 1, 48).round().astype(np.int64))
