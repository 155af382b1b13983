"""Where Ψ helps and where it hurts: the rules, written before the long trainings ended."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    mean_interval,
    side_result,
)
from focalibrate.experiments.networks.trend import correlation
from focalibrate.experiments.paper000.psi_gap.rows import (
    FITTED,
    GAMMAS,
    LINE,
    NEAR,
    Setting,
    by_problem,
    loss_name,
    mean_changes,
    resampled_by_problem,
)

EXACTLY = 0.9
"""The fraction of settings that "exactly" requires."""
_MINIMISER = (
    'Sec. 6.2: "our proposed transformation does not always improve the performance in practice, '
    'which could occur when the focal risk minimizer is not successfully learned"'
)
_OVERFIT = (
    'Sec. 6.2: "We hypothesize that there are two potential reasons: (1) DNNs can overfit the '
    "one-hot vector, which leads to overconfident prediction [...] (2) The amount of data could "
    'be insufficient for correctly estimating the true class-posterior probability"'
)
_SIZE = (
    'Sec. 6.2, of images: "Ψ becomes less effective as the dataset size gets smaller" and '
    '"as the model becomes more complex"'
)


def claims(rows: Rows, settings: Sequence[Setting]) -> tuple[ClaimResult, ...]:
    """Return one result per question; all are our own, based on hypotheses of the paper."""
    known = [s for s in settings if not math.isnan(s.loss_gap)]
    return (
        _near(known),
        _fitted(known),
        _goes_with(known, "loss"),
        _goes_with(settings, "error"),
        _exactly(known),
        _confidence_says_more(known),
        *_less_data(rows, settings),
    )


def near_and_fitted(settings: Sequence[Setting]) -> tuple[Interval, Interval]:
    """Return the mean change by Ψ near the minimiser, and for overfitted networks."""
    return (
        mean_interval(mean_changes([s for s in settings if s.is_near])),
        mean_interval(mean_changes([s for s in settings if s.is_fitted])),
    )


def finding(settings: Sequence[Setting]) -> str:
    """Return the answer in one sentence."""
    known = [s for s in settings if not math.isnan(s.loss_gap)]
    near, fitted = (
        "an unknown amount (there are no such settings)"
        if math.isnan(interval.estimate)
        else f"{interval.estimate:+.1f} points [{interval.low:+.1f}, {interval.high:+.1f}]"
        for interval in near_and_fitted(known)
    )
    return (
        f"If training and test loss agree (within {NEAR:g}), Ψ changes the ECE by {near}; if a "
        f"network fits its training examples (error below {100 * FITTED:g} %) and has a higher "
        f"loss on test examples, by {fitted} (mean over problems, 95 % confidence interval)."
    )


def _counted(settings: Sequence[Setting]) -> str:
    helped, problems = sum(s.change < 0 for s in settings), len(by_problem(settings))
    return f"{len(settings)} settings of {problems} problems; the ECE falls in {helped} of them."


def _near(settings: Sequence[Setting]) -> ClaimResult:
    return side_result(
        near_and_fitted(settings)[0],
        claim="Ψ lowers the ECE if training and test loss agree",
        what="ECE with Ψ − without, mean over problems, for settings whose test loss is less "
        f"than {NEAR:g} above the training loss",
        paper_value=_MINIMISER,
        unit="points of ECE, with Ψ − without",
        covers=False,
        is_papers=False,
        note=_counted([s for s in settings if s.is_near]),
    )


def _fitted(settings: Sequence[Setting]) -> ClaimResult:
    return side_result(
        near_and_fitted(settings)[1],
        claim="Ψ raises the ECE if the network fits its training examples but not the test "
        "examples",
        what="ECE with Ψ − without, mean over problems, for settings with a training error below "
        f"{100 * FITTED:g} % and a test loss at least {NEAR:g} above the training loss",
        paper_value=_OVERFIT,
        unit="points of ECE, with Ψ − without",
        below=False,
        covers=False,
        is_papers=False,
        note=_counted([s for s in settings if s.is_fitted]),
    )


def _goes_with(settings: Sequence[Setting], what: str) -> ClaimResult:
    def gap(setting: Setting) -> float:
        return setting.loss_gap if what == "loss" else setting.error_gap

    def estimate(drawn: list[Setting]) -> float:
        gaps, changes = rankdata([gap(s) for s in drawn]), rankdata([s.change for s in drawn])
        return float(correlation(gaps, changes))

    return side_result(
        resampled_by_problem(estimate, settings),
        claim=f"The further the test {what} is above the training {what}, the less Ψ helps",
        what=f"rank correlation of test − training {what} with the change of ECE by Ψ, over all "
        "settings; interval by resampling problems",
        paper_value=_OVERFIT,
        unit="Spearman's ρ",
        below=False,
        covers=False,
        is_papers=False,
        note=f"{len(settings)} settings of {len(by_problem(settings))} problems.",
    )


def _agreement(settings: Sequence[Setting], *, by_confidence: bool) -> float:
    """Return the fraction of settings in which the sign predicts correctly whether Ψ helps."""
    expected = [s.confidence_gap < 0 if by_confidence else s.is_near for s in settings]
    return float(np.mean([s.change < 0 for s in settings] == np.array(expected)))


def _exactly(settings: Sequence[Setting]) -> ClaimResult:
    return side_result(
        resampled_by_problem(lambda drawn: _agreement(drawn, by_confidence=False), settings),
        claim="Ψ lowers the ECE exactly if training and test loss agree",
        what=f"fraction of settings in which both or neither is true (agree: within {NEAR:g}); "
        "interval by resampling problems",
        paper_value=_MINIMISER,
        unit=f"of {len(settings)} settings",
        below=False,
        bound=EXACTLY,
        covers=False,
        is_papers=False,
    )


def _confidence_says_more(settings: Sequence[Setting]) -> ClaimResult:
    def estimate(drawn: list[Setting]) -> float:
        return _agreement(drawn, by_confidence=True) - _agreement(drawn, by_confidence=False)

    share = _agreement(settings, by_confidence=True)
    return side_result(
        resampled_by_problem(estimate, settings),
        claim="Underconfidence on held-out examples predicts better than the losses whether Ψ "
        "helps",
        what="fraction of settings predicted correctly by the sign of confidence − accuracy, "
        f"minus the fraction predicted correctly by a loss gap below {NEAR:g}; interval by "
        "resampling problems",
        paper_value="the paper does not compare the two",
        unit="difference of shares",
        below=False,
        covers=False,
        is_papers=False,
        note=f"The sign of confidence − accuracy is right in {share:.0%} of the settings.",
    )


def _less_data(rows: Rows, settings: Sequence[Setting]) -> list[ClaimResult]:
    """Return the results for few and for many examples of the same problem, if both were run."""
    sizes = sorted(
        {int(s.problem.removeprefix(LINE)) for s in settings if s.problem.startswith(LINE)}
    )
    if len(sizes) < 2:
        return []
    few, many = (_changes_by_seed(rows, f"{LINE}{n}") for n in (sizes[0], sizes[-1]))
    return [
        side_result(
            mean_interval(few - many),
            claim=f"On a line, Ψ helps less with {sizes[0]:,} than with {sizes[-1]:,} examples",
            what="change of ECE by Ψ, mean over γ, few − many examples, per seed",
            paper_value=_SIZE,
            unit="points of ECE, few − many",
            below=False,
            covers=False,
            is_papers=False,
            note=f"Ψ changes the ECE by {few.mean():+.2f} points with {sizes[0]:,} examples and "
            f"by {many.mean():+.2f} with {sizes[-1]:,}.",
        )
    ]


def _changes_by_seed(rows: Rows, problem: str) -> np.ndarray:
    curves = [
        100
        * (
            rows.curve(problem, f"ECE with Ψ, {loss_name(g)}")[1]
            - rows.curve(problem, f"ECE, {loss_name(g)}")[1]
        )
        for g in GAMMAS
    ]
    return np.asarray(np.mean(curves, axis=0))
