"""The claims of paper 003 about focal temperature scaling, with the rules that judge them."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    mean_interval,
    rank_correlation_interval,
    share_interval,
    side_result,
)
from focalibrate.experiments.networks.pool import SET_NAMES
from focalibrate.experiments.networks.recipes import GAMMA, Problem
from focalibrate.experiments.networks.trend import mean_of_known
from focalibrate.experiments.paper003.focal_temperature.rows import (
    FEWEST_GAMMAS,
    SEEDS,
    ScalingRows,
)

PAPER_VALUES = {
    "ce": (1.03, 0.71),
    "fl1": (1.05, 0.82),
    "fl7": (0.66, 0.61),
    "flsd53": (1.30, 1.23),
    "adafocal": (1.80, 0.95),
}
"""Table 1, CIFAR-10: ECE in percent after TS and after FTS, for the rows legible in our copy."""
NEAR_LINE = 0.95
"""R² from which a relation counts as close to linear; the paper gives no number."""
SAME_NLL = 2.0
"""Percent within which two log losses count as about the same; the paper gives no number."""
ALL = 0.9
"""The fraction that "all trained models" requires: less than 1, as a fraction of few models is
uncertain."""
SILENT = "not in the paper"
PAPERS: tuple[Problem, ...] = ("cifar10",)
"""Problems whose data the paper has too."""
_IMPROVES = (
    'Sec. 5.2: "The results show that focal temperature scaling could noticeably improve ECE '
    "among all baseline models while keeping the same accuracy and occasionally marginally losing "
    'on log-loss compared to standard temperature scaling."'
)
_CONSISTENT = (
    'Sec. 6: "The experiment results suggest a consistent improvement in calibration over all '
    "trained models compared to standard temperature scaling while keeping the accuracy unchanged "
    'by design and log-loss being approximately the same."'
)
_BY_GAMMA = (
    'Sec. 5.2: "Models trained with higher γ_tr have generally better ECE but worse accuracy."'
)
_METHODS = ("TS", "FTS")


def claims(found: ScalingRows, *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Return one result per claim."""
    trends = [p for p in found.concluded if len(found.focal(p)) >= FEWEST_GAMMAS]
    return (
        *(_fts_below_ts(found, p, is_full=is_full) for p in found.concluded),
        _over_all(found),
        _everywhere(found, is_full=is_full),
        _same_log_loss(found, is_full=is_full),
        _criterion_matters(found, is_full=is_full),
        *_linear(found, trends, is_full=is_full),
        *(result for p in trends for result in _trends(found, p, is_full=is_full)),
    )


def finding(found: ScalingRows) -> str:
    """Return the main result in one sentence."""
    gaps = 100 * _kinds(found, "adaece", "FTS_ECE", "TS_ECE", list(found.concluded))
    mean = mean_interval(gaps)
    return (
        f"The second parameter changes AdaECE by {mean.estimate:.3f} points [{mean.low:.3f}, "
        f"{mean.high:.3f}] on average over {gaps.size} kinds of networks (FTS − TS); FTS is "
        f"lower for {int((gaps < 0).sum())} of them."
    )


def _fts_below_ts(found: ScalingRows, problem: Problem, *, is_full: bool) -> ClaimResult:
    is_papers = problem in PAPERS
    mean = np.mean([after - before for before, after in PAPER_VALUES.values()])
    return side_result(
        mean_interval(_mean_over_losses(found, problem)),
        claim=f"FTS has a lower AdaECE than TS: {SET_NAMES[problem]}",
        what="AdaECE of FTS − TS, both fitted by it, mean over the losses, paired by network",
        paper_value=f"Table 1: mean of the {len(PAPER_VALUES)} legible pairs {mean:.2f}"
        if is_papers
        else SILENT,
        unit="points of AdaECE, FTS − TS",
        covers=is_full,
        is_papers=is_papers,
    )


def _mean_over_losses(found: ScalingRows, problem: Problem) -> NDArray[np.float64]:
    each = [
        100 * found.gap("adaece", problem, loss, first="FTS_ECE", second="TS_ECE")
        for loss in found.losses[problem]
    ]
    return np.asarray(np.mean(each, axis=0), dtype=np.float64)


def _kinds(
    found: ScalingRows, metric: str, first: str, second: str, problems: Sequence[Problem]
) -> NDArray[np.float64]:
    """Return the mean over seeds of a difference, per problem and loss."""
    return np.array(
        [
            found.gap(metric, problem, loss, first=first, second=second).mean()
            for problem in problems
            for loss in found.concluded[problem]
        ]
    )


def _papers(found: ScalingRows) -> list[Problem]:
    return [problem for problem in found.concluded if problem in PAPERS]


def _over_all(found: ScalingRows) -> ClaimResult:
    differences = 100 * _kinds(found, "adaece", "FTS_ECE", "TS_ECE", list(found.concluded))
    return side_result(
        mean_interval(differences),
        claim="FTS has a lower AdaECE than TS on average over all kinds of networks",
        what=f"AdaECE of FTS − TS over {differences.size} kinds (data, loss), each a mean",
        paper_value=f"{_IMPROVES} Not all of these kinds are in the paper.",
        unit="points of AdaECE, FTS − TS",
        covers=False,
        is_papers=False,
        note="The interval is over the kinds.",
    )


