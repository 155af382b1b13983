"""Calibration methods side by side: compare them, choose one, sum it up in a sentence."""

from focalibrate.comparison.batches import fitted_methods, judge_batches, judged_by
from focalibrate.comparison.by_group import GroupedRows, choose_by_group
from focalibrate.comparison.choose import Choice, choose
from focalibrate.comparison.compare import compare
from focalibrate.comparison.group_choice import GroupChoice
from focalibrate.comparison.grouped_scores import GroupedScores
from focalibrate.comparison.paired import PairedMeans, Score
from focalibrate.comparison.result import Comparison, MethodResult
from focalibrate.comparison.row_scores import RowScores, score_rows
from focalibrate.comparison.row_sums import JudgedBatch, JudgedSums, judged_sums
from focalibrate.comparison.verdict import verdict

__all__ = [
    "Choice",
    "Comparison",
    "GroupChoice",
    "GroupedRows",
    "GroupedScores",
    "JudgedBatch",
    "JudgedSums",
    "MethodResult",
    "PairedMeans",
    "RowScores",
    "Score",
    "choose",
    "choose_by_group",
    "compare",
    "fitted_methods",
    "judge_batches",
    "judged_by",
    "judged_sums",
    "score_rows",
    "verdict",
]
