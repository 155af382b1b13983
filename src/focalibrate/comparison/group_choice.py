"""Which groups get a calibrator of their own, and what that gains."""

import math
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from focalibrate.calibrate import METHODS, GroupedCalibrator
from focalibrate.comparison.paired import Score
from focalibrate.metrics.words import p_text

LEAST_ROWS = 100
"""Groups of fewer rows keep the shared calibrator: too few to fit and test another."""
LEVEL = 0.05
MAX_NAMED = 5
"""More groups than this are counted, not named."""


@dataclass(frozen=True)
class GroupTrial:
    """How much one group would gain from a calibrator of its own."""

    column: str
    group: str
    n: int
    """rows evaluated on"""
    shared: float
    """held-out log loss of the shared calibrator on them"""
    own: float
    """held-out log loss of a calibrator fitted on the group alone; nan where none was"""
    p_value: float
    """one-sided, of `own` being lower, paired by row; nan where none was fitted"""
    p_adjusted: float
    """the same, corrected for the number of groups (Holm)"""
    reason: str
    """why no calibrator was fitted, or empty"""

    @property
    def is_better(self) -> bool:
        """Whether the group gets a calibrator of its own."""
        return self.p_adjusted < LEVEL

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON; a number that is not defined is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        } | {"is_better": self.is_better}


@dataclass(frozen=True, eq=False)
class GroupChoice:
    """Which groups get a calibrator of their own, and what that gains."""

    method: str
    """the method fitted on groups"""
    trials: tuple[GroupTrial, ...]
    """every group of every column"""
    calibrator: GroupedCalibrator | None
    """None where the shared calibrator is as good for every group"""
    shared: Score
    """held-out log loss of the shared calibrator, all rows"""
    held_out: Score
    """the same with the groups' own calibrators, each fold as decided without it"""
    log_probs: NDArray[Any] | None = field(default=None, repr=False)
    """held-out log-probabilities of the calibrator ``[N, K]``; None where it is None"""
    has_clusters: bool = False
    """whether rows are dependent; the tests count them as independent"""

    @property
    def summary(self) -> str:
        """The finding as a sentence."""
        tried = [trial for trial in self.trials if not trial.reason]
        if not tried:
            return (
                "One calibrator serves all groups: none has enough rows to fit and test its own "
                f"(at least {LEAST_ROWS}, with mistakes among them)"
            )
        if self.calibrator is None:
            return (
                "One calibrator serves all groups: none of the "
                f"{len(tried)} that were tried has a significantly lower held-out log loss with "
                "one of its own"
            )
        better = [t for t in tried if t.is_better and t.column == self.calibrator.column]
        if len(better) > MAX_NAMED:
            named = f"{len(better)} groups of {self.calibrator.column}"
        else:
            named = ", ".join(f"{t.column} = {t.group} ({p_text(t.p_adjusted)})" for t in better)
        gain = self.shared.estimate - self.held_out.estimate
        how = " (counted by row, not by cluster)" if self.has_clusters else ""
        return (
            f"A calibrator of its own ({METHODS[self.method].label}) significantly{how} lowers "
            f"the held-out log loss of {named}; decided without each fold, that of all rows is "
            f"{abs(gain):.4f} {'lower' if gain > 0 else 'higher'}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        return {
            "method": self.method,
            "summary": self.summary,
            "column": None if self.calibrator is None else self.calibrator.column,
            "shared": _record(self.shared),
            "held_out": _record(self.held_out),
            "groups": [trial.to_dict() for trial in self.trials],
        }


def _record(value: Score) -> dict[str, float | None]:
    numbers = {"estimate": value.estimate, "low": value.low, "high": value.high}
    return {k: v if v is None or math.isfinite(v) else None for k, v in numbers.items()}
