"""The CORP reliability curve: accuracy as a rising function of confidence, without bins."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from focalibrate._array import Array, to_numpy

N_CELLS = 400
"""Groups of neighbouring rows that the band is drawn on."""
N_DRAWS = 200
LEVEL = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Isotonic regression of outcomes on probabilities, with a consistency band.

    The regression is constant on blocks of neighbouring rows; between two blocks the curve is
    drawn as a straight line.
    """

    low: Floats
    """smallest probability of each block ``[B]``, rising"""
    high: Floats
    """largest probability of each block"""
    rate: Floats
    """share of outcomes that occurred, of each block; rising"""
    count: Floats
    """rows of each block, by weight"""
    band_at: Floats
    """probabilities ``[M]`` at which the band is given"""
    band_low: Floats
    """where the curve of a calibrated model with these predictions lies in 95 % of cases"""
    band_high: Floats

    @property
    def x(self) -> Floats:
        """Probabilities of the corners of the curve ``[2B]``."""
        return np.column_stack([self.low, self.high]).ravel()

    @property
    def y(self) -> Floats:
        """Shares at `x`."""
        return np.repeat(self.rate, 2)


def reliability_curve(
    confidence: Array,
    correct: Array,
    *,
    sample_weight: Array | None = None,
    seed: int | np.random.Generator = 0,
) -> ReliabilityCurve:
    """Return how often what is given a probability occurs, by isotonic regression (CORP).

    Needs no bins: the pool-adjacent-violators algorithm finds the blocks. The band is where the
    curve of a calibrated model with the same predictions would lie: outcomes are drawn with the
    stated probabilities, and the curve is fitted again to each draw.

    Args:
        confidence: probabilities ``[N]``: the confidence of the top label, or the probability of
            one class.
        correct: whether the outcome occurred ``[N]``.
        sample_weight: weights ``[N]``; whole numbers count repeated rows.
        seed: of the draws.

    Returns:
        `ReliabilityCurve`.

    Example:
        >>> curve = reliability_curve(np.array([0.2, 0.4, 0.6, 0.8]), np.array([0, 1, 0, 1]))
        >>> curve.rate.tolist(), curve.count.tolist()
        ([0.0, 0.5, 1.0], [1.0, 2.0, 1.0])

    References:
        Dimitriadis, Gneiting, Jordan (2021), *Stable reliability diagrams for probabilistic
        classifiers*.
    """
    x = to_numpy(confidence).astype(np.float64)
    y = to_numpy(correct).astype(np.float64)
    w = np.ones_like(x) if sample_weight is None else to_numpy(sample_weight).astype(np.float64)
    order = np.argsort(x, kind="stable")
    x, y, w = x[order], y[order], w[order]
    starts = np.flatnonzero(np.concatenate([[True], x[1:] != x[:-1]]))
    values, weight = x[starts], np.add.reduceat(w, starts)
    is_used = weight > 0
    hits = np.add.reduceat(w * y, starts)[is_used]
    values, weight = values[is_used], weight[is_used]
    found = isotonic_regression(hits / weight, weights=weight)
    blocks = found.blocks.astype(np.intp)
    # SciPy's blocks may touch at equal heights: join them, so that each height is one block.
    heights = found.x[blocks[:-1]]
    first = blocks[:-1][np.concatenate([[True], np.diff(heights) > 1e-12])]
    last = np.concatenate([first[1:], [len(values)]]) - 1
    band = _band(values, weight, float(w.sum()) ** 2 / float((w**2).sum()), seed)
    return ReliabilityCurve(
        low=values[first],
        high=values[last],
        rate=np.add.reduceat(hits, first) / np.add.reduceat(weight, first),
        count=np.add.reduceat(weight, first),
        band_at=band[0],
        band_low=band[1],
        band_high=band[2],
    )


def _band(
    values: Floats, weight: Floats, effective: float, seed: int | np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return places, low and high ends of the band, from draws on cells of equal mass."""
    rng = np.random.default_rng(seed)
    total = weight.sum()
    middle = np.cumsum(weight) - 0.5 * weight
    cell = np.minimum((middle / total * N_CELLS).astype(np.intp), N_CELLS - 1)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(cell) > 0]))
    mass = np.add.reduceat(weight, starts)
    at = np.add.reduceat(weight * values, starts) / mass
    rows = np.maximum(np.rint(mass / total * effective), 1.0).astype(np.int64)
    drawn = rng.binomial(rows, np.clip(at, 0.0, 1.0), size=(N_DRAWS, len(at))) / rows
    fitted = np.stack([isotonic_regression(y, weights=rows).x for y in drawn])
    low, high = np.quantile(fitted, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0)
    return at, low, high


def curve_record(curve: ReliabilityCurve) -> dict[str, Any]:
    """Return the curve as JSON, with as many digits as a screen shows."""
    return {
        name: [round(float(v), 5) for v in values]
        for name, values in (
            ("low", curve.low),
            ("high", curve.high),
            ("rate", curve.rate),
            ("count", curve.count),
            ("band_at", curve.band_at),
            ("band_low", curve.band_low),
            ("band_high", curve.band_high),
        )
    }