def _everywhere(found: ScalingRows, *, is_full: bool) -> ClaimResult:
    differences = _kinds(found, "adaece", "FTS_ECE", "TS_ECE", _papers(found))
    return side_result(
        share_interval(int(np.sum(differences < 0)), differences.size),
        claim="FTS has a lower AdaECE than TS for every training loss: CIFAR-10",
        what="fraction of kinds of networks (images, loss) with a lower mean over seeds",
        paper_value=_CONSISTENT,
        unit=f"of {differences.size} kinds",
        below=False,
        bound=ALL,
        covers=is_full,
        note="γ = 0 is on the grid, so FTS is never worse than TS on the half it is fitted on; "
        "the other half is judged here.",
    )


def _same_log_loss(found: ScalingRows, *, is_full: bool) -> ClaimResult:
    changes = _kinds(found, "nll", "FTS_NLL", "TS_NLL", _papers(found))
    level = np.array(
        [
            found.values("nll, TS_NLL", problem, loss).mean()
            for problem in _papers(found)
            for loss in found.concluded[problem]
        ]
    )
    return side_result(
        mean_interval(100 * np.abs(changes) / level).within(0.0, np.inf),
        claim="FTS and TS, fitted by log loss, have about the same log loss: CIFAR-10",
        what="absolute change of NLL from TS to FTS, in percent, over the kinds of networks",
        paper_value=_CONSISTENT,
        unit="% of NLL",
        bound=SAME_NLL,
        covers=is_full,
        note=f"NLL is lower with FTS for {int((changes < 0).sum())} of {changes.size} kinds.",
    )


def _criterion_matters(found: ScalingRows, *, is_full: bool) -> ClaimResult:
    gains = []
    for problem in _papers(found):
        for loss in found.concluded[problem]:
            by_ece, by_nll = (
                np.mean(
                    [found.values(f"adaece, {m}_{fit}", problem, loss).mean() for m in _METHODS]
                )
                for fit in ("ECE", "NLL")
            )
            gains.append(100 * (1 - by_ece / by_nll))
    return side_result(
        mean_interval(gains),
        claim="Fitting by AdaECE instead of log loss lowers AdaECE: CIFAR-10",
        what="relative improvement of AdaECE, TS and FTS together, over the kinds of networks",
        paper_value='Sec. 5.2: "When evaluating ECE, we could gain an extra 20% relative '
        "improvement in average when optimizing for ECE on the validation set for the "
        'hyperparameter choice."',
        unit="% of AdaECE",
        below=False,
        covers=is_full,
    )


def _linear(
    found: ScalingRows, problems: list[Problem], *, is_full: bool
) -> Iterator[ClaimResult]:
    for problem in problems:
        is_papers = problem in PAPERS
        for largest, where in ((np.inf, "the whole grid of γ"), (1.0, "γ ≤ 1 only")):
            fits = [
                [
                    found.line(problem, loss, seed=seed, largest=largest)
                    for loss in found.focal(problem)
                    if GAMMA[loss] > 0
                ]
                for seed in range(SEEDS[found.scale])
            ]
            r2 = np.array([[fit.r2 for fit in row] for row in fits])
            least = np.fmin.reduce(r2, axis=None)
            slope = mean_of_known([fit.slope for row in fits for fit in row])
            yield side_result(
                mean_interval([mean_of_known(row) for row in r2]).within(0.0, 1.0),
                claim=f"The best T is linear in the γ of the map: {SET_NAMES[problem]}, {where}",
                what="R² of a line through the best T of focal networks, mean over networks",
                paper_value='Sec. 5.2, of Fig. 8: "It could be seen that the relationship is '
                'close to linear for all trained models."'
                if is_papers
                else SILENT,
                unit="R²",
                below=False,
                bound=NEAR_LINE,
                covers=is_full,
                is_papers=is_papers,
                note=f"Smallest R² {least:.3f}; mean slope {slope:.3f} per unit of γ.",
            )


def _trends(found: ScalingRows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    losses = found.focal(problem)
    gammas = [GAMMA[loss] for loss in losses]
    name, is_papers = SET_NAMES[problem], problem in PAPERS
    for metric, what, below, words in (
        (
            "T, TS_ECE",
            "The best T falls",
            True,
            'Sec. 5.2: "The optimal temperature generally decreases with the growth of the focal '
            'training parameter γ_tr."',
        ),
        ("adaece, TS_ECE", "AdaECE after TS falls", True, _BY_GAMMA),
        ("error, raw", "The error rises", False, _BY_GAMMA),
    ):
        table = np.array([found.values(metric, problem, loss) for loss in losses])
        yield side_result(
            rank_correlation_interval(gammas, table),
            claim=f"{what} with the γ of training: {name}",
            what=f"rank correlation with γ, 0 to {gammas[-1]:g}, over all networks",
            paper_value=words if is_papers else SILENT,
            unit="Spearman's ρ",
            below=below,
            covers=is_full,
            is_papers=is_papers,
        )
