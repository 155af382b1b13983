"""What a monitor has seen: a sketch, and its metrics and arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.engines import versions
from focalibrate.io import SketchFile, check_time
from focalibrate.metrics import METRICS, ConfidentFraction, ReliabilityTable, Sketch
from focalibrate.metrics.binning import equal_width_index
from focalibrate.nn._ranks import Arrays

_SUMS = ("top", "positive", "classes", "scores", "totals")


@dataclass(frozen=True)
class MonitorMetrics:
    """What a `CalibrationMonitor` has seen, in the metrics of `focalibrate.metrics`."""

    n: int
    """examples"""
    error: float
    nll: float
    """inf if a label was impossible"""
    brier: float
    ece: float
    adaptive_ece: float
    mce: float
    s99: ConfidentFraction
    """share of examples with a confidence of at least 0.99, and their accuracy"""
    classwise_ece: float | None = None
    """None unless the monitor keeps it"""

    @classmethod
    def of(cls, sketch: Sketch) -> "MonitorMetrics":
        """Return the metrics of a sketch, without its test and noise floors."""
        mass, sure, right = sketch.totals[[1, 4, 5]].tolist()
        nll, brier, error = (sketch.scores[:, 0] / mass).tolist()
        table, classes = sketch.table, sketch.classwise_table
        return cls(
            n=sketch.n,
            error=error,
            nll=math.inf if sketch.n_zeros else nll,
            brier=brier,
            ece=table.ece(),
            adaptive_ece=sketch.cells.equal_mass(sketch.n_bins).ece(),
            mce=table.mce(),
            s99=ConfidentFraction(sure / mass, right / sure if sure else math.nan),
            classwise_ece=None if classes is None else classes.ece(),
        )

    def as_dict(self, prefix: str = "") -> dict[str, float]:
        """Return the numbers by name, for a logger: ``{"ece": 0.02, ...}``, each with `prefix`."""
        found = {name: getattr(self, name, None) for name in METRICS}
        numbers = {name: value for name, value in found.items() if value is not None}
        return {
            prefix + name: value for name, value in (numbers | {"s99": self.s99.fraction}).items()
        }


def arrays_of(sketch: Sketch) -> Arrays:
    """Return the sums of a sketch without groups by name."""
    found = {name: getattr(sketch, name) for name in _SUMS}
    kept = {name: sums for name, sums in found.items() if sums is not None}
    return kept | {"counts": np.array([sketch.n_classes, sketch.n_zeros, sketch.is_whole])}


def sketch_of(arrays: Arrays, n_bins: int) -> Sketch:
    """Return the sketch of what `arrays_of` gave."""
    n_classes, n_zeros, is_whole = arrays["counts"].tolist()
    top, positive, classes, scores, totals = (arrays.get(name) for name in _SUMS)
    assert top is not None and scores is not None and totals is not None  # noqa: S101, PT018
    return Sketch(
        n_classes=n_classes,
        n_bins=n_bins,
        top=top,
        positive=positive,
        classes=classes,
        scores=scores,
        totals=totals,
        n_zeros=n_zeros,
        is_whole=bool(is_whole),
    )


def sketch_file(
    sketch: Sketch, *, class_names: Sequence[str] | None, start: str | None, end: str | None
) -> SketchFile:
    """Return the sketch with what a file says about it; see `CalibrationMonitor.save`."""
    names = None if class_names is None else tuple(str(name) for name in class_names)
    if names is not None and len(names) != sketch.n_classes:
        raise ValueError(
            f"`class_names` must name the {sketch.n_classes} classes, got {len(names)} names."
        )
    for name, value in (("start", start), ("end", end)):
        if value is not None:
            check_time(value, name=name)
    return SketchFile(
        sketch=sketch,
        class_names=names,
        kind="logits",
        sources=("CalibrationMonitor",),
        versions={name: (v,) for name, v in versions(["numpy", "torch"]).items()},
        start=start,
        end=end,
    )


def sums_by_class(
    confidence: Floats,
    correct: NDArray[np.bool_],
    predicted: NDArray[np.integer],
    weights: Floats | None,
    *,
    n_classes: int,
    n_bins: int,
) -> Floats:
    """Return count, confidence and correct by predicted class and bin, ``[3, K, B]``."""
    at = predicted * n_bins + equal_width_index(confidence, n_bins)
    w = np.ones(len(at)) if weights is None else weights
    sums = [np.bincount(at, x, n_classes * n_bins) for x in (w, w * confidence, w * correct)]
    return np.stack(sums).astype(np.float64, copy=False).reshape(3, n_classes, n_bins)


def table_of(sums: Floats) -> ReliabilityTable:
    """Return the table of sums ``[3, B]`` over equally wide bins: count, confidence, correct."""
    count, confidence, correct = sums
    n_bins = len(count)
    return ReliabilityTable(count, confidence, correct, np.arange(n_bins + 1) / n_bins)
