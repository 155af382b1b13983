"""Scores of a method as means over random groups of rows."""

from dataclasses import dataclass, field

import numpy as np

from focalibrate._array import Floats
from focalibrate.metrics import MetricName, ReliabilityTable, Sketch


@dataclass(frozen=True, eq=False)
class GroupedScores:
    """The scores of one method as means over random groups of rows.

    Means of random groups, weighted by their size, are as independent as rows are: means,
    standard errors and bootstraps over them are those over rows, in memory that does not grow.
    """

    nll: Floats
    """log loss of each group ``[G]``"""
    brier: Floats
    error: Floats
    confidence: Floats
    correct: Floats
    """share of right predictions of each group ``[G]``"""
    calibration: dict[MetricName, float]
    n_zeros: int
    """examples with probability 0 at their true class"""
    sketch: Sketch = field(repr=False)
    """of all rows"""

    def means(self) -> Floats:
        """Return what `MEANS` average, ``[G, 3]``."""
        return np.stack([self.nll, self.brier, self.error], axis=1)

    def table(self, n_bins: int) -> ReliabilityTable:
        """Return the reliability table of all rows."""
        _ = n_bins  # that of the sketch, which is that of the comparison
        return self.sketch.table
