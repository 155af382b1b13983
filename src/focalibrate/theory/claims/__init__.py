"""The claims of the papers, each checked numerically when asked."""

from focalibrate.theory.claims._claim import Claim, Finding, Outcome, Verdict, check_claim
from focalibrate.theory.claims.registry import CLAIMS, check_claims, iter_outcomes, select_claims

__all__ = [
    "CLAIMS",
    "Claim",
    "Finding",
    "Outcome",
    "Verdict",
    "check_claim",
    "check_claims",
    "iter_outcomes",
    "select_claims",
]
