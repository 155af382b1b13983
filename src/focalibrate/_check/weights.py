"""Checks of the weights of examples."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import to_numpy


def check_sample_weight(
    sample_weight: Any, *, n_rows: int, name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Return `sample_weight` as float64 ``[n_rows]``; raise unless finite, >= 0 and not all 0."""
    try:
        weights = np.asarray(to_numpy(sample_weight), dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be one number per example: {error}.") from error
    if len(weights) != n_rows:
        raise ValueError(
            f"`{name}` must have one weight per example, {n_rows}, got {len(weights)}."
        )
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"`{name}` must be finite and >= 0, but row {row} has {weights[row]}. "
            "Give a row that should not count the weight 0."
        )
    if n_rows and not weights.any():
        raise ValueError(f"`{name}` must not be zero for every example.")
    return weights


def check_label_weight(
    sample_weight: Any, *, shape: tuple[int, ...], name: str = "sample_weight"
) -> NDArray[np.float64]:
    """Return weights ``[N]`` or ``[N, C]`` of independent labels as float64 ``[N, C]``.

    Raise `ValueError` unless finite, >= 0 and not all 0.
    """
    weights = np.asarray(to_numpy(sample_weight), dtype=np.float64)
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in (shape, (shape[0], 1)):
        raise ValueError(
            f"`{name}` must be [N] or [N, C] for scores of shape {list(shape)}, got "
            f"{list(weights.shape)}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ValueError(f"`{name}` must be finite and >= 0, and not 0 everywhere.")
    return np.ascontiguousarray(np.broadcast_to(weights, shape))


def is_whole(weights: NDArray[np.float64]) -> bool:
    """Return whether every weight is a whole number, that is, counts repeated rows."""
    return bool((weights == np.rint(weights)).all())
