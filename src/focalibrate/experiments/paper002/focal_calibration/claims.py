"""The claims of paper 002 about focal loss and calibration, judged on each data set."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    as_ours,
    mean_interval,
    number_result,
    share_interval,
    side_result,
)
from focalibrate.experiments.networks.pool import (
    SET_NAMES,
    TOO_FEW,
    UNPUBLISHED,
    difference,
    losses_in,
    network_name,
    problems_in,
)
from focalibrate.experiments.networks.recipes import SHOWN, Problem
from focalibrate.experiments.paper002.focal_calibration.paper_values import (
    MAIN,
    PAPER_VALUES,
    PaperValues,
)

FOCAL = ("flsd53", "fl3")
ECE_TOLERANCE = 0.5
"""Points of ECE within which a printed number counts as reproduced."""
SHORT: Mapping[Problem, str] = {"sst_binary": "SST, 10 epochs"}
"""Problems that another experiment trains as long as the paper, with their name in the claims: at
reduced scale they are a question of our own."""
_EARLY = (
    "A question of our own: does it hold after 10 epochs? The paper trains for 25, as the "
    "experiment sst does."
)
ALMOST_ALL = 0.9
"""The fraction of cases that "almost all" requires; the paper gives no number."""
OVERCONFIDENT = 1.1
"""Temperature of cross-entropy from which a network counts as overconfident: below it there is
hardly any overconfidence that focal loss could reduce."""
_TEXT = (
    'Sec. 1: "Our experiments show that in almost all cases, DNNs trained with focal loss are '
    'more calibrated than those trained with cross-entropy loss, MMCE, and Brier loss"'
)
_AFTER = (
    'Sec. 6: "It broadly produces the lowest ECE and AdaECE values both before and after '
    'temperature scaling"'
)
_ERROR = (
    'Sec. 7: "Our results show that in almost all cases, networks trained with focal loss are '
    "more calibrated than those trained with cross-entropy loss, whilst having similar levels of "
    'accuracy"'
)
_NEAR_ONE = (
    'Sec. 6: "for focal loss with sample-based γ […], beside most other focal loss models, the '
    "optimal temperatures are very close to 1, mostly lying between 0.9 and 1.1. By contrast, the "
    "optimal temperatures for the baselines (cross-entropy and MMCE) are significantly higher, "
    'with values lying between 2.0 to 2.8."'
)


@dataclass(frozen=True)
class Measure:
    """A number by which two losses are compared."""

    metric: str
    value: Callable[[PaperValues], float]
    what: str
    """the number that is lower, such as ``"ECE before T"``"""
    unit: str
    sentence: str
    bound: float = 0.0
    """how much worse still counts as no worse"""
    sides: tuple[str, str] = ("", "")
    """words for the lower and the higher number, if "a lower" and "a higher" do not say it"""

    def words(self, *, below: bool) -> str:
        """Return the comparison in words, to put between the names of two losses."""
        if any(self.sides):
            return f"has {self.sides[0 if below else 1]} than"
        if self.bound:
            most = "at most" if below else "more than"
            return f"has {most} {self.bound:g} point more {self.what} than"
        return f"has a {'lower' if below else 'higher'} {self.what} than"


BEFORE = Measure("ECE %", lambda p: p.ece, "ECE before T", "points of ECE", _TEXT)
AFTER = Measure("ECE % after T", lambda p: p.ece_post, "ECE after T", "points of ECE", _AFTER)
NEAR_ONE = Measure(
    "|ln T|",
    lambda p: abs(math.log(p.temperature)),
    "|ln T|",
    "of |ln T|",
    _NEAR_ONE,
    sides=("a best temperature closer to 1", "a best temperature further from 1"),
)
ERROR = Measure("error %", lambda p: p.error, "error", "points of error", _ERROR, 1.0)


def claims(rows: Rows, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield how many data sets agree, then the comparisons per set, then the printed numbers."""
    shown = concluded(rows, is_full=is_full)
    trained = [problem for problem in shown if is_full or problem not in SHORT]
    if is_full:
        for loss in FOCAL:
            for measure in (BEFORE, AFTER):
                yield from _count(rows, loss, measure, trained)
    for problem in trained:
        yield from claims_of_set(rows, problem, is_full=is_full)
    for problem, network in MAIN.items():
        for loss in ("ce", "flsd53") if problem in trained else ():
            yield from claims_of_number(rows, problem, network, loss, is_full=is_full)
    for problem in (problem for problem in shown if problem not in trained):
        for result in claims_of_set(rows, problem, is_full=False, name=SHORT[problem]):
            words = f"{_EARLY} {result.paper_value}"
            yield as_ours(result, paper_value=words)


def concluded(rows: Rows, *, is_full: bool) -> list[Problem]:
    """Return the sets to conclude from: at full size all, else without `TOO_FEW`."""
    return [p for p in problems_in(rows) if is_full or p not in TOO_FEW]


def claims_of_set(
    rows: Rows, problem: Problem, *, is_full: bool, name: str = ""
) -> Iterator[ClaimResult]:
    """Yield the comparisons of losses on one set, called `name` in the claims if that is given."""
    name = name or SET_NAMES[problem]
    pairs = [(m, loss, "ce") for m in (BEFORE, NEAR_ONE, AFTER, ERROR) for loss in FOCAL]
    pairs += [(BEFORE, "flsd53", other) for other in ("brier", "mmce", "ls")]
    pairs += [(AFTER, "flsd53", other) for other in ("brier", "mmce")]
    for measure, loss, other in pairs:
        yield from _compared(rows, problem, loss, other, measure, is_full=is_full, name=name)


