"""All claims, and the functions that check them."""

from collections.abc import Iterable

from focalibrate._check import did_you_mean
from focalibrate_papers.claims import (
    any_loss,
    paper000,
    paper002,
    paper003,
    paper003_temperature,
    paper004,
    weights,
)
from focalibrate_papers.claims._claim import Claim, Outcome, check_claim

CLAIMS: tuple[Claim, ...] = (
    *paper000.claim,
    *paper002.claim,
    *paper003.claim,
    *paper003_temperature.claim,
    *paper004.claim,
    *weights.claim,
    *any_loss.claim,
)


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
