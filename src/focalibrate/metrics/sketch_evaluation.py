"""What a sketch of predictions says about them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from focalibrate._check import check_count
from focalibrate.metrics import _cells
from focalibrate.metrics._event import MAX_TESTED_CLASSES, EventKind
from focalibrate.metrics._noise import classwise_floor_of_sums
from focalibrate.metrics._random import generator
from focalibrate.metrics.assessment import Assessment, TestedClass, assess_cells
from focalibrate.metrics.binning import equal_mass_ends
from focalibrate.metrics.bounds import BoundOptions, ErrorBounds, bounds_of_cells
from focalibrate.metrics.cells import Cells
from focalibrate.metrics.groups import (
    MIN_ROWS,
    GroupAssessment,
    assess_group,
    draws_for_groups,
    with_holm,
)
from focalibrate.metrics.interval import Interval, NoiseFloor
from focalibrate.metrics.registry import MetricName
from focalibrate.metrics.scores import ConfidentFraction
from focalibrate.metrics.sketch import Sketch
from focalibrate.metrics.smooth import GRID, MIN_WIDTHS

GRID_ERROR = 1e-5
"""of `smooth_ece` itself, whose grid is fixed"""
MOST: Mapping[str, float] = {"nll": math.inf, "brier": 2.0, "error": 1.0}
"""what no mean score exceeds"""


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
    scores: Mapping[MetricName, Interval]
    """log loss, Brier score and error with normal 95 % intervals"""
    assessment: Assessment
    groups: tuple[GroupAssessment, ...]
    """a verdict per group, where the sketch has groups"""
    table: Cells = field(repr=False)
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
    table, top, rng = sketch.table, sketch.top, generator(seed)
    errors: dict[MetricName, float] = {
        "ece": table.ece(),
        "adaptive_ece": top.equal_mass(sketch.n_bins).ece(),
    }
    if sketch.classes is not None:
        errors["classwise_ece"] = float(sketch.classes.binned(sketch.n_bins).ece().mean())
    errors["smooth_ece"] = top.smooth_ece()
    errors["mce"] = table.ece("max")
    bound: dict[MetricName, float] = dict.fromkeys(errors, 0.0)
    bound["adaptive_ece"] = _adaptive_bound(top, sketch.n_bins)
    bound["smooth_ece"] = _smooth_bound(top, errors["smooth_ece"])
    assessment = assess_cells(
        tied_at_means(top if sketch.positive is None else sketch.positive),
        event=_event(sketch),
        n_classes=sketch.n_classes,
        classes=_classes(sketch),
        classwise=_classwise_floor(sketch),
        rng=rng,
        n_draws=n_draws,
    )
    return SketchEvaluation(
        n=sketch.n,
        n_classes=sketch.n_classes,
        errors=errors,
        error_bound=bound,
        scores={
            name: sketch.scores[name].interval(most=most)  # type: ignore[misc]
            for name, most in MOST.items()
        },
        assessment=assessment,
        groups=_groups(sketch, rng),
        table=table,
        confident=confident_of(sketch),
        n_zeros=sketch.n_zeros,
    )


def confident_of(sketch: Sketch) -> ConfidentFraction:
    """Return the share of confident rows and their accuracy."""
    sure, right = sketch.confident.tolist()
    mass = sketch.scores["error"].weight
    return ConfidentFraction(sure / mass, right / sure if sure else math.nan)


def bounds_of_sketch(
    sketch: Sketch, group: tuple[str, int] | None, options: BoundOptions
) -> ErrorBounds:
    """Return what `Sketch.bounds` does."""
    if group is None:
        cells = sketch.top if sketch.positive is None else sketch.positive
    else:
        column, number = group
        cells = sketch.groups[column][number]
    return bounds_of_cells(tied_at_means(cells), **options)


def _event(sketch: Sketch) -> EventKind:
    return "top label" if sketch.positive is None else "positive class"


def _classes(sketch: Sketch) -> list[TestedClass]:
    """Return the cells of the 20 most frequent classes of more than two, where they were kept."""
    if sketch.classes is None or sketch.positive is not None:
        return []
    expected = sketch.classes.probability.sum(axis=1)
    frequent = np.sort(np.argsort(-expected, kind="stable")[:MAX_TESTED_CLASSES])
    return [(int(k), tied_at_means(sketch.classes[int(k)])) for k in frequent]


def tied_at_means(cells: Cells) -> _cells.Cells:
    r"""Return the filled cells for inference, squares and variances as if tied at their mean.

    Rows of a cell of width :math:`w` are off their mean by less than :math:`w`, which changes
    a sum of squares by less than :math:`w^2/4` per row.
    """
    filled = cells.weight > 0
    weight, probability, outcome, hits, rows, spread, happened = (
        x[filled]
        for x in (
            cells.weight, cells.probability, cells.outcome, cells.hits,
            cells.rows, cells.spread, cells.spread_outcome,
        )
    )  # fmt: skip
    mean = np.clip(probability / weight, 0.0, 1.0)
    hit_mean = np.divide(hits, outcome, out=np.zeros_like(mean), where=outcome > 0)
    square = np.maximum(spread * mean**2 + happened * (1.0 - 2.0 * hit_mean), 0.0)
    variance = spread * mean * (1.0 - mean)
    return _cells.Cells(rows, weight, spread, probability, outcome, square, variance)


def _smooth_bound(top: Cells, value: float) -> float:
    square = np.diff(top.edges) ** 2 / 4.0
    absolute = (top.outcome - top.hits) + (top.probability - top.hits)
    sigma = max(value, MIN_WIDTHS / GRID)
    curved = 2.0 / math.sqrt(2.0 * math.pi * math.e) * float(absolute @ square) / sigma**2
    moved = math.sqrt(2.0 / math.pi) * float(top.weight @ square) / sigma
    return (curved + moved) / float(top.weight.sum()) + GRID_ERROR


def _adaptive_bound(cells: Cells, n_bins: int) -> float:
    filled = cells.weight > 0
    count, hits, width = (x[filled] for x in (cells.weight, cells.outcome, np.diff(cells.edges)))
    end = np.cumsum(count)
    total = float(end[-1])
    border = equal_mass_ends(count, total, n_bins)[:-1]
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
    bins = sketch.classes.binned(sketch.n_bins)
    rows, mean = bins.rows, np.nan_to_num(bins.confidence)
    share = np.divide(bins.spread, bins.weight, out=np.zeros_like(rows), where=bins.weight > 0)
    variance = share * np.maximum(bins.probability - bins.square, 0.0)
    return classwise_floor_of_sums(
        rows.reshape(-1),
        (rows * mean).reshape(-1),
        variance.reshape(-1),
        total=sketch.scores["error"].weight,
        n_classes=sketch.n_classes,
    )


def _groups(sketch: Sketch, rng: np.random.Generator) -> tuple[GroupAssessment, ...]:
    members = [
        (name, column.names[i], column[i])
        for name, column in sketch.groups.items()
        for i in column.in_order()
    ]
    n_draws = draws_for_groups(sum(cells.n_rows >= MIN_ROWS for *_, cells in members))
    found = [
        assess_group(
            name, group, tied_at_means(cells), event=_event(sketch), n_draws=n_draws, rng=rng
        )
        for name, group, cells in members
    ]
    return with_holm(found) if found else ()