def _compared(
    rows: Rows,
    problem: Problem,
    loss: str,
    other: str,
    measure: Measure,
    *,
    is_full: bool,
    name: str,
) -> Iterator[ClaimResult]:
    """Yield the result for two losses, in the direction of the paper's table; none if not run."""
    ours = difference(
        rows, network_name(problem, loss), network_name(problem, other), measure.metric
    )
    if ours is None:
        return
    below, note = _direction(problem, loss, other, measure)
    warmth = rows.values(network_name(problem, "ce"), "T")
    if other == "ce" and measure is not ERROR and 0 < np.sum(warmth) < OVERCONFIDENT * warmth.size:
        note += (
            f" With cross-entropy T is {warmth.mean():.2f} here: it is hardly overconfident, so "
            "there is little that focal loss could improve."
        )
    yield side_result(
        ours,
        claim=f"{name}: {SHOWN[loss]} {measure.words(below=below)} {SHOWN[other]}",
        what=f"{measure.what}, {SHOWN[loss]} − {SHOWN[other]}, paired by seed",
        paper_value=_paper_words(problem, loss, other, measure),
        unit=f"{measure.unit}, {SHOWN[loss]} − {SHOWN[other]}",
        below=below,
        bound=measure.bound,
        covers=is_full,
        is_papers=_is_papers(problem, other),
        note=note.strip(),
    )


def _is_papers(problem: Problem, other: str) -> bool:
    return problem not in UNPUBLISHED and other != "ls"


def _direction(problem: Problem, loss: str, other: str, measure: Measure) -> tuple[bool, str]:
    """Return whether the claim is that `loss` is lower, and a note if it is not.

    The claim is what the paper's text says, unless all networks in its table show the opposite.
    """
    tables = [
        table
        for (where, _), table in PAPER_VALUES.items()
        if where == problem and loss in table and other in table
    ]
    gaps = [measure.value(table[loss]) - measure.value(table[other]) for table in tables]
    if not gaps or min(gaps) <= measure.bound:
        return True, ""
    return False, (
        "The paper's table has an exception to its text here; the claim judged is that of the "
        "table."
    )


def _paper_words(problem: Problem, loss: str, other: str, measure: Measure) -> str:
    found = [
        f"{_shown(measure, table[loss])} against {_shown(measure, table[other])} ({network})"
        for (where, network), table in PAPER_VALUES.items()
        if where == problem and loss in table and other in table
    ]
    if not found:
        what = "set" if problem in UNPUBLISHED else "loss"
        return f"the paper does not have this {what}"
    return f"{measure.sentence}; its table: {', '.join(found)}"


def _shown(measure: Measure, values: PaperValues) -> str:
    return f"T {values.temperature:.2f}" if measure is NEAR_ONE else f"{measure.value(values):.2f}"


def _count(
    rows: Rows, loss: str, measure: Measure, problems: Sequence[Problem]
) -> Iterator[ClaimResult]:
    """Yield on which fraction of the paper's sets `loss` is lower than cross-entropy.

    At full size only: fewer of its sets cannot decide a claim about almost all cases.
    """
    gaps = {
        SET_NAMES[p]: difference(
            rows, network_name(p, loss), network_name(p, "ce"), measure.metric
        )
        for p in problems
        if {loss, "ce"} <= set(losses_in(rows, p)) and p not in UNPUBLISHED
    }
    if not gaps:
        return
    below = [name for name, gap in gaps.items() if gap is not None and gap.estimate < 0]
    paper = [
        (where, network)
        for (where, network), table in PAPER_VALUES.items()
        if measure.value(table[loss]) < measure.value(table["ce"])
    ]
    yield side_result(
        share_interval(len(below), len(gaps)),
        claim=f"{SHOWN[loss]} has a lower {measure.what} than CE in almost all cases",
        what=f"fraction of the paper's {len(gaps)} data sets run here with a lower mean",
        paper_value=f"{measure.sentence}; this is so in {len(paper)} of its {len(PAPER_VALUES)} "
        "rows for these sets",
        unit=f"of {len(gaps)} sets ({', '.join(below) or 'none'})",
        below=False,
        bound=ALMOST_ALL,
        covers=True,
    )


def claims_of_number(
    rows: Rows, problem: Problem, network: str, loss: str, *, is_full: bool, name: str = ""
) -> Iterator[ClaimResult]:
    """Yield the result for a printed ECE, if the network was trained."""
    values = rows.values(network_name(problem, loss), BEFORE.metric)
    if not np.size(values):
        return
    paper = PAPER_VALUES[problem, network][loss].ece
    yield number_result(
        mean_interval(values).within(0.0, 100.0),
        paper,
        tolerance=ECE_TOLERANCE,
        claim=f"{name or SET_NAMES[problem]}: ECE of {SHOWN[loss]} before T",
        what="mean over seeds, at full size only",
        paper_value=f"Table 1: {paper:.2f} % ({network})",
        unit="% ECE",
        covers=is_full,
    )
