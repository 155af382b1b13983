"""What papers 002, 003 and 004 say about networks that fit their training examples."""

from collections.abc import Iterator

import numpy as np

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import ClaimResult, mean_interval, side_result
from focalibrate.experiments.networks.pool import difference, losses_in, network_name
from focalibrate.experiments.networks.recipes import SHOWN, Problem
from focalibrate.experiments.paper002.dynamics.claims import claims_of_set as of_training
from focalibrate.experiments.paper002.focal_calibration.claims import claims_of_set as of_ece
from focalibrate.experiments.paper002.s99.claims import claims_of_set as of_confident

PROBLEM: Problem = "cifar10"
SHOWN_SET = "Interpolating"
"""Name of the set in claims, to distinguish it from the smaller runs of other experiments."""


def claims(rows: Rows, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield the claims of each paper, by the rules of the experiments on smaller networks."""
    for part in (of_ece, of_training, of_confident):
        yield from part(rows, PROBLEM, is_full=is_full, name=SHOWN_SET)
    yield from _focal_temperature(rows, is_full=is_full)
    yield from _curvature(rows, is_full=is_full)


def _focal_temperature(rows: Rows, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield paper 003's claim that the second parameter lowers the calibration error."""
    gaps: dict[int, list[float]] = {}
    for loss in losses_in(rows, PROBLEM):
        name = network_name(PROBLEM, loss)
        alone = rows.by_seed(name, "adaece, TS_ECE")
        for seed, both in rows.by_seed(name, "adaece, FTS_ECE").items():
            gaps.setdefault(seed, []).append(100 * (both - alone[seed]))
    if gaps:
        yield side_result(
            mean_interval([float(np.mean(gaps[seed])) for seed in sorted(gaps)]),
            claim=f"{SHOWN_SET}: FTS has a lower AdaECE than TS",
            what="AdaECE of FTS − TS, both fitted by it, mean over the losses, paired by network",
            paper_value='003, Sec. 5.2: "The results show that focal temperature scaling could '
            "noticeably improve ECE among all baseline models while keeping the same accuracy and "
            "occasionally marginally losing on log-loss compared to standard temperature "
            'scaling."',
            unit="points of AdaECE, FTS − TS",
            covers=is_full,
        )


def _curvature(rows: Rows, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield paper 004's claim about the loss of training, and our question about one loss."""
    for of, loss_name, is_papers in (
        ("own", "the training loss", True),
        ("ce", "cross-entropy", False),
    ):
        ours = difference(
            rows,
            network_name(PROBLEM, "fl3"),
            network_name(PROBLEM, "ce"),
            f"lambda_max, {of}",
        )
        if ours is not None:
            yield side_result(
                ours,
                claim=f"{SHOWN_SET}: λ_max(H_val) of {loss_name} is lower with {SHOWN['fl3']} "
                "than with CE",
                what="λ_max of the network trained with FL-3 − that of CE, paired by seed",
                paper_value='004, Fig. 2, on CIFAR-100: "For all architectures, λ_max(H_val) '
                'monotonically decreases with increasing γ"; not said of which loss'
                if is_papers
                else "not in the paper: the same loss for both networks",
                unit="of λ_max, FL-3 − CE",
                covers=is_full,
                is_papers=is_papers,
            )


def finding(rows: Rows) -> str:
    """Return the main result in one sentence."""
    parts = []
    for loss in losses_in(rows, PROBLEM):
        name = network_name(PROBLEM, loss)
        ece, after = (rows.values(name, m).mean() for m in ("ECE %", "ECE % after T"))
        seeds = rows.values(name, "ECE %").size
        parts.append(
            f"{SHOWN[loss]} {ece:.1f} → {after:.1f} ({seeds} {'seed' if seeds == 1 else 'seeds'})"
        )
    fitted = [
        rows.values(network_name(PROBLEM, loss), "train error %").max()
        for loss in losses_in(rows, PROBLEM)
    ]
    return (
        f"Networks with a training error of at most {max(fitted):.2f} %; ECE in % before → after "
        f"T: {', '.join(parts)}."
    )
