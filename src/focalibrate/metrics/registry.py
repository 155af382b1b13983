"""Every metric, declared once."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from focalibrate._array import Floats
from focalibrate.metrics.errors import adaptive_ece, classwise_ece, ece, mce
from focalibrate.metrics.scores import ROWS, brier_score, error_rate, nll
from focalibrate.metrics.smooth import smooth_ece

MetricName = Literal[
    "ece", "adaptive_ece", "classwise_ece", "smooth_ece", "mce", "nll", "brier", "error"
]


@dataclass(frozen=True, eq=False)
class Metric:
    """One metric: its name, its heading and its function."""

    name: MetricName
    heading: str
    """of a table column, with its unit"""
    unit: Literal["%", ""]
    """"%": a fraction that is shown in percent"""
    function: Callable[..., float]
    """``function(probs, labels, *, sample_weight=None, binary=False, ...)``"""

    @property
    def rows(self) -> Callable[..., Floats] | None:
        """The function of the term of each row, where the metric is a mean of them."""
        return ROWS.get(self.function)

    @property
    def has_interval(self) -> bool:
        """Whether a bootstrap interval is valid: only for means over rows."""
        return self.rows is not None

    def text(self, value: float) -> str:
        """Return a value as a table shows it."""
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        return f"{100 * value:.2f}" if self.unit == "%" else f"{value:.4f}"


_ALL = (
    Metric("ece", "ECE %", "%", ece),
    Metric("adaptive_ece", "adaptive ECE %", "%", adaptive_ece),
    Metric("classwise_ece", "classwise ECE %", "%", classwise_ece),
    Metric("smooth_ece", "smooth ECE %", "%", smooth_ece),
    Metric("mce", "MCE %", "%", mce),
    Metric("nll", "log loss", "", nll),
    Metric("brier", "Brier score", "", brier_score),
    Metric("error", "error %", "%", error_rate),
)

METRICS: Mapping[MetricName, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})
"""Every metric by its name; intervals, tables and headings follow from it."""
