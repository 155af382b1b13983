"""Scores in any form: data frames, lists, one column for two classes, probabilities with zeros."""

from typing import Any

import numpy as np

from focalibrate._array import Array, array_of, namespace, working_dtype


def as_array(values: Any, *, name: str) -> Array:
    """Return arrays as they are, data frames and lists as NumPy arrays; whole numbers as floats.

    Labels keep their integers: only `name` ``"labels"`` is exempt from becoming floating.
    """
    values = array_of(values)
    is_scores = name in ("logits", "probs", "sample_weight")
    if isinstance(values, np.ndarray) and is_scores and values.dtype.kind in "iuO":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"`{name}` must hold numbers only, got dtype {values.dtype}."
            ) from None
    return values


def two_columns(scores: Array, *, is_probs: bool) -> Array:
    """Return ``[..., 2]`` scores for the margins or probabilities of class 1."""
    xp = namespace(scores)
    first = 1.0 - scores if is_probs else xp.zeros_like(scores)
    return xp.stack([first, scores], axis=-1)


def log_probabilities(probs: Array, zero_mix: float) -> Array:
    r"""Return :math:`\log((1-\varepsilon)p + \varepsilon/K)`, -inf where that is 0."""
    xp = namespace(probs)
    x = xp.astype(probs, working_dtype(probs))
    if zero_mix:
        return xp.log((1.0 - zero_mix) * x + zero_mix / x.shape[-1])
    is_zero = x == 0
    logs = xp.log(xp.where(is_zero, xp.ones_like(x), x))
    return xp.where(is_zero, xp.full_like(x, -xp.inf), logs)


def own_log_probabilities(mixed: Array, zero_mix: float) -> Array:
    r"""Return :math:`\log p` from :math:`(1-\varepsilon)p + \varepsilon/K`, -inf where p was 0.

    The share :math:`\varepsilon/K` of a class is half the smallest positive probability (or less),
    so that what is below one and a half of it was a zero, whatever the rounding.

    Example:
        >>> p = np.array([[0.75, 0.25, 0.0]])
        >>> np.exp(own_log_probabilities(0.625 * p + 0.125, 0.375)).round(6)
        array([[0.75, 0.25, 0.  ]])
    """
    xp = namespace(mixed)
    share = zero_mix / mixed.shape[-1]
    is_zero = mixed < 1.5 * share
    own = xp.where(is_zero, xp.ones_like(mixed), (mixed - share) / (1.0 - zero_mix))
    return xp.where(is_zero, xp.full_like(mixed, -np.inf), xp.log(own))
