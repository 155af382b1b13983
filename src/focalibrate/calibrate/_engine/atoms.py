"""One row of logits as a few atoms: its largest logits, and a quadrature of the rest."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate._engine.blocks import Workspace
from focalibrate.calibrate._engine.recovery import IMPOSSIBLE

N_EXACT = 8
"""Largest logits of a row kept as they are."""
N_CELLS = 20
"""Cells of the tail; each becomes two atoms."""
FINEST_CELL = 1.0 / 200.0
"""Cells grow in proportion to the gap, which counts as at least this share of the tail's range:
otherwise near-ties with the top would use up all of them."""
N_ATOMS = N_EXACT + 2 * N_CELLS
ROW_FLOATS = N_ATOMS + 2 * N_CELLS
"""float32 numbers stored for one row: the atoms' places, and the weights of the tail's."""


def row_atoms(logits: NDArray[Any], space: Workspace) -> tuple[NDArray[Any], NDArray[Any]]:
    r"""Compress each row into `N_ATOMS` atoms.

    With gaps :math:`d_k = z_{\max} - z_k` in ascending order, the first `N_EXACT` are kept. The
    tail is cut into cells that widen with the gap, and a cell of :math:`n` gaps with mean
    :math:`\mu`, standard deviation :math:`\sigma` and skewness :math:`s` becomes the two-point
    Gauss rule

    .. math:: \mu + \sigma\left(\tfrac s2 \mp q\right) \text{ with weights }
              \tfrac n2\left(1 \pm \tfrac{s}{2q}\right), \qquad q = \sqrt{1 + s^2/4}

    which sums every cubic over the cell exactly. For :math:`e^{-d/T}` the relative error of a
    cell of width :math:`w` is about :math:`(w/T)^4/4320`: small where the cell carries mass at
    all, for the width grows in proportion to the gap.

    Args:
        logits: one block, shape ``[n, K]``, ``K > N_ATOMS``; -inf allowed.
        space: buffers.

    Returns:
        Gaps ``[n, N_ATOMS]``, the first 0, `IMPOSSIBLE` for classes at -inf, and the weights
        of the last ``2 * N_CELLS`` of them. Empty cells have weight 0. Computed in the
        precision of the logits, at least float32.
    """
    n, k = logits.shape
    dtype = np.promote_types(logits.dtype, np.float32)
    ordered = space.array("ordered", (n, k), dtype)
    np.negative(logits, out=ordered)
    ordered.sort(axis=-1)
    # The pad gives an empty last cell a place to start inside the array.
    flat = space.array("gaps", (n * k + 1,), dtype)
    gaps = flat[:-1].reshape(n, k)
    np.subtract(ordered, ordered[:, :1], out=gaps)
    flat[-1] = np.inf
    n_possible = np.full(n, k)
    if not np.isfinite(gaps[:, -1]).all():
        n_possible = np.isfinite(gaps).sum(axis=-1)
    starts = _cell_starts(gaps, n_possible, space)
    places, weights = _two_point_rule(flat, starts, n_possible, space)
    exact = np.minimum(gaps[:, :N_EXACT], IMPOSSIBLE)
    return np.concatenate([exact, places], axis=-1), weights


def _cell_starts(
    gaps: NDArray[Any], n_possible: NDArray[np.intp], space: Workspace
) -> NDArray[np.intp]:
    """Return where each cell starts in the flattened gaps, ``[n, N_CELLS]``."""
    n, k = gaps.shape
    rows = np.arange(n)
    first = np.minimum(gaps[:, N_EXACT], IMPOSSIBLE)
    last = gaps[rows, np.maximum(n_possible, N_EXACT + 1) - 1]
    reach = np.minimum(last, IMPOSSIBLE) - first
    reach = np.where(reach > 0, reach, 1.0)
    offset = np.maximum(first, FINEST_CELL * reach) / reach
    log_ratio = np.log1p(1.0 / offset)
    power = np.arange(1, N_CELLS) / N_CELLS
    edges = offset[:, None] * np.expm1(log_ratio[:, None] * power)  # in (0, 1), of the reach
    # One search for all rows: row i's keys lie in [3i - 1, 3i + 1.5], so the whole is sorted.
    # Rounding is monotone: it may move a cell's edge a little, never break the order.
    keys = space.array("keys", (n, k), gaps.dtype)
    np.subtract(gaps, first[:, None], out=keys)
    keys *= (1.0 / reach)[:, None].astype(gaps.dtype)
    np.clip(keys, -1.0, 1.5, out=keys)
    shift = 3.0 * rows[:, None]
    keys += shift.astype(gaps.dtype)
    targets = (edges + shift).astype(gaps.dtype)
    starts = np.searchsorted(keys.ravel(), targets.ravel()).reshape(n, N_CELLS - 1)
    low = k * rows[:, None] + N_EXACT
    starts = np.clip(starts, low, np.maximum(low, k * rows[:, None] + n_possible[:, None]))
    return np.concatenate([low, starts], axis=-1)


def _two_point_rule(
    flat: NDArray[Any], starts: NDArray[np.intp], n_possible: NDArray[np.intp], space: Workspace
) -> tuple[NDArray[Any], NDArray[Any]]:
    n, k = len(starts), (flat.size - 1) // len(starts)
    row_start = k * np.arange(n)[:, None]
    stops = np.maximum(row_start + n_possible[:, None], starts[:, :1])
    count = np.diff(starts, append=stops)
    # Segments as `reduceat` wants them: the exact part (dropped), the cells, the impossible.
    at = np.concatenate([row_start, starts, stops], axis=-1)
    shape, at = at.shape, at.ravel()

    def cell_sums(x: NDArray[Any]) -> NDArray[Any]:
        sums: NDArray[Any] = np.add.reduceat(x, at).reshape(shape)[:, 1:-1]
        return sums

    size = np.maximum(count, 1).astype(flat.dtype)
    mean = cell_sums(flat) / size
    padded = np.zeros(shape, dtype=flat.dtype)
    padded[:, 1:-1] = mean
    centred, power = (space.array(x, flat.shape, flat.dtype) for x in ("centred", "power"))
    np.subtract(flat, np.repeat(padded.ravel(), np.diff(at, append=flat.size)), out=centred)
    np.multiply(centred, centred, out=power)
    variance = cell_sums(power) / size
    power *= centred
    third = cell_sums(power) / size
    is_empty = count == 0  # there `reduceat` returns an element, which means nothing
    sigma = np.sqrt(np.where(is_empty, 0.0, variance)).astype(np.float64)
    is_spread = sigma > 1e-6 * np.abs(np.where(is_empty, 0.0, mean))
    skew = np.divide(third, sigma**3, out=np.zeros_like(sigma), where=is_spread)
    q = np.sqrt(1.0 + 0.25 * skew * skew)
    lean = 0.5 * skew / q
    low, high = (np.maximum(mean + sigma * (0.5 * skew + x * q), 0.0) for x in (-1, 1))
    places = np.concatenate([low, high], axis=-1)
    places[np.tile(is_empty, 2)] = IMPOSSIBLE
    weights = np.concatenate([0.5 * count * (1.0 + lean), 0.5 * count * (1.0 - lean)], axis=-1)
    return places, weights
