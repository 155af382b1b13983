"""The claims of paper 002 about what happens during training, judged on each data set."""

from collections.abc import Iterator
from dataclasses import replace

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    as_ours,
    mean_interval,
    side_result,
)
from focalibrate.experiments.networks.pool import (
    SET_NAMES,
    UNPUBLISHED,
    difference,
    losses_in,
    network_name,
    problems_in,
)
from focalibrate.experiments.networks.recipes import SHOWN, Problem

FACTOR_TWO = 0.301
"""Decades within which gradient norms count as similar."""
CONFIDENT = 0.95
FIXED = ("fl1", "fl2", "fl3")


def claims(rows: Rows, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield the results of every set that was run."""
    for problem in problems_in(rows):
        for result in claims_of_set(rows, problem, is_full=is_full):
            yield (
                result
                if problem not in UNPUBLISHED
                else as_ours(
                    result, paper_value=f"{result.paper_value} (the paper says so about CIFAR-10)"
                )
            )


def claims_of_set(
    rows: Rows, problem: Problem, *, is_full: bool, name: str = ""
) -> Iterator[ClaimResult]:
    """Yield the results of one set, called `name` in the claims if that is given."""
    for part in (_overfitting, _focal, _weights, _gradients, _order):
        for result in part(rows, problem, is_full=is_full):
            yield replace(result, claim=f"{name or SET_NAMES[problem]}: {result.claim}")


def finding(rows: Rows) -> str:
    """Return the main result in one sentence."""
    problem = problems_in(rows)[0]
    rise = {
        loss: rows.values(network_name(problem, loss), "rise of nll_incorrect").mean()
        for loss in ("ce", "fl3")
    }
    return (
        f"On {SET_NAMES[problem]}, after the drop of the learning rate, the NLL of wrong "
        f"predictions rises by {rise['ce']:.2f} nats with CE and by {rise['fl3']:.2f} with FL-3, "
        "as the paper describes; what it says about the norm of the weights needs longer "
        "training."
    )


def _overfitting(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield Section 3's account of cross-entropy (Figure 1)."""
    told = (
        ("nll", "the average NLL rises after the learning rate falls", False, "marked rise"),
        (
            "nll_incorrect",
            "the NLL of wrong predictions rises after the learning rate falls",
            False,
            "the rise is caused only by the incorrectly classified samples",
        ),
        (
            "nll_correct",
            "the NLL of right predictions keeps falling",
            True,
            "continues to decrease even after the 150th epoch",
        ),
        ("ece", "ECE rises after the learning rate falls", False, "after epoch 150 ECE rises"),
    )
    for figure, claim, below, words in told:
        values = rows.values(network_name(problem, "ce"), f"rise of {figure}")
        if values.size:
            yield side_result(
                mean_interval(values),
                claim=f"under CE {claim}",
                what=f"validation {figure} at the end − that after the first epoch after the drop",
                paper_value=f'"{words}" (Fig 1)',
                unit="of ECE" if figure == "ece" else "nats",
                below=below,
                covers=is_full,
            )


def _focal(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield how FL-3 differs from cross-entropy (Figure 3 a–f)."""
    told = (
        (
            "rise of nll_incorrect",
            "the NLL of wrong predictions rises less with FL-3 than with CE",
            True,
            '"much less severe" (Fig 3c)',
            "nats",
        ),
        (
            "test entropy_incorrect",
            "wrong predictions have a higher entropy with FL-3",
            False,
            '"consistently (if marginally) higher" (Fig 3d)',
            "nats",
        ),
        (
            "test p_true_incorrect",
            "the true class of wrong predictions has a higher probability with FL-3",
            False,
            '"slightly higher" (Fig 3f)',
            "of probability",
        ),
        (
            "test p_true_correct",
            "right predictions have a lower probability with FL-3",
            True,
            '"somewhat lower" (Fig 3e)',
            "of probability",
        ),
    )
    for metric, claim, below, paper, unit in told:
        ours = _less_ce(rows, problem, "fl3", metric)
        if ours is not None:
            yield side_result(
                ours,
                claim=claim,
                what=f"{metric} of FL-3 − CE, paired",
                paper_value=paper,
                unit=unit,
                below=below,
                covers=is_full,
            )
    yield from _still_confident(rows, problem, is_full=is_full)


def _still_confident(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    losses = [loss for loss in losses_in(rows, problem) if loss in ("ce", *FIXED)]
    found = {
        loss: mean_interval(rows.values(network_name(problem, loss), "test p_true_correct"))
        for loss in losses
    }
    least = min(found, key=lambda loss: found[loss].estimate)
    result = side_result(
        found[least],
        claim="right predictions keep a mean probability over 0.95 with CE and FL-1 to FL-3",
        what="the smallest mean of test p_true_correct",
        paper_value='"remains over 0.95 by the end of training"',
        unit=f"of probability ({SHOWN[least]})",
        below=False,
        bound=CONFIDENT,
        covers=is_full,
    )
    yield result if is_full else replace(result, verdict="not run at full size")


def _weights(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield whose last layer has the larger weights, before the drop and at the end."""
    told = (
        ("weight norm before the drop", "larger", False, '"initially higher" (Fig 3h)'),
        ("weight norm", "smaller", True, '"a complete reversal in the ordering" (Fig 3h)'),
    )
    for metric, side, below, paper in told:
        when = "before the learning rate falls" if not below else "at the end"
        for loss in FIXED:
            ours = _less_ce(rows, problem, loss, metric)
            if ours is not None:
                yield side_result(
                    ours,
                    claim=f"the last layer's weights are {side} with {SHOWN[loss]} than CE {when}",
                    what=f"norm of the weights of {SHOWN[loss]} − CE, paired",
                    paper_value=paper,
                    unit="of norm",
                    below=below,
                    covers=is_full,
                )


def _gradients(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield how gradient norms of training examples compare early and late (Figure 4)."""
    first, last = (
        _pairs(rows, problem, f"log10 gradient norm, {name} look") for name in ("first", "last")
    )
    if not first:
        return
    yield side_result(
        mean_interval([abs(gap) for gap in first.values()]),
        claim="early on, the gradient norms of FL-3 and CE are similar",
        what="distance of the medians of FL-3 and CE at the first look, in decades",
        paper_value='"at epoch 10 … similar" (Fig 4b)',
        unit="decades",
        bound=FACTOR_TWO,
        covers=is_full,
    )
    yield side_result(
        mean_interval([last[seed] - first[seed] for seed in first]),
        claim="the gradient norms of CE fall less than those of FL-3",
        what="change of the median from first to last look, in decades, FL-3 − CE, paired",
        paper_value='"those for cross-entropy decrease less rapidly" (Fig 4b–d)',
        unit="decades",
        covers=is_full,
    )
    yield side_result(
        mean_interval(list(last.values())),
        claim="late in training the gradient norms of FL-3 are smaller than those of CE",
        what="median of FL-3 − CE at the last look, in decades, paired",
        paper_value="FL's histogram lies nearer 0 (Fig 4c–d)",
        unit="decades",
        covers=is_full,
    )


def _order(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield the order of calibration by the exponent (Figure 3 g)."""
    for loss, other in (("fl1", "ce"), ("fl2", "fl1"), ("fl3", "fl2"), ("fl3", "ce")):
        ours = difference(
            rows, network_name(problem, loss), network_name(problem, other), "test ece"
        )
        if ours is not None:
            yield side_result(
                ours,
                claim=f"{SHOWN[loss]} ends with a lower ECE than {SHOWN[other]}",
                what=f"test ECE of {SHOWN[loss]} − {SHOWN[other]}, paired",
                paper_value="γ = 3 outperforms γ = 2, which outperforms γ = 1 (Sec 4, Fig 3g)",
                unit="of ECE",
                covers=is_full,
            )


def _less_ce(rows: Rows, problem: Problem, loss: str, metric: str) -> Interval | None:
    return difference(rows, network_name(problem, loss), network_name(problem, "ce"), metric)


def _pairs(rows: Rows, problem: Problem, metric: str) -> dict[int, float]:
    """Return FL-3 − CE by seed."""
    ours = rows.by_seed(network_name(problem, "fl3"), metric)
    other = rows.by_seed(network_name(problem, "ce"), metric)
    return {seed: ours[seed] - other[seed] for seed in sorted(ours.keys() & other.keys())}
