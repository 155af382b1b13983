"""The claims of the papers, each checked numerically when asked."""

from focalibrate.theory.claims._claim import Claim, Finding, Outcome, Verdict, check_claim
from focalibrate.theory.claims.registry import CLAIMS, check_claims, select_claims

__all__ = [
    "CLAIMS",
    "Claim",
    "Finding",
    "Outcome",
    "Verdict",
    "check_claim",
    "check_claims",
    "select_claims",
]
