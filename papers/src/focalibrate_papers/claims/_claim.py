"""A claim of a paper, what checking it found, and whether that was expected."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Grade = Literal["holds", "holds where", "fair", "digit", "slip", "false"]
Erratum = Literal["digit", "slip", "false"]
VERDICTS: dict[Grade, str] = {
    "false": "the statement does not hold as printed",
    "slip": "a wrong sign, symbol, caption or direction that is right elsewhere in the same paper",
    "digit": "a number whose last digit is wrong, or that is off by a small margin",
    "fair": "right to the precision that the sentence intends",
    "holds where": "right under a condition that the sentence does not state",
    "holds": "right in every case tried, which is evidence, not proof",
}
"""What each verdict means, the most serious first."""
SCAN = (
    "Our copy of the paper is a scan, in which a single symbol may have been misread: compare the "
    "printed page."
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the numbers say about a claim. Every number in the text was computed just now."""

    verdict: Grade
    evidence: str
    where: str | None = None
    counterexample: str | None = None


Check: TypeAlias = Callable[[], Finding]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a paper, in our words and in its own, and the function that tests it."""

    id: str
    source: str
    statement: str
    sentence: str
    """the paper's own sentence, complete, with its condition and where it is"""
    expected: Grade
    check: Check
    is_one_symbol: bool = False
    """whether a misread symbol of our scanned copy could explain the finding"""


CHECKS: dict[str, Check] = {}
"""The functions that test the claims of claims.csv, by id."""


def checks(name: str) -> Callable[[Check], Check]:
    """Return a decorator: its function tests the claim `name`."""

    def added(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return added


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A claim after its check: a finding, or the error that stopped the check."""

    claim: Claim
    finding: Finding | None
    error: str | None
    seconds: float

    @property
    def is_expected(self) -> bool:
        """Whether the verdict is the one that the claim was registered with."""
        return self.finding is not None and self.finding.verdict == self.claim.expected


def check_claim(claim: Claim) -> Outcome:
    """Run the check of one claim; an exception becomes an outcome that is not expected."""
    start = time.perf_counter()
    finding, error = None, None
    try:
        finding = claim.check()
    except Exception as problem:  # one broken check must not hide the other verdicts
        error = f"{type(problem).__name__}: {problem}"
    return Outcome(claim=claim, finding=finding, error=error, seconds=time.perf_counter() - start)


def holds_if(
    is_true: bool,
    evidence: str,
    *,
    otherwise: str,
    grade: Grade = "holds",
    where: str | None = None,
) -> Finding:
    """Return `grade`, or "false" with the counterexample `otherwise`."""
    if is_true:
        return Finding(verdict=grade, evidence=evidence, where=where)
    return Finding(verdict="false", evidence=evidence, counterexample=otherwise)


def erratum_if(
    is_wrong: bool,
    counterexample: str,
    evidence: str,
    *,
    grade: Erratum = "false",
    where: str | None = None,
) -> Finding:
    """Return the grade of an erratum, or "holds" if the counterexample does not hold."""
    if is_wrong:
        return Finding(
            verdict=grade, evidence=evidence, counterexample=counterexample, where=where
        )
    return Finding(verdict="holds", evidence=evidence)
