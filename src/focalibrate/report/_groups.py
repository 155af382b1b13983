"""Groups of rows, each assessed by itself, for the page's forest plot."""

import math
from collections.abc import Sequence
from typing import Any

from focalibrate.comparison import GroupChoice
from focalibrate.metrics import GroupAssessment
from focalibrate.report._numbers import short, shorts

MAX_GROUPS = 60
"""Most groups shown: those with the smallest p-values."""


def group_records(groups: Sequence[GroupAssessment]) -> list[dict[str, Any]]:
    """Return the groups as JSON, at most `MAX_GROUPS`, in the order given."""

    def doubt(i: int) -> float:
        p = groups[i].p_adjusted
        return math.inf if math.isnan(p) else p

    worst = sorted(range(len(groups)), key=doubt)[:MAX_GROUPS]
    return [_record(groups[i]) for i in sorted(worst)]


def by_group_record(found: GroupChoice) -> dict[str, Any]:
    """Return which groups get a calibrator of their own, as JSON."""
    tried = [trial for trial in found.trials if not trial.reason]
    shown = sorted(tried, key=lambda trial: trial.p_adjusted)[:MAX_GROUPS]
    own = {}
    if found.calibrator is not None:
        members = zip(found.calibrator.groups, found.calibrator.own, strict=True)
        own = {(found.calibrator.column, group): c for group, c in members if c is not None}
    return {
        "summary": found.summary,
        "has_own": found.calibrator is not None,
        "trials": [
            {
                "name": f"{trial.column} = {trial.group}",
                "n": trial.n,
                "shared": short(trial.shared),
                "own": short(trial.own),
                "p_value": short(trial.p_adjusted),
                "calibrator": own[trial.column, trial.group].describe()
                if (trial.column, trial.group) in own
                else None,
            }
            for trial in shown
        ],
    }


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
