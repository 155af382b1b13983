"""A claim of a paper, what checking it found, and whether that was expected."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "holds where", "refuted"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the numbers say about a claim. Every number in the text was computed just now."""

    verdict: Verdict
    evidence: str
    where: str | None = None
    counterexample: str | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a paper, in our words, and the function that puts it to the test."""

    id: str
    source: str
    statement: str
    expected: Verdict
    check: Callable[[], Finding]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A claim after its check: a finding, or the error that kept the check from ending."""

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


def holds_if(is_true: bool, evidence: str, *, otherwise: str) -> Finding:
    """Return "holds", or "refuted" by the text `otherwise`."""
    if is_true:
        return Finding(verdict="holds", evidence=evidence)
    return Finding(verdict="refuted", evidence=evidence, counterexample=otherwise)


def holds_where_if(is_true: bool, where: str, evidence: str, *, otherwise: str) -> Finding:
    """Return "holds where", or "refuted" by the text `otherwise`."""
    if is_true:
        return Finding(verdict="holds where", where=where, evidence=evidence)
    return Finding(verdict="refuted", evidence=evidence, counterexample=otherwise)


def refuted_if(
    is_false: bool, counterexample: str, evidence: str, *, where: str | None = None
) -> Finding:
    """Return "refuted" by a counterexample, or "holds" if that turned out to be none."""
    if is_false:
        return Finding(
            verdict="refuted", evidence=evidence, counterexample=counterexample, where=where
        )
    return Finding(verdict="holds", evidence=evidence)
