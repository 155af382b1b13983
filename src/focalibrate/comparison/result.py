"""What a comparison of calibration methods found."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import METHODS, Calibrator
from focalibrate.calibrate.choice import FitSettings, Fitted
from focalibrate.comparison.paired import Score
from focalibrate.metrics import Cells, Sketch
from focalibrate.metrics.errors import MetricName

MEANS: tuple[MetricName, ...] = ("nll", "brier", "error")
"""Scores that are means over examples: they have intervals and paired differences."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of one method, by unit: a row, or a random group of rows where there are many.

    Means of random groups, weighted by their size, are as independent as rows are: means,
    standard errors and bootstraps over them are those over rows, in memory that does not grow.
    """

    nll: Floats
    """mean log loss of each unit ``[U]``"""
    brier: Floats
    confidence: Floats
    correct: Floats
    """share of right predictions of each unit ``[U]``"""
    second: Floats
    """share of predictions of the second class of each unit ``[U]``"""
    calibration: dict[MetricName, float]
    """ECE and its relatives, of all rows"""
    n_zeros: int
    """examples with probability 0 at their true class"""
    table: Cells = field(repr=False)
    """reliability table of all rows"""
    sketch: Sketch = field(repr=False)
    """of all rows"""
    are_rows: bool = True
    """whether every unit is one row"""
    n_changed: int = 0
    """rows whose predicted class the calibrator to deploy changes"""

    @property
    def positive(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Of two classes and units that are rows: P(second class), and whether it is true."""
        is_second = self.second > 0.5
        probability = np.where(is_second, self.confidence, 1.0 - self.confidence)
        return probability, (self.correct > 0.5) == is_second

    def means(self) -> Floats:
        """Return what `MEANS` average, ``[U, 3]``."""
        return np.stack([self.nll, self.brier, 1.0 - self.correct], axis=1)


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One method: its calibrator, fitted on all rows, and its scores on held-out rows."""

    method: str
    label: str
    """the name that is shown"""
    fitted: Fitted
    """on all validation rows, and without each fold unless there is a test set"""
    scores: dict[MetricName, Score]
    """log loss, Brier score and error with 95 % intervals; calibration errors without"""
    to_raw: dict[MetricName, Score]
    """difference to the uncalibrated model, paired by row; negative is better"""
    to_temperature: dict[MetricName, Score] | None
    """difference to temperature scaling by log loss, if that was compared"""
    n_predictions_changed: int
    """by `calibrator`, on the rows evaluated"""
    units: Scores
    """per row, or random group of rows, on held-out rows"""
    why_not: str = ""
    """why the method cannot be chosen; empty if it can be"""

    @property
    def complexity(self) -> int:
        """Lower is simpler."""
        return METHODS[self.method].complexity

    @property
    def calibrator(self) -> Calibrator:
        """The one fitted on all validation rows, to deploy."""
        return self.fitted.whole

    @property
    def notes(self) -> tuple[str, ...]:
        """What the fit on all validation rows warned of."""
        return self.fitted.notes


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side on the same examples."""

    rows: tuple[MethodResult, ...]
    skipped: tuple[tuple[str, str], ...]
    """methods that could not be fitted, and why"""
    left_out: tuple[tuple[str, str], ...]
    """default methods that were not tried, and why; name them in `methods` to include them"""
    settings: FitSettings
    """what the fits were told"""
    n_fitted: int
    n_judged: int
    n_classes: int
    n_resamples: int
    seed: int
    folds: tuple[NDArray[np.intp], ...] = ()
    """the rows that each fold holds out; empty where there is a test set"""
    weights: NDArray[np.float64] | None = None
    """of the rows evaluated ``[N]``"""
    cluster: NDArray[np.intp] | None = None
    """number of the cluster of each row evaluated ``[N]``; None where rows are independent"""
    sole_member: str | None = None
    """the only method with a weight in the average, which then has no row of its own"""

    @property
    def judged_on(self) -> Literal["test", "cross-fit"]:
        """Whether the rows that were fitted on were cross-validated."""
        return "cross-fit" if self.folds else "test"

    @property
    def n_folds(self) -> int:
        """Number of folds, 0 where there is a test set."""
        return len(self.folds)

    def row(self, method: str) -> MethodResult:
        """Return the row of `method`."""
        for row in self.rows:
            if row.method == method:
                return row
        known = ", ".join(row.method for row in self.rows)
        raise ValueError(f"`method` must be one of those compared, {known}; got {method!r}.")

    @cached_property
    def fold_of_row(self) -> NDArray[np.intp]:
        """The fold that holds out each row ``[N]``; all 0 where there is a test set."""
        found = np.zeros(self.n_judged, dtype=np.intp)
        for number, rows in enumerate(self.folds):
            found[rows] = number
        return found

    def held_out_probs(
        self, method: str, logits: NDArray[Any], index: Any = slice(None)
    ) -> NDArray[Any]:
        """Return the probabilities that `method` was judged by, from its kept calibrators.

        The probabilities of a row come from a calibrator that was not fitted on it.

        Args:
            method: a method of this comparison.
            logits: all the rows judged, or those that are kept of them, ``[N, K]``.
            index: which of them to return; default: all.
        """
        rows = logits[index]
        fold = self.fold_of_row[: len(logits)][index]
        folds = tuple(np.flatnonzero(fold == number) for number in range(self.n_folds))
        probs = np.empty(rows.shape, dtype=np.result_type(rows.dtype, np.float32))
        for at, log_probs in self.row(method).fitted.held_out(rows, folds):
            probs[at] = np.exp(log_probs)
        return probs
