"""CORP: isotonic recalibration, its reliability curve and the decomposition of scores."""

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array, Floats
from focalibrate._check import check_count
from focalibrate.metrics.cells import Cells
from focalibrate.metrics.null import generator, independent_residuals
from focalibrate.metrics.residuals import Residuals, event_cells
from focalibrate.metrics.rows import Event, read_rows_of_event

BAND_POINTS = 101
MAX_PASSES = 40


@dataclass(frozen=True)
class Decomposition:
    """Decomposition of a mean score, ``score = miscalibration - discrimination + uncertainty``."""

    score: float
    miscalibration: float
    """what the best monotone recalibration would gain"""
    discrimination: float
    """what the recalibrated forecasts gain over always forecasting the base rate"""
    uncertainty: float
    """the score of the base rate"""

    def to_dict(self) -> dict[str, float]:
        """Return the numbers by name, for JSON."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """A reliability diagram without bins: straight lines between knots, over a band."""

    probability: Floats
    """predicted probability at the first and last example of each block, ascending, ``[P]``"""
    frequency: Floats
    """frequency of the event in the block, ascending, shape ``[P]``"""
    weight: Floats
    """examples in the block, half of them at either knot, shape ``[P]``"""
    band_probability: Floats
    """where the band is given, shape ``[G]``"""
    band_low: Floats
    """the curve of a calibrated model stays above this at each point with probability .975"""
    band_high: Floats
    level: float = 0.95


@dataclass(frozen=True, eq=False)
class Corp:
    """The curve of one event, and the decomposition of its log loss and Brier score."""

    event: str
    curve: ReliabilityCurve
    log_loss: Decomposition
    brier: Decomposition
    """of the event alone: half of `brier_score` for two classes"""


def corp(
    probs: Array,
    labels: Array,
    *,
    event: Event = "top label",
    sample_weight: Array | None = None,
    n_draws: int = 199,
    seed: int | np.random.Generator = 0,
) -> Corp:
    r"""Isotonic reliability curve of an event, and the decomposition of its scores.

    The probabilities :math:`c` of the event are recalibrated by isotonic regression to
    :math:`\tilde c`, the closest non-decreasing fit to the outcomes. With the base rate
    :math:`\bar y` and any proper score,

    .. math:: S(c) = \underbrace{S(c) - S(\tilde c)}_{\text{miscalibration}}
              - \underbrace{(S(\bar y) - S(\tilde c))}_{\text{discrimination}}
              + \underbrace{S(\bar y)}_{\text{uncertainty}}

    and no term is negative. The curve has no bins to choose; its band shows where the curve
    of a calibrated model with these predictions lies (point by point).

    Args:
        probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        event: ``"top label"`` (the prediction is right), or a class.
        sample_weight: weights ``[N]``; whole numbers count repeated rows.
        n_draws: outcomes drawn for the band; 0 for none.
        seed: random seed of the draws, or a `numpy.random.Generator`.

    Returns:
        `Corp`.

    Numerics:
        The identity holds to rounding. Rows of equal probability are pooled, so the order
        of the rows does not matter. The band is drawn on at most 512 cells.

    Example:
        >>> p = np.array([0.1, 0.4, 0.6, 0.9])
        >>> found = corp(p, np.array([0, 1, 0, 1]), event=1, n_draws=0)
        >>> found.curve.frequency
        array([0. , 0. , 0.5, 0.5, 1. , 1. ])
        >>> round(found.brier.miscalibration, 4), round(found.brier.uncertainty, 4)
        (0.06, 0.25)

    References:
        Dimitriadis, Gneiting, Jordan (2021), *Stable reliability diagrams for probabilistic
        classifiers*.
    """
    rows = read_rows_of_event(
        probs, labels, event=event, sample_weight=sample_weight, binary=np.ndim(probs) == 1
    )
    return corp_of_cells(Cells.of_distinct(*rows), event=event, n_draws=n_draws, seed=seed)


def corp_of_cells(
    cells: Cells,
    *,
    event: Event = "top label",
    n_draws: int = 199,
    seed: int | np.random.Generator = 0,
) -> Corp:
    """Return the same from cells, which can be merged from pieces.

    Examples of a cell count as tied at their mean: on `log_odds_edges` the result differs
    from that of the rows by less than the width of a cell.
    """
    check_count(n_draws, name="n_draws", minimum=0)
    filled = cells.weight > 0
    if not filled.any():
        raise ValueError("the cells must hold examples to draw their curve; they are empty.")
    weight, total = cells.weight[filled], float(cells.weight.sum())
    value = np.clip(cells.probability[filled] / weight, 0.0, 1.0)
    hits = cells.outcome[filled]
    fitted = _isotonic(hits, weight)
    base = np.full(len(weight), hits.sum() / total)

    def taken_apart(log: bool) -> Decomposition:
        score = _log_loss if log else _brier
        own, best, constant = (score(p, hits, weight) / total for p in (value, fitted, base))
        return Decomposition(own, own - best, constant - best, constant)

    at, low, high = _band(cells.residuals(), n_draws, generator(seed))
    curve = ReliabilityCurve(*_knots(value, fitted, weight), at, low, high)
    name = event if isinstance(event, str) else f"class {event}"
    return Corp(name, curve, taken_apart(log=True), taken_apart(log=False))


def rising(hits: Floats, weight: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return where blocks of the isotonic regression of ``hits / weight`` begin, and their values.

    Each pass pools all adjacent violators that there are. Outcomes sorted by a score take about
    ten passes; a few sequences would need one for every value and are left to SciPy, whose
    regression takes a quarter of a second to import.
    """
    first = np.arange(len(weight))
    for _ in range(MAX_PASSES):
        value = hits / weight
        at = np.flatnonzero(np.append(True, value[1:] > value[:-1]))
        if len(at) == len(value):
            return first, value
        first, hits, weight = first[at], np.add.reduceat(hits, at), np.add.reduceat(weight, at)
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(hits / weight, weights=weight)
    return first[fitted.blocks[:-1]], fitted.x[fitted.blocks[:-1]]


