"""What a sketch of predictions says about them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from focalibrate._check import check_count
from focalibrate.metrics._cell_sums import cells_of_sums
from focalibrate.metrics._cells import (
    Cells,
    EventBins,
    top_cells_of_groups,
    two_class_cells_of_groups,
)
from focalibrate.metrics._class_cells import by_bin
from focalibrate.metrics._noise import classwise_floor_of_sums
from focalibrate.metrics._random import generator
from focalibrate.metrics._score_sums import SCORES
from focalibrate.metrics.assessment import Assessment, assess_cells
from focalibrate.metrics.binning import equal_mass_sizes
from focalibrate.metrics.bounds import BoundOptions, ErrorBounds, bounds_of_cells
from focalibrate.metrics.groups import (
    MIN_ROWS,
    GroupAssessment,
    assess_group,
    draws_for_groups,
    with_holm,
)
from focalibrate.metrics.interval import ConfidenceInterval, NoiseFloor
from focalibrate.metrics.registry import MetricName
from focalibrate.metrics.reliability_table import ReliabilityTable
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.metrics.sketch import Sketch
from focalibrate.metrics.smooth import GRID, MIN_WIDTHS, smooth_ece_of_residuals

NORMAL_95 = 1.959963984540054
GRID_ERROR = 1e-5
"""of `smooth_ece` itself, whose grid is fixed"""
MOST: Mapping[str, float] = {"brier": 2.0, "error": 1.0}


@dataclass(frozen=True, eq=False)
class SketchEvaluation:
    """The scores of a sketched model, whether it is calibrated, and what the cells cost."""

    n: int
    """rows"""
    n_classes: int
    errors: Mapping[MetricName, float]
    """ECE, adaptive ECE, classwise ECE (absent above 20,000 classes), smooth ECE, MCE"""
    error_bound: Mapping[MetricName, float]
    """how far each of them can be from the value on rows; 0 where it is the same"""
    scores: Mapping[MetricName, ConfidenceInterval]
    """log loss, Brier score and error with normal 95 % intervals"""
    assessment: Assessment
    groups: tuple[GroupAssessment, ...]
    """a verdict per group, where the sketch has groups"""
    table: ReliabilityTable = field(repr=False)
    """the reliability diagram, on equally wide bins"""
    confident: ConfidentFraction
    """share of rows with a confidence of at least 0.99, and their accuracy"""
    n_zeros: int
    """rows with probability 0 at their label: with any, the log loss is infinite"""


def evaluate_sketch(
    sketch: Sketch, *, seed: int | np.random.Generator = 0, n_draws: int = 999
) -> SketchEvaluation:
    r"""Evaluate a sketch as `assess` and the metrics evaluate rows.

    Exact, up to the last bits of a sum: number of rows, ECE, MCE, classwise ECE, log loss,
    Brier score, error, gap, S99 and the reliability table. Within `error_bound`:

    - **adaptive ECE**: twice the hits and the confidence that can lie on the wrong side of each
      bin's boundary, over :math:`N`. At most :math:`\sum_c \frac{m_c}{2N}(1 + w_c)` over the
      cells that a boundary cuts, with :math:`m_c` rows in a width of :math:`w_c`.
    - **smooth ECE**: the hits and the misses of a cell are each placed at their mean, so only
      the curvature of the kernel is missed. With :math:`R_c` the sum of the absolute residuals
      in a cell, the value :math:`\sigma` is within

      .. math:: \frac1N \sum_c \frac{w_c^2}{4}\left(\frac{2 R_c}{\sqrt{2\pi e}\,\sigma^2}
                + \sqrt{\frac2\pi}\,\frac{m_c}{\sigma}\right)

    The test, the RMS error and the noise floors take the rows of a cell as tied at their mean:
    cells are at most 0.2 points wide.

    Args:
        sketch: a sketch of at least one row.
        seed: random seed of the draws, or a `numpy.random.Generator`.
        n_draws: outcomes drawn from the predictions, as in `assess`.
    """
    check_count(n_draws, name="n_draws", minimum=19)
    table, cells = sketch.table, sketch.cells
    rng = generator(seed)
    errors: dict[MetricName, float] = {
        "ece": table.ece(),
        "adaptive_ece": cells.equal_mass(sketch.n_bins).ece(),
    }
    classwise = sketch.classwise_table
    if classwise is not None:
        errors["classwise_ece"] = classwise.ece()
    errors["smooth_ece"] = _smooth(sketch)
    errors["mce"] = table.mce()
    bound: dict[MetricName, float] = dict.fromkeys(errors, 0.0)
    bound["adaptive_ece"] = _adaptive_bound(cells, sketch.n_bins)
    bound["smooth_ece"] = _smooth_bound(sketch, errors["smooth_ece"])
    of_test = sketch.top if sketch.positive is None else sketch.positive
    assessment = assess_cells(
        *_viewed(cells_of_sums(of_test, is_whole=sketch.is_whole), sketch.n_classes),
        n_classes=sketch.n_classes,
        classwise=_classwise_floor(sketch),
        rng=rng,
        n_draws=n_draws,
    )
    mass, sure, right = sketch.totals[[1, 4, 5]].tolist()
    return SketchEvaluation(
        n=sketch.n,
        n_classes=sketch.n_classes,
        errors=errors,
        error_bound=bound,
        scores=_scores(sketch),
        assessment=assessment,
        groups=_groups(sketch, rng),
        table=table,
        confident=ConfidentFraction(sure / mass, right / sure if sure else math.nan),
        n_zeros=sketch.n_zeros,
    )


def bounds_of_sketch(
    sketch: Sketch, group: tuple[str, int] | None, options: BoundOptions
) -> ErrorBounds:
    """Return what `Sketch.bounds` does."""
    if group is None:
        sums = sketch.top if sketch.positive is None else sketch.positive
        cells = cells_of_sums(sums, is_whole=sketch.is_whole)
    else:
        column, number = group
        cells, _ = sketch.groups[column].cells(
            number, sketch.top.shape[1], is_whole=sketch.is_whole
        )
    return bounds_of_cells(*_viewed(cells, sketch.n_classes), **options)


def _viewed(groups: Cells, n_classes: int) -> tuple[Cells, list[EventBins]]:
    if n_classes == 2:
        cells, top, positive = two_class_cells_of_groups(groups)
        return cells, [top, positive]
    cells, view = top_cells_of_groups(groups)
    return cells, [view]


def _scores(sketch: Sketch) -> dict[MetricName, ConfidenceInterval]:
    """Return the mean scores, with intervals from the sums of squares."""
    n, mass, spread = sketch.totals[:3].tolist()
    found: dict[MetricName, ConfidenceInterval] = {}
    names: tuple[MetricName, ...] = SCORES  # type: ignore[assignment]
    for name, (total, square, _, spread_total, spread_square, *_) in zip(
        names, sketch.scores.tolist(), strict=True
    ):
        mean = total / mass
        if sketch.is_whole:  # weights count rows
            around, count = max(0.0, square - mass * mean**2), mass
        else:
            around = max(0.0, spread_square - 2 * mean * spread_total + mean**2 * spread)
            count = n
        if name == "nll" and sketch.n_zeros:
            found[name] = ConfidenceInterval(math.inf, math.inf, math.inf)
            continue
        error = math.inf
        if count > 1:
            error = math.sqrt(around * count / (count - 1)) / mass
        low, high = mean - NORMAL_95 * error, mean + NORMAL_95 * error
        found[name] = ConfidenceInterval(mean, max(0.0, low), min(high, MOST.get(name, math.inf)))
    return found


def _smooth(sketch: Sketch) -> float:
    """Return smooth ECE with the hits and the misses of a cell each at their mean confidence."""
    weight, conf, hits, hit_conf = sketch.top[:4]
    sides = ((hits, hit_conf, hit_conf - hits), (weight - hits, conf - hit_conf, conf - hit_conf))
    value, residual = [], []
    for count, total, off in sides:
        filled = count > 1e-12 * weight.sum()
        value.append(np.clip(total[filled] / count[filled], 0.0, 1.0))
        residual.append(off[filled])
    at, mass = np.concatenate(value), np.concatenate(residual)
    return smooth_ece_of_residuals(at, mass * (len(at) / weight.sum()), grid=GRID)


def _smooth_bound(sketch: Sketch, value: float) -> float:
    weight, conf, hits, hit_conf = sketch.top[:4]
    square = np.diff(sketch.edges) ** 2 / 4.0
    absolute = (hits - hit_conf) + (conf - hit_conf)
    sigma = max(value, MIN_WIDTHS / GRID)
    curved = 2.0 / math.sqrt(2.0 * math.pi * math.e) * float(absolute @ square) / sigma**2
    moved = math.sqrt(2.0 / math.pi) * float(weight @ square) / sigma
    return (curved + moved) / float(weight.sum()) + GRID_ERROR


def _adaptive_bound(cells: ReliabilityTable, n_bins: int) -> float:
    filled = cells.count > 0
    count, hits, width = (
        x[filled] for x in (cells.count, cells.correct_sum, np.diff(cells.edges))
    )
    end = np.cumsum(count)
    total = float(end[-1])
    border = total * np.arange(1, n_bins) / n_bins
    if (count == np.rint(count)).all():
        border = np.cumsum(equal_mass_sizes(round(total), n_bins))[:-1].astype(np.float64)
    cell = np.searchsorted(end, border)
    m, h = count[cell], hits[cell]
    below = np.clip(border - (end[cell] - m), 0.0, m)
    shared = below * h / m
    most = np.minimum(below, h) - shared
    least = shared - np.maximum(0.0, h - (m - below))
    moved = np.maximum(most, least) + width[cell] * below * (m - below) / m
    return 2.0 * float(moved.sum()) / total


def _classwise_floor(sketch: Sketch) -> NoiseFloor | None:
    """Return the floor of classwise ECE from the sums by class; None where they were not kept."""
    if sketch.classes is None:
        return None
    bins = by_bin(sketch.classes, sketch.n_classes, sketch.n_bins)
    flat = np.maximum(bins, 0.0).reshape(len(bins), -1)
    is_counted = sketch.is_whole or len(flat) == 4
    count, probability, variance = flat[[0, 1, 3]] if is_counted else flat[[4, 5, 6]]
    return classwise_floor_of_sums(
        count,
        probability,
        variance,
        total=float(sketch.totals[1]),
        n_classes=sketch.n_classes,
    )


def _groups(sketch: Sketch, rng: np.random.Generator) -> tuple[GroupAssessment, ...]:
    members = [
        (name, column.names[i], *column.cells(i, sketch.top.shape[1], is_whole=sketch.is_whole))
        for name, column in sketch.groups.items()
        for i in column.in_order()
    ]
    n_draws = draws_for_groups(sum(n >= MIN_ROWS for *_, n in members))
    found = [
        assess_group(
            name, group, *_viewed(cells, sketch.n_classes), n_rows=n, n_draws=n_draws, rng=rng
        )
        for name, group, cells, n in members
    ]
    return with_holm(found) if found else ()
