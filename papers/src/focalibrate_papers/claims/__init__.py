"""The claims of the papers, each checked numerically on request."""

from focalibrate_papers.claims._claim import (
    SCAN,
    VERDICTS,
    Claim,
    Finding,
    Grade,
    Outcome,
    check_claim,
)
from focalibrate_papers.claims._nearest import grid_line, minimax_line, worst_case
from focalibrate_papers.claims.registry import CLAIMS, check_claims, select_claims

__all__ = [
    "CLAIMS",
    "SCAN",
    "VERDICTS",
    "Claim",
    "Finding",
    "Grade",
    "Outcome",
    "check_claim",
    "check_claims",
    "grid_line",
    "minimax_line",
    "select_claims",
    "worst_case",
]
