"""The claims of the papers, each checked numerically on request.

claims.csv has their words: the statement in ours, the paper's own sentence, the verdict expected.
"""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from focalibrate._check import did_you_mean
from focalibrate_papers.claims import (  # noqa: F401  their checks enter `CHECKS`
    any_loss,
    paper000,
    paper002,
    paper003,
    paper003_temperature,
    paper004,
    weights,
)
from focalibrate_papers.claims._bounds import temperature_bounds, tight_temperature_bounds
from focalibrate_papers.claims._claim import (
    CHECKS,
    SCAN,
    VERDICTS,
    Claim,
    Finding,
    Grade,
    Outcome,
    check_claim,
)
from focalibrate_papers.claims._nearest import grid_line, minimax_line, worst_case

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
    "temperature_bounds",
    "tight_temperature_bounds",
    "worst_case",
]


def _read() -> Iterator[Claim]:
    with Path(__file__).with_name("claims.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            is_one_symbol = bool(row.pop("is_one_symbol"))
            yield Claim(**row, is_one_symbol=is_one_symbol, check=CHECKS[row["id"]])  # type: ignore[arg-type]


CLAIMS: tuple[Claim, ...] = tuple(_read())


def select_claims(ids: Iterable[str] | None = None) -> tuple[Claim, ...]:
    """Return the claims with the given ids, or all, in the order of the papers."""
    wanted = tuple(ids) if ids is not None else ()
    known = [claim.id for claim in CLAIMS]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(
            f"there is no claim {unknown[0]!r}.{did_you_mean(unknown[0], known)} Known are "
            f"{', '.join(known)}."
        )
    return tuple(claim for claim in CLAIMS if not wanted or claim.id in wanted)


def check_claims(ids: Iterable[str] | None = None) -> list[Outcome]:
    """Check the claims with the given ids, or all.

    Args:
        ids: such as ``"003-prop-5"``; None or empty for all.

    Returns:
        One outcome per claim, in the order of the papers.

    Example:
        >>> (outcome,) = check_claims(["004-fig-1"])
        >>> outcome.finding.verdict, outcome.is_expected
        ('slip', True)
    """
    return [check_claim(claim) for claim in select_claims(ids)]
