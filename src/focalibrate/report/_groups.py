"""Groups of rows, each assessed by itself, for the page's forest plot."""

import math
from collections.abc import Sequence
from typing import Any

from focalibrate.metrics import GroupAssessment
from focalibrate.report._numbers import short, shorts

MAX_GROUPS = 60
"""Most groups shown: those of the smallest p-value."""


def group_records(groups: Sequence[GroupAssessment]) -> list[dict[str, Any]]:
    """Return the groups as JSON, at most `MAX_GROUPS`, in the order given."""

    def doubt(i: int) -> float:
        p = groups[i].p_adjusted
        return math.inf if math.isnan(p) else p

    worst = sorted(range(len(groups)), key=doubt)[:MAX_GROUPS]
    return [_record(groups[i]) for i in sorted(worst)]


def _record(group: GroupAssessment) -> dict[str, Any]:
    verdict: str = group.verdict
    if verdict == "miscalibrated" and group.gap.excludes_zero:
        verdict = "overconfident" if group.gap.estimate > 0 else "underconfident"
    return {
        "name": f"{group.column} = {group.group}" if group.column else group.group,
        "n": group.n,
        "gap": shorts((group.gap.estimate, group.gap.low, group.gap.high)),
        "rms": shorts((group.rms.estimate, group.rms.low, group.rms.high)),
        "p_value": short(group.p_adjusted),
        "verdict": verdict,
    }
