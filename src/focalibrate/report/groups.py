"""Groups of rows, each assessed by itself, for the page's forest plot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from focalibrate.metrics import Assessment
from focalibrate.report._numbers import short, shorts

MAX_GROUPS = 60
"""Most groups drawn: those of the smallest p-value."""


@dataclass(frozen=True, kw_only=True)
class AssessedGroup:
    """The rows of one value of a column."""

    name: str
    """such as ``"sex = female"``"""
    assessment: Assessment
    p_value: float
    """corrected for the number of groups"""
    note: str = ""
    """such as ``"too few rows to judge"``"""


def group_records(groups: Sequence[AssessedGroup]) -> list[dict[str, Any]]:
    """Return the groups as JSON, at most `MAX_GROUPS`, in the order given."""
    worst = sorted(range(len(groups)), key=lambda i: groups[i].p_value)[:MAX_GROUPS]
    return [
        {
            "name": groups[i].name,
            "n": groups[i].assessment.n,
            "gap": _interval(groups[i].assessment.gap),
            "rms": _interval(groups[i].assessment.rms),
            "p_value": short(groups[i].p_value),
            "verdict": groups[i].note or _verdict(groups[i]),
        }
        for i in sorted(worst)
    ]


def _verdict(group: AssessedGroup) -> str:
    if group.p_value < 0.05:
        return group.assessment.direction or "miscalibrated"
    if group.assessment.verdict == "too few rows to judge":
        return group.assessment.verdict
    return "no evidence of miscalibration"


def _interval(value: Any) -> list[float | None]:
    return shorts((value.estimate, value.low, value.high))