def _isotonic(hits: Floats, weight: Floats) -> Floats:
    first, value = rising(hits, weight)
    return np.repeat(np.clip(value, 0.0, 1.0), np.diff(first, append=len(weight)))


def _brier(p: Floats, hits: Floats, weight: Floats) -> float:
    # sum of w (p - y)^2, with y^2 = y
    return float(np.sum(hits * (1.0 - p) ** 2 + (weight - hits) * p**2))


def _log_loss(p: Floats, hits: Floats, weight: Floats) -> float:
    from scipy.special import xlog1py, xlogy

    misses = np.maximum(weight - hits, 0.0)
    return float(-np.sum(xlogy(hits, p) + xlog1py(misses, -p)))


def _knots(value: Floats, fitted: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Return first and last value, frequency and half the weight of each block."""
    first = np.flatnonzero(np.diff(fitted, prepend=-1.0) > 1e-12)
    last = np.append(first[1:] - 1, len(value) - 1)
    mass = np.add.reduceat(weight, first)
    at = np.stack([first, last], axis=1).reshape(-1)
    return value[at], np.repeat(fitted[first], 2), np.repeat(mass / 2.0, 2)


def _band(
    fine: Residuals, n_draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return points and the 2.5 % and 97.5 % quantiles of calibrated curves there."""
    if n_draws == 0:
        nothing = np.zeros(0)
        return nothing, nothing, nothing
    cells = event_cells(fine).sums
    mean, weight, drawn = cells.mean, cells.weight, independent_residuals(cells, n_draws, rng)
    grid = np.unique(np.interp(np.linspace(0, 1, BAND_POINTS), np.linspace(0, 1, len(mean)), mean))
    hits = np.clip(weight * mean - drawn.T, 0.0, weight)
    curves = [np.interp(grid, mean, _isotonic(row, weight)) for row in hits]
    low, high = np.quantile(curves, [0.025, 0.975], axis=0)
    return grid, low, high
