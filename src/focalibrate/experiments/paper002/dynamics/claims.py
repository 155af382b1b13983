"""The claims of paper 002 about what happens during training, judged on each data set."""

import math
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
_ONLY_WRONG = (
    'Sec. 3: "However, the increase in average test NLL is caused only by the incorrectly '
    "classified samples, as the average NLL for the correctly classified samples continues to "
    'decrease even after the 150th epoch."'
)
_WEIGHTS = (
    'Sec. 4: "It is interesting to note that although the norms of the weights for the models '
    "trained on focal loss are initially higher than that for the cross-entropy model, a complete "
    'reversal in the ordering of the weight norms occurs between epochs 150 and 250."'
)
_GRADIENTS = (
    'Sec. 4: "At epoch 10, the gradient norms for cross-entropy and focal loss are similar, but '
    "as training progresses, those for cross-entropy decrease less rapidly than those for focal "
    'loss."'
)
_CALIBRATED = (
    'Sec. 4: "it is thus reasonable to conclude that on a practical level, the models trained on '
    'focal loss are more calibrated"'
)
_ORDER = (
    'Sec. 4: "of the three models we trained using focal loss, the one with γ = 3 outperforms (in '
    "terms of calibration) the one with γ = 2, which in turn outperforms the model with γ = "
    '1."'
)


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
    text = (
        f"On {SET_NAMES[problem]}, after the drop of the learning rate, the NLL of wrong "
        f"predictions rises by {rise['ce']:.2f} nats with CE and by {rise['fl3']:.2f} with FL-3"
    )
    norm = _less_ce(rows, problem, "fl3", "weight norm before the drop")
    if norm is not None and norm.high < 0:
        text += (
            f". Before the drop the norm of the last layer's weights is lower with FL-3 than with "
            f"CE, by {-norm.estimate:.2f} [{-norm.high:.2f}, {-norm.low:.2f}]; the paper, which "
            "trains far longer, has it higher"
        )
    return f"{text}."


def _overfitting(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield Section 3's account of cross-entropy (Figure 1)."""
    told = (
        (
            "nll",
            "the average NLL",
            "rises after the lr drop",
            False,
            'Sec. 3: "after the 150th epoch (where the learning rate drops by a factor of 10), '
            "there is a marked rise in the average test NLL, indicating that the network starts "
            'to overfit on average NLL."',
        ),
        (
            "nll_incorrect",
            "the NLL of wrong predictions",
            "rises after the lr drop",
            False,
            _ONLY_WRONG,
        ),
        ("nll_correct", "the NLL of right predictions", "keeps falling", True, _ONLY_WRONG),
        (
            "ece",
            "ECE",
            "rises after the lr drop",
            False,
            'Sec. 3: "We also observe that after epoch 150, the test set ECE rises, indicating '
            'that the network is becoming miscalibrated."',
        ),
    )
    for figure, name, claim, below, words in told:
        values = rows.values(network_name(problem, "ce"), f"rise of {figure}")
        if values.size:
            yield side_result(
                mean_interval(values),
                claim=f"under CE {name} {claim}",
                what=f"{name} of the validation examples at the end − that after the first epoch "
                "after the drop",
                paper_value=words,
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
            "rise of the NLL of wrong predictions",
            'Sec. 4: "Figure 3(c) shows that in contrast to the network trained using '
            "cross-entropy, for which the NLL for misclassified test samples increases "
            "significantly after epoch 150, the rise in NLL for the networks trained on focal "
            'loss is much less severe."',
            "nats",
        ),
        (
            "test entropy_incorrect",
            "wrong predictions have a higher entropy with FL-3",
            False,
            "entropy of wrong predictions on the test examples",
            'Sec. 4: "from Figure 3(d), we notice that the softmax entropy for misclassified test '
            "samples is consistently (if marginally) higher for focal loss than for "
            'cross-entropy."',
            "nats",
        ),
        (
            "test p_true_incorrect",
            "the true class of wrong predictions has a higher probability with FL-3",
            False,
            "probability of the true class, wrong predictions on the test examples",
            'Sec. 4: "From Figure 3(f), we notice that the probabilities predicted for the '
            "correct classes for misclassified test samples are slightly higher for focal loss "
            'than for cross-entropy."',
            "of probability",
        ),
        (
            "test p_true_correct",
            "right predictions have a lower probability with FL-3",
            True,
            "probability of the true class, right predictions on the test examples",
            'Sec. 4: "Conversely, Figure 3(e) shows that the probabilities predicted for the '
            "correct classes for correctly classified test samples are somewhat lower than for "
            'cross-entropy."',
            "of probability",
        ),
    )
    for metric, claim, below, what, paper, unit in told:
        ours = _less_ce(rows, problem, "fl3", metric)
        if ours is not None:
            yield side_result(
                ours,
                claim=claim,
                what=f"{what}, FL-3 − CE, paired by seed",
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
        claim="right predictions keep a mean probability over 0.95, CE and FL-1 to -3",
        what="probability of the true class, right predictions on the test examples, for the "
        "loss with the lowest mean",
        paper_value='Sec. 4: "Nevertheless, for all four models, average confidence on correctly '
        'classified samples remains over 0.95 by the end of training"',
        unit=f"of probability ({SHOWN[least]})",
        below=False,
        bound=CONFIDENT,
        covers=is_full,
    )
    # The probability grows with training: a shorter run says nothing about the paper's number.
    is_short = not is_full and problem not in UNPUBLISHED
    yield replace(result, verdict="not run at full size") if is_short else result


def _weights(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield whose last layer has the larger weights, before the drop and at the end."""
    told = (
        ("weight norm before the drop", "larger", False),
        ("weight norm", "smaller", True),
    )
    for metric, side, below in told:
        when = "before the lr drop" if not below else "at the end"
        for loss in FIXED:
            ours = _less_ce(rows, problem, loss, metric)
            if ours is not None:
                yield side_result(
                    ours,
                    claim=f"last layer's weights are {side} with {SHOWN[loss]} than CE {when}",
                    what=f"norm of the weights, {SHOWN[loss]} − CE, paired by seed",
                    paper_value=_WEIGHTS,
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
        mean_interval([abs(gap) for gap in first.values()]).within(0.0, math.inf),
        claim="early on, the gradient norms of FL-3 and CE are similar",
        what="distance of the medians of FL-3 and CE at the first measurement, in decades (0.301 "
        "is a factor of two)",
        paper_value=_GRADIENTS,
        unit="decades",
        bound=FACTOR_TWO,
        covers=is_full,
    )
    yield side_result(
        mean_interval([last[seed] - first[seed] for seed in first]),
        claim="the gradient norms of CE fall less than those of FL-3",
        what="change of the median from the first to the last measurement, in decades, FL-3 − CE, "
        "paired by seed",
        paper_value=_GRADIENTS,
        unit="decades",
        covers=is_full,
    )
    yield side_result(
        mean_interval(list(last.values())),
        claim="late in training the gradient norms are smaller with FL-3 than CE",
        what="median of FL-3 − CE at the last measurement, in decades, paired by seed",
        paper_value=_GRADIENTS,
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
                what=f"test ECE, {SHOWN[loss]} − {SHOWN[other]}, paired by seed",
                paper_value=_CALIBRATED if other == "ce" else _ORDER,
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
