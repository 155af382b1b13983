"""Calibration methods side by side: fit and judge them, choose one, sum it up in sentences."""

from focalibrate.comparison.by_group import GroupChoice, GroupedRows, choose_by_group
from focalibrate.comparison.choose import Choice, choose
from focalibrate.comparison.compare import compare_methods
from focalibrate.comparison.judge import N_UNITS, Batch, Sums, judge, score_rows
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
    "MethodResult",
    "PairedMeans",
    "Score",
    "Scores",
    "Sums",
    "Verdict",
    "assessed",
    "choose",
    "choose_by_group",
    "compare_methods",
    "judge",
    "parameters",
    "score_rows",
    "verdict",
]
