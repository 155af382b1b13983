"""The claims of paper 003 about focal temperature scaling, with the rules that judge them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments._focal_temperature_found import FEWEST_GAMMAS, SEEDS, Found
from focalibrate.experiments._pool import SET_NAMES, judged
from focalibrate.experiments._trend import mean_of_known, rank_correlation
from focalibrate.experiments.networks import GAMMA, Problem
from focalibrate.experiments.verdict import Interval, Line, judge_above, mean_interval

PRINTED = {
    "ce": (1.03, 0.71),
    "fl1": (1.05, 0.82),
    "fl7": (0.66, 0.61),
    "flsd53": (1.30, 1.23),
    "adafocal": (1.80, 0.95),
}
"""Table 1, CIFAR-10: ECE in percent after TS and after FTS, of the rows legible in our copy."""
NEAR_LINE = 0.95
"""R² from which a relation counts as close to linear; the paper gives no number."""
SAME_NLL = 2.0
"""Percent within which two log losses count as about the same; the paper gives no number."""


def claims(found: Found, *, is_full: bool) -> tuple[Line, ...]:
    """Return a line for each claim."""
    trends = [p for p in found.losses if len(found.focal(p)) >= FEWEST_GAMMAS]
    return (
        *(_fts_below_ts(found, p, is_full=is_full) for p in found.losses),
        _over_all(found, is_full=is_full),
        _everywhere(found, is_full=is_full),
        _same_log_loss(found, is_full=is_full),
        _criterion_matters(found, is_full=is_full),
        *_linear(found, trends, is_full=is_full),
        *(line for p in trends for line in _trends(found, p, is_full=is_full)),
    )


def _fts_below_ts(found: Found, problem: Problem, *, is_full: bool) -> Line:
    ours = _mean_over_losses(found, problem)
    is_printed = problem == "cifar10"
    mean = np.mean([after - before for before, after in PRINTED.values()])
    return judged(
        mean_interval(ours),
        claim=f"FTS has a lower AdaECE than TS: {SET_NAMES[problem]}",
        what="AdaECE of FTS less TS, both fitted by it, mean over the losses, paired by network",
        paper=f"Table 1: mean of the {len(PRINTED)} legible pairs {mean:.2f}"
        if is_printed
        else "not in the paper",
        unit="points of AdaECE",
        is_full=is_full,
    )


def _mean_over_losses(found: Found, problem: Problem) -> NDArray[np.float64]:
    each = [
        100 * found.less("adaece", problem, loss, first="FTS_ECE", second="TS_ECE")
        for loss in found.losses[problem]
    ]
    return np.asarray(np.mean(each, axis=0), dtype=np.float64)


def _kinds(found: Found, metric: str, first: str, second: str) -> NDArray[np.float64]:
    """Return the mean over seeds of a difference for each problem and loss."""
    return np.array(
        [
            found.less(metric, problem, loss, first=first, second=second).mean()
            for problem, losses in found.losses.items()
            for loss in losses
        ]
    )


def _over_all(found: Found, *, is_full: bool) -> Line:
    differences = 100 * _kinds(found, "adaece", "FTS_ECE", "TS_ECE")
    ours = mean_interval(differences)
    return judged(
        ours,
        claim="FTS has a lower AdaECE than TS on average over all kinds of networks",
        what=f"AdaECE of FTS less TS over {differences.size} kinds (data, loss), each a mean",
        paper='Sec. 5.2: "could noticeably improve ECE among all baseline models"',
        unit="points of AdaECE",
        is_full=is_full,
        note="The interval is over the kinds.",
    )


def _everywhere(found: Found, *, is_full: bool) -> Line:
    differences = _kinds(found, "adaece", "FTS_ECE", "TS_ECE")
    ours = Interval.exact(float(np.mean(differences < 0)))
    return Line(
        "FTS has a lower AdaECE than TS whatever the training loss",
        "the mean over seeds is lower for every kind of network (data, loss)",
        'Sec. 6: "a consistent improvement in calibration over all trained models"',
        ours,
        f"of {differences.size} kinds",
        judge_above(ours, 1.0 - 1e-9, is_full=is_full),
        "γ = 0 is on the grid, so that FTS is never above TS on the half it is fitted on; what "
        "it is on the other half is judged here.",
    )


def _same_log_loss(found: Found, *, is_full: bool) -> Line:
    changes = _kinds(found, "nll", "FTS_NLL", "TS_NLL")
    level = np.array(
        [
            found.values("nll, TS_NLL", problem, loss).mean()
            for problem, losses in found.losses.items()
            for loss in losses
        ]
    )
    return judged(
        mean_interval(100 * np.abs(changes) / level),
        claim="FTS and TS, fitted by log loss, have about the same log loss",
        what="size of the change of NLL from TS to FTS, in percent, over the kinds of networks",
        paper='Sec. 6: "log-loss being approximately the same"',
        unit="% of NLL",
        bound=SAME_NLL,
        is_full=is_full,
        note=f"NLL is lower by FTS for {int((changes < 0).sum())} of {changes.size} kinds.",
    )


def _criterion_matters(found: Found, *, is_full: bool) -> Line:
    gains = []
    for problem, losses in found.losses.items():
        for loss in losses:
            by_ece, by_nll = (
                np.mean(
                    [found.values(f"adaece, {m}_{fit}", problem, loss).mean() for m in _METHODS]
                )
                for fit in ("ECE", "NLL")
            )
            gains.append(100 * (1 - by_ece / by_nll))
    return judged(
        mean_interval(gains),
        claim="Fitting by AdaECE instead of log loss lowers AdaECE",
        what="relative gain of AdaECE, TS and FTS together, over the kinds of networks",
        paper='Sec. 5.2: "an extra 20% relative improvement in average"',
        unit="% of AdaECE",
        below=False,
        is_full=is_full,
    )


_METHODS = ("TS", "FTS")


def _linear(found: Found, problems: list[Problem], *, is_full: bool) -> Iterator[Line]:
    for problem in problems:
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
            yield judged(
                mean_interval([mean_of_known(row) for row in r2]),
                claim=f"The best T is linear in the γ of the map: {SET_NAMES[problem]}, {where}",
                what="R² of a line through the best T of a focal network, mean over networks",
                paper='Fig. 8: "close to linear for all trained models"',
                unit="R²",
                below=False,
                bound=NEAR_LINE,
                is_full=is_full,
                note=f"Least R² {least:.3f}; mean slope {slope:.3f} a unit of γ.",
            )


def _trends(found: Found, problem: Problem, *, is_full: bool) -> Iterator[Line]:
    losses = found.focal(problem)
    gammas = [GAMMA[loss] for loss in losses]

    def ranks(metric: str) -> Interval:
        table = np.array([found.values(metric, problem, loss) for loss in losses])
        return mean_interval([rank_correlation(gammas, column) for column in table.T])

    name = SET_NAMES[problem]
    for metric, what, below, words in (
        ("T, TS_ECE", "The best T falls", True, '"generally decreases with the growth"'),
        ("adaece, TS_ECE", "AdaECE after TS falls", True, '"generally better ECE"'),
        ("error, raw", "The error rises", False, '"but worse accuracy"'),
    ):
        yield judged(
            ranks(metric),
            claim=f"{what} with the γ of training: {name}",
            what=f"rank correlation with γ, 0 to {gammas[-1]:g}",
            paper=f"Sec. 5.2: {words}",
            unit="Spearman's ρ",
            below=below,
            is_full=is_full,
        )
