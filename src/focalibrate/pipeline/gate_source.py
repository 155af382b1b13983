"""What limits are held to: rows in memory, or a sketch of any number of rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.choice import BLOCK_ENTRIES
from focalibrate.io import SketchFile
from focalibrate.metrics import Sketch, calibration_bounds
from focalibrate.metrics.bounds import ErrorBounds
from focalibrate.metrics.interval import Moments
from focalibrate.pipeline.examples import Examples
from focalibrate.pipeline.loss_mean import LossMean

LEAST_ROWS = 30
"""Fewer rows than this decide nothing."""


@dataclass(frozen=True)
class GatedGroup:
    """Rows that limits are held to: one group of a column."""

    column: str
    group: str
    n_rows: int
    place: int
    """of the group among the names of its column"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """Predictions as a gate sees them."""

    name: str
    n_rows: int
    n_classes: int
    class_names: tuple[str, ...] | None
    log_loss: LossMean
    bounds: Callable[..., ErrorBounds] = field(repr=False)
    """of the error of all rows; options as those of `calibration_bounds`"""
    grouped: Sketch | None = field(repr=False)
    """the cells of every group; None where there are no groups"""
    labels: NDArray[np.int64] | None = field(default=None, repr=False)
    """of rows in memory, ``[N]``"""
    nll: Floats | None = field(default=None, repr=False)
    """log loss of each of them, ``[N]``"""
    weights: Floats | None = field(default=None, repr=False)

    @classmethod
    def of_examples(cls, examples: Examples, calibrator: Calibrator | None, name: str) -> Self:
        """Return rows in memory, after `calibrator`."""
        if examples.cluster is not None:
            raise ValueError(
                "Limits are held to independent rows, so that `cluster` must not be given. "
                "`focalibrate evaluate --cluster` allows for it."
            )
        probs, nll = _probs_and_nll(examples, calibrator)
        weights = examples.weights

        def bounds(**options: Any) -> ErrorBounds:
            return calibration_bounds(
                probs, examples.labels, sample_weight=weights, copies=examples.copies, **options
            )

        grouped = None
        if examples.groups:
            grouped = Sketch.of(
                probs, examples.labels, sample_weight=weights, groups=dict(examples.groups)
            )
        return cls(
            name=name,
            n_rows=examples.n_rows,
            n_classes=examples.n_classes,
            class_names=examples.class_names,
            log_loss=LossMean.of(Moments.of(nll, weights)),
            bounds=bounds,
            grouped=grouped,
            labels=examples.labels,
            nll=nll,
            weights=weights,
        )

    @classmethod
    def of_sketch(cls, file: SketchFile, name: str) -> Self:
        """Return what a sketch holds of its rows."""
        return cls(
            name=name,
            n_rows=file.sketch.n,
            n_classes=file.sketch.n_classes,
            class_names=file.class_names,
            log_loss=LossMean.of(file.sketch.scores["nll"]),
            bounds=file.sketch.bounds,
            grouped=file.sketch if file.sketch.groups else None,
        )

    def parts(self, columns: tuple[str, ...]) -> tuple[list[GatedGroup], int]:
        """Return the groups of `columns` with enough rows, and how many others there are."""
        found: list[GatedGroup] = []
        n_small = 0
        for column in columns:
            if self.grouped is None or column not in self.grouped.groups:
                raise ValueError(
                    f"`by`: {self.name} has no groups by {column!r}. Make the sketch with them: "
                    f"focalibrate sketch PATH -o x.sketch --by {column}"
                )
            groups = self.grouped.groups[column]
            for place in groups.in_order():
                n_rows = groups[place].n_rows
                if n_rows < LEAST_ROWS:
                    n_small += 1
                else:
                    found.append(GatedGroup(column, groups.names[place], n_rows, place))
        return found, n_small

    def bounds_of(self, part: GatedGroup, **options: Any) -> ErrorBounds:
        """Return the bounds of the error of one group."""
        assert self.grouped is not None  # noqa: S101  (`parts` has found it there)
        return self.grouped.bounds(group=(part.column, part.place), **options)


def _probs_and_nll(
    examples: Examples, calibrator: Calibrator | None
) -> tuple[NDArray[Any], Floats]:
    """Return probabilities ``[N, K]`` and the log loss of each row, in blocks."""
    scores = examples.scores
    probs = np.empty(scores.shape, np.result_type(scores.dtype, np.float32))
    nll = np.empty(len(scores))
    for rows, log_probs in _blocks(examples, calibrator):
        probs[rows] = np.exp(log_probs)
        labels = examples.labels[rows]
        nll[rows] = -log_probs[np.arange(len(labels)), labels]
    return probs, nll


def _blocks(
    examples: Examples, calibrator: Calibrator | None
) -> Iterator[tuple[slice, NDArray[Any]]]:
    step = max(1, BLOCK_ENTRIES // examples.n_classes)
    for start in range(0, examples.n_rows, step):
        rows = slice(start, start + step)
        yield rows, examples.log_probs(calibrator, rows)


def row_nll(examples: Examples) -> Floats:
    """Return the log loss of each row."""
    nll = np.empty(examples.n_rows)
    for rows, log_probs in _blocks(examples, None):
        labels = examples.labels[rows]
        nll[rows] = -log_probs[np.arange(len(labels)), labels]
    return nll
