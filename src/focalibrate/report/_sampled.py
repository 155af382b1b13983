"""The rows that a page holds: all, or a random sample of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.report._rows import MAX_TEXT, most_rows, pack_rows, text_length


def sample_of(
    n: int, size: int, weights: NDArray[np.float64] | None, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return `size` of `n` rows in ascending order, drawn in proportion to the weights, if any.

    The page then counts every row shown as one, and needs no weights.
    """
    if weights is not None:
        return np.sort(rng.choice(n, size, p=weights / weights.sum()))
    return np.arange(n) if size >= n else np.sort(rng.choice(n, size, replace=False))


def packed_sample(
    rows: NDArray[Any], labels: NDArray[np.intp], weights: NDArray[np.float64] | None, seed: int
) -> dict[str, Any]:
    """Return the rows that the page computes any gamma and temperature from, as JSON."""
    rng = np.random.default_rng(seed)
    shown = sample_of(len(rows), most_rows(*rows.shape), weights, rng)
    packed = pack_rows(rows[shown], labels[shown])
    if text_length(packed) > MAX_TEXT:
        n = int(len(shown) * 0.98 * MAX_TEXT / text_length(packed))
        shown = sample_of(len(rows), n, weights, rng)
        packed = pack_rows(rows[shown], labels[shown])
    return packed | {"seed": seed}
