"""What paper 002's tables claim of focal loss, judged on each set."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from focalibrate.experiments._pool import (
    SET_NAMES,
    UNPUBLISHED,
    difference,
    judged,
    losses_in,
    network_name,
    problems_in,
)
from focalibrate.experiments._printed import MAIN, PRINTED, Printed
from focalibrate.experiments.experiment import Rows
from focalibrate.experiments.networks import SHOWN, Problem
from focalibrate.experiments.verdict import (
    Interval,
    Line,
    judge_above,
    judge_number,
    mean_interval,
)

FOCAL = ("flsd53", "fl3")
ECE_TOLERANCE = 0.5
"""Points of ECE within which a number of the paper counts as found again."""


@dataclass(frozen=True)
class Measure:
    """A number in which two losses are compared."""

    metric: str
    printed: Callable[[Printed], float]
    shown: Callable[[Printed], float]
    """what the paper prints, where that is not the number compared"""
    what: str
    """the number that is lower, such as ``"ECE before T"``"""
    unit: str
    bound: float = 0.0
    """how much worse still counts as no worse"""

    def words(self, *, below: bool) -> str:
        """Return the comparison in words, to go between the names of two losses."""
        if self.bound:
            most = "at most" if below else "more than"
            return f"has {most} {self.bound:g} point more {self.what} than"
        return f"has a {'lower' if below else 'higher'} {self.what} than"


BEFORE = Measure("ECE %", lambda p: p.ece, lambda p: p.ece, "ECE before T", "points of ECE")
AFTER = Measure(
    "ECE % after T", lambda p: p.ece_post, lambda p: p.ece_post, "ECE after T", "points of ECE"
)
NEAR_ONE = Measure(
    "|ln T|",
    lambda p: abs(math.log(p.temperature)),
    lambda p: p.temperature,
    "|ln T| (T nearer to 1)",
    "of |ln T|",
)
ERROR = Measure("error %", lambda p: p.error, lambda p: p.error, "error", "points of error", 1.0)


def claims(rows: Rows, *, is_full: bool) -> Iterator[Line]:
    """Yield how many sets agree, then every set's comparisons, then the paper's own numbers."""
    for loss in FOCAL:
        for measure in (BEFORE, NEAR_ONE, AFTER):
            yield from _count(rows, loss, measure, is_full=is_full)
    for problem in problems_in(rows):
        yield from _of_set(rows, problem, is_full=is_full)
    for problem, network in MAIN.items():
        for loss in ("ce", "flsd53"):
            yield from _number(rows, problem, network, loss, is_full=is_full)


def _of_set(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[Line]:
    for measure in (BEFORE, NEAR_ONE, AFTER, ERROR):
        for loss in FOCAL:
            yield from _compared(rows, problem, loss, "ce", measure, is_full=is_full)
    for measure, others in ((BEFORE, ("brier", "mmce", "ls")), (AFTER, ("brier", "mmce"))):
        for other in others:
            yield from _compared(rows, problem, "flsd53", other, measure, is_full=is_full)


def _compared(
    rows: Rows, problem: Problem, loss: str, other: str, measure: Measure, *, is_full: bool
) -> Iterator[Line]:
    """Yield the line of two losses, in the direction the paper's table has; none if not run."""
    ours = difference(
        rows, network_name(problem, loss), network_name(problem, other), measure.metric
    )
    if ours is None:
        return
    below, note = _direction(problem, loss, other, measure)
    yield judged(
        ours,
        claim=f"{SET_NAMES[problem]}: {SHOWN[loss]} {measure.words(below=below)} {SHOWN[other]}",
        what=f"{SHOWN[loss]} less {SHOWN[other]}, paired",
        paper=_paper_words(problem, loss, other, measure),
        unit=measure.unit,
        below=below,
        bound=measure.bound,
        is_full=is_full and problem not in UNPUBLISHED,
        note=note,
    )


def _direction(problem: Problem, loss: str, other: str, measure: Measure) -> tuple[bool, str]:
    """Return whether the claim is that `loss` is below, and a note where it is not.

    It is what the paper's text says, unless every network the paper prints says the opposite.
    """
    tables = [
        table
        for (where, _), table in PRINTED.items()
        if where == problem and loss in table and other in table
    ]
    gaps = [measure.printed(table[loss]) - measure.printed(table[other]) for table in tables]
    if not gaps or min(gaps) <= measure.bound:
        return True, ""
    return False, "The paper's table goes against its text here; the table is what is judged."


def _paper_words(problem: Problem, loss: str, other: str, measure: Measure) -> str:
    found = [
        f"{measure.shown(table[loss]):.2f} against {measure.shown(table[other]):.2f} ({network})"
        for (where, network), table in PRINTED.items()
        if where == problem and loss in table and other in table
    ]
    if not found:
        what = "set" if problem in UNPUBLISHED else "loss"
        return f"the paper does not have this {what}"
    return ("T " if measure is NEAR_ONE else "") + ", ".join(found)


def _count(rows: Rows, loss: str, measure: Measure, *, is_full: bool) -> Iterator[Line]:
    """Yield on which share of the sets `loss` is below cross-entropy."""
    gaps = {
        SET_NAMES[p]: difference(
            rows, network_name(p, loss), network_name(p, "ce"), measure.metric
        )
        for p in problems_in(rows)
        if {loss, "ce"} <= set(losses_in(rows, p))
    }
    below = [name for name, gap in gaps.items() if gap is not None and gap.estimate < 0]
    if not gaps:
        return
    share = Interval.exact(len(below) / len(gaps))
    paper = [
        (where, network)
        for (where, network), table in PRINTED.items()
        if measure.printed(table[loss]) < measure.printed(table["ce"])
    ]
    yield Line(
        claim=f"{SHOWN[loss]} has a lower {measure.what} than CE on almost all sets",
        rule=(
            "share of the sets where the mean over seeds is lower, above one half: same "
            "direction. Reproduced if at full size."
        ),
        paper=f'"in almost all cases"; in {len(paper)} of its {len(PRINTED)} rows of these sets',
        ours=share,
        unit=f"of {len(gaps)} sets ({', '.join(below) or 'none'})",
        standing=judge_above(share, 0.5, is_full=is_full),
    )


def _number(
    rows: Rows, problem: Problem, network: str, loss: str, *, is_full: bool
) -> Iterator[Line]:
    """Yield the line of an ECE the paper prints, if the network was trained."""
    values = rows.values(network_name(problem, loss), BEFORE.metric)
    if not np.size(values):
        return
    ours, paper = mean_interval(values), PRINTED[problem, network][loss].ece
    yield Line(
        claim=f"{SET_NAMES[problem]}: ECE of {SHOWN[loss]} before T",
        rule=(
            f"mean over seeds within {ECE_TOLERANCE:g} points of the paper's number, or the 95 % "
            "interval holds it; at full size only"
        ),
        paper=f"{paper:.2f} % ({network}, Tab 1)",
        ours=ours,
        unit="% ECE",
        standing=judge_number(ours, paper, tolerance=ECE_TOLERANCE, is_full=is_full),
    )
