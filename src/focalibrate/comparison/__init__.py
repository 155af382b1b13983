"""Calibration methods side by side: fit and judge them, choose one, sum it up in sentences."""

from focalibrate.comparison.choose import Choice, GroupChoice, GroupedRows, choose, choose_by_group
from focalibrate.comparison.compare import compare_methods
from focalibrate.comparison.judge import (
    MEANS,
    N_UNITS,
    Batch,
    Comparison,
    MethodResult,
    Scores,
    Sums,
    judge,
    score_rows,
)
from focalibrate.comparison.paired import PairedMeans, Score
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
