"""Whether the focal minimiser is under- or overconfident at a point."""

from typing import Any

from focalibrate._array import Array, namespace, working_dtype
from focalibrate._check import check_gamma, check_probs
from focalibrate.theory.factor import phi, row_gamma


def confidence_regime(probs: Array, gamma: Any) -> Array:
    r"""Sign of the confidence error of focal scores: -1 under, 0 exact, +1 over.

    .. math:: \operatorname{sign}\bigl(\max q - \max\Psi_\gamma(q)\bigr) = \operatorname{sign}
              \sum_l q_l\left(\frac{\varphi(\max q)}{\varphi(q_l)} - 1\right)

    Below `tau_over` the result is +1, above `tau_under` it is -1, in between it depends on all
    classes. Vectors that are uniform on a subset of the classes are exact. For two classes it
    is never +1.

    Args:
        probs: scores of a model trained with focal loss, ``[..., K]``.
        gamma: the exponent it was trained with, ``>= -1``: a number or one per row.

    Returns:
        Integer array, shape ``[...]``.

    Numerics:
        Equal entries give exactly equal terms, so the exact cases come out as 0 without a
        tolerance.

    Example:
        >>> import numpy as np
        >>> confidence_regime(np.array([[0.7, 0.2, 0.1], [0.5, 0.5, 0.0]]), 2.0)
        array([-1,  0])
        >>> confidence_regime(np.array([[0.05] + [0.95 / 999] * 999]), 1.0)
        array([1])

    References:
        Charoenphakdee et al. (2021), Def. 7 and Thm. 8.
    """
    check_gamma(gamma, minimum=-1.0)
    check_probs(probs)
    xp = namespace(probs)
    q = xp.astype(probs, working_dtype(probs))
    factor = phi(q, row_gamma(gamma, q))
    top = xp.max(q, axis=-1, keepdims=True)
    top_factor = phi(top, row_gamma(gamma, q))
    differs = (q != top) & (q > 0)
    ratio = top_factor / xp.where(differs, factor, xp.ones_like(factor))
    total = xp.sum(xp.where(differs, q * (ratio - 1.0), xp.zeros_like(q)), axis=-1)
    return xp.astype(xp.sign(total), xp.int64)
