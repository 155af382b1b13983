"""Calibration methods side by side: compare them, choose one, say it in a sentence."""

from focalibrate.comparison.choose import Choice, choose
from focalibrate.comparison.compare import compare
from focalibrate.comparison.paired import PairedMeans, Score
from focalibrate.comparison.result import Comparison, MethodResult
from focalibrate.comparison.row_scores import RowScores, score_rows
from focalibrate.comparison.verdict import verdict

__all__ = [
    "Choice",
    "Comparison",
    "MethodResult",
    "PairedMeans",
    "RowScores",
    "Score",
    "choose",
    "compare",
    "score_rows",
    "verdict",
]
