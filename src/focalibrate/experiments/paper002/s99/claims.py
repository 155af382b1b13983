"""The claims of paper 002's Table 6 about confident predictions."""

import math
from collections.abc import Iterator

import numpy as np

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    mean_interval,
    number_result,
    side_result,
)
from focalibrate.experiments.networks.pool import (
    SET_NAMES,
    UNPUBLISHED,
    difference,
    network_name,
    problems_in,
)
from focalibrate.experiments.networks.recipes import SHOWN, Problem

FOCAL = ("flsd53", "fl3")
TOLERANCE = 5.0
"""Points within which a printed fraction counts as reproduced."""
TESTED = 10_000
"""Test rows of CIFAR-10 and of Fashion-MNIST."""
METRICS = ("S99 %", "accuracy on S99 %", "S99 % after T", "accuracy on S99 % after T")
PAPER_VALUES: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "ResNet-50": {
        "ce": (95.93, 96.72, 7.33, 99.73),
        "mmce": (92.33, 98.24, 4.21, 100.0),
        "flsd53": (46.31, 99.57, 14.27, 99.93),
    },
    "ResNet-110": {
        "ce": (97.11, 96.33, 11.5, 97.39),
        "mmce": (97.65, 96.72, 10.62, 99.83),
        "flsd53": (61.41, 99.51, 31.10, 99.68),
    },
}
"""Table 6, CIFAR-10, in the order of `METRICS`; the paper writes "Focal Loss" without a γ."""
_WORDS = {
    METRICS[0]: "fewer predictions of confidence ≥ 0.99",
    METRICS[2]: "more predictions of confidence ≥ 0.99 after T",
    METRICS[1]: "a higher accuracy where its confidence is ≥ 0.99",
}
"""What the paper claims of focal loss, to put before "than CE"."""
_SENTENCES = {
    METRICS[0]: 'Sec. 6: "We observe that |S99| for the focal loss model is much lower than for '
    'the cross-entropy or MMCE models before temperature scaling."',
    METRICS[2]: 'Sec. 6: "However, after temperature scaling, |S99| for focal loss is '
    'significantly higher than for both MMCE and cross-entropy."',
    METRICS[1]: "not stated in the text;",
}


def claims_of_set(
    rows: Rows, problem: Problem, *, is_full: bool, name: str = ""
) -> Iterator[ClaimResult]:
    """Yield the comparisons of Table 6 on one set, called `name` in the claims if given."""
    for loss in FOCAL:
        for other in ("ce", "mmce"):
            for metric, below in ((METRICS[0], True), (METRICS[2], False), (METRICS[1], False)):
                names = network_name(problem, loss), network_name(problem, other)
                ours = difference(rows, *names, metric)
                if ours is None:
                    continue
                note = ""
                if metric == METRICS[1]:
                    ours, note = _with_sampling_error(rows, ours, *names)
                than = f"has {_WORDS[metric]} than {SHOWN[other]}"
                yield side_result(
                    ours,
                    claim=f"{name or SET_NAMES[problem]}: {SHOWN[loss]} {than}",
                    what=f"{SHOWN[loss]} − {SHOWN[other]}, paired by seed",
                    paper_value=_paper_words(problem, other, metric),
                    unit=f"points, {SHOWN[loss]} − {SHOWN[other]}",
                    below=below,
                    covers=is_full,
                    is_papers=problem not in UNPUBLISHED,
                    note=note,
                )


def _with_sampling_error(
    rows: Rows, ours: Interval, loss: str, other: str
) -> tuple[Interval, str]:
    """Return the interval of a difference of accuracies, including the sampling error of their
    rows.

    The spread over seeds does not include it: every seed is tested on the same rows. Two hits and
    two misses are added, so that an accuracy of 100 % on few rows does not count as certain.
    """
    variance, counts = 0.0, []
    for name in (loss, other):
        n = TESTED * rows.values(name, METRICS[0]).mean() / 100
        p = (n * rows.values(name, METRICS[1]).mean() / 100 + 2) / (n + 4)
        variance += 1e4 * p * (1 - p) / (n + 4)
        counts.append(f"{n:.0f}")
    half = math.hypot((ours.high - ours.low) / 2, 1.96 * math.sqrt(variance))
    wide = Interval(ours.estimate, ours.estimate - half, ours.estimate + half)
    return wide.within(-100.0, 100.0), f"Of {' and '.join(counts)} rows per network."


def _paper_words(problem: Problem, other: str, metric: str) -> str:
    if problem in UNPUBLISHED:
        return "the paper does not have this data set"
    place = METRICS.index(metric)
    pairs = ", ".join(
        f"{table['flsd53'][place]:g} against {table[other][place]:g} % ({network})"
        for network, table in PAPER_VALUES.items()
    )
    return f"{_SENTENCES[metric]} Table 6, which does not say with which γ: {pairs}"


def numbers(rows: Rows, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield the fractions that the paper prints for ResNet-50, the network at full size."""
    for loss, values in PAPER_VALUES["ResNet-50"].items():
        for place in (0, 2):
            found = rows.values(network_name("cifar10", loss), METRICS[place])
            if found.size:
                yield number_result(
                    mean_interval(found).within(0.0, 100.0),
                    values[place],
                    tolerance=TOLERANCE,
                    claim=f"CIFAR-10: fraction of predictions of confidence ≥ 0.99 with "
                    f"{SHOWN[loss]}{', after T' if place else ''}",
                    what="mean over seeds, at full size only",
                    paper_value=f"Table 6: {values[place]:g} % (ResNet-50)",
                    unit="% of the test rows",
                    covers=is_full,
                )


def claims(rows: Rows, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield the comparisons on every data set, then the printed fractions."""
    for problem in problems_in(rows):
        yield from claims_of_set(rows, problem, is_full=is_full)
    yield from numbers(rows, is_full=is_full)


def finding(rows: Rows) -> str:
    """Return the main result in one sentence."""
    parts = []
    for problem in problems_in(rows):
        before, after = (
            [np.mean(rows.values(network_name(problem, loss), m)) for loss in ("ce", "fl3")]
            for m in (METRICS[0], METRICS[2])
        )
        parts.append(
            f"on {SET_NAMES[problem]} {before[0]:.1f} % of the rows with CE and {before[1]:.1f} "
            f"% with FL-3 before T, {after[0]:.1f} and {after[1]:.1f} % after"
        )
    return f"Predictions with a confidence of at least 0.99: {'; '.join(parts)}."
