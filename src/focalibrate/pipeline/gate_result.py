"""What a gate found: pass, fail, or not enough data to tell."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from focalibrate.pipeline._gate_text import junit_text, markdown_text
from focalibrate.pipeline.loss_mean import LossMean

Status = Literal["pass", "fail", "undetermined"]
LimitName = Literal["ece", "rms", "nll_increase"]

EXIT_CODES: dict[Status, int] = {"pass": 0, "fail": 1, "undetermined": 3}
BAD_INPUT = 2
"""Exit status if the input could not be read or the limits make no sense."""
WORST_FIRST: tuple[Status, ...] = ("fail", "undetermined", "pass")
MOST_SHOWN = 20
"""Most groups that a summary lists; JSON and JUnit list all."""
LABELS: dict[LimitName, str] = {
    "ece": "ECE",
    "rms": "RMS calibration error",
    "nll_increase": "log loss increase",
}


@dataclass(frozen=True)
class LimitCheck:
    """One limit, and what the data say about it."""

    name: LimitName
    limit: float
    estimate: float
    low: float
    """the true value is at least this, at the level of the check"""
    high: float
    """the true value is at most this"""
    status: Status
    message: str
    """the finding as a sentence"""
    column: str | None = None
    """column of the groups, if one group was checked"""
    group: str | None = None
    n_rows: int | None = None
    """of the group"""

    @property
    def label(self) -> str:
        """What is limited, for people."""
        text = LABELS[self.name]
        return text if self.column is None else f"{text}, {self.column} {self.group}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON; an infinite number is None."""
        numbers = {"limit": self.limit, "estimate": self.estimate} | {
            "low": self.low,
            "high": self.high,
        }
        return {
            "name": self.name,
            "column": self.column,
            "group": self.group,
            "rows": self.n_rows,
            "status": self.status,
            **{k: v if math.isfinite(v) else None for k, v in numbers.items()},
            "message": self.message,
        }


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """Whether predictions are within their limits; made by `check_predictions`."""

    name: str
    """the file, or "predictions" for arrays"""
    n_rows: int
    n_classes: int
    alpha: float
    """a model within every limit fails with at most this probability"""
    checks: tuple[LimitCheck, ...]
    log_loss: LossMean
    """mean log loss of the predictions, which a later run can take as its baseline"""
    baseline: str | None = None
    """what the log loss was compared with, and how"""
    by: tuple[str, ...] = ()
    """columns whose groups were checked too"""
    n_small_groups: int = 0
    """groups of fewer than 30 rows, which were not checked"""

    @property
    def status(self) -> Status:
        """Return "fail" if a limit is exceeded, "pass" if none is, else "undetermined"."""
        found = {check.status for check in self.checks}
        if "fail" in found:
            return "fail"
        if self.by and not self.group_checks:
            return "undetermined"
        return "undetermined" if "undetermined" in found else "pass"

    @property
    def group_checks(self) -> tuple[LimitCheck, ...]:
        """The checks of groups."""
        return tuple(check for check in self.checks if check.column is not None)

    @property
    def shown(self) -> tuple[LimitCheck, ...]:
        """The checks worth a line: of all rows, and of up to 20 groups that do not pass."""
        groups = [check for check in self.group_checks if check.status != "pass"]
        groups.sort(key=lambda check: (check.status != "fail", check.limit - check.low))
        whole = (check for check in self.checks if check.column is None)
        return (*whole, *groups[:MOST_SHOWN])

    @property
    def note(self) -> str:
        """What was found in the groups, and which were left out, as a sentence; empty without."""
        if not self.by:
            return ""
        worst: dict[tuple[str | None, str | None], Status] = {}
        for check in self.group_checks:
            key = check.column, check.group
            worst[key] = min(worst.get(key, "pass"), check.status, key=WORST_FIRST.index)
        n = Counter(worst.values())
        text = (
            f"Groups by {', '.join(self.by)}: {n['fail']:,} fail, {n['pass']:,} pass, "
            f"{n['undetermined']:,} without enough data to tell."
        )
        if self.n_small_groups:
            text += f" {self.n_small_groups:,} with fewer than 30 rows were not checked."
        return text

    @property
    def exit_code(self) -> int:
        """Return 0 for pass, 1 for fail, 3 for undetermined."""
        return EXIT_CODES[self.status]

    @property
    def summary(self) -> str:
        """The finding in a few words."""
        words = {"pass": "PASS", "fail": "FAIL", "undetermined": "NOT ENOUGH DATA TO TELL"}
        return f"{words[self.status]}: {self.name}, {self.n_rows:,} rows"

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON."""
        return {
            "focalibrate_check": 1,
            "status": self.status,
            "exit_code": self.exit_code,
            "name": self.name,
            "rows": self.n_rows,
            "classes": self.n_classes,
            "alpha": self.alpha,
            "baseline": self.baseline,
            "by": list(self.by),
            "small_groups": self.n_small_groups,
            "log_loss": self.log_loss.to_dict(),
            "checks": [check.to_dict() for check in self.checks],
        }

    def to_markdown(self) -> str:
        """Return a summary for a page of a CI job, such as ``$GITHUB_STEP_SUMMARY``."""
        return markdown_text(self)

    def to_junit(self) -> str:
        """Return JUnit XML: a case per limit and group; one that is undetermined is an error."""
        return junit_text(self)
