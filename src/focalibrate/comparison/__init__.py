"""Calibration methods side by side: compare them, choose one, say it in a sentence."""

from focalibrate.comparison.choose import Choice, choose
from focalibrate.comparison.compare import CANDIDATES, Candidate, compare
from focalibrate.comparison.result import Comparison, MethodResult
from focalibrate.comparison.verdict import verdict

__all__ = [
    "CANDIDATES",
    "Candidate",
    "Choice",
    "Comparison",
    "MethodResult",
    "choose",
    "compare",
    "verdict",
]
