"""Calibration methods side by side: fit and judge them, choose one, sum it up in sentences."""

from focalibrate.comparison.by_group import GroupedRows, choose_by_group
from focalibrate.comparison.choose import Choice, choose
from focalibrate.comparison.compare import (
    MethodFits,
    compare_judged,
    compare_methods,
    fit_methods,
)
from focalibrate.comparison.group_choice import GroupChoice
from focalibrate.comparison.judge import N_UNITS, Batch, Judged, judge, score_rows
from focalibrate.comparison.paired import PairedMeans, Score
from focalibrate.comparison.result import MEANS, Comparison, MethodResult, Scores
from focalibrate.comparison.verdict import Verdict, assessed, parameters, verdict

__all__ = [
    "MEANS",
    "N_UNITS",
    "Batch",
    "Choice",
    "Comparison",
    "GroupChoice",
    "GroupedRows",
    "Judged",
    "MethodFits",
    "MethodResult",
    "PairedMeans",
    "Score",
    "Scores",
    "Verdict",
    "assessed",
    "choose",
    "choose_by_group",
    "compare_judged",
    "compare_methods",
    "fit_methods",
    "judge",
    "parameters",
    "score_rows",
    "verdict",
]
