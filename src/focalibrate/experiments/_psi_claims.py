"""The claims of paper 000 about Ψ on images, with the rules that judge them."""

from collections.abc import Iterator

import numpy as np

from focalibrate.experiments._pool import SET_NAMES, judged
from focalibrate.experiments._psi_found import PROBLEMS, Found, Setting
from focalibrate.experiments.networks import Problem
from focalibrate.experiments.verdict import Interval, Line, judge_above, judge_below, mean_interval

COMPARABLE = 1.0
"""Points of ECE within which two losses count as comparable; the paper gives no number."""
_WORDS = {
    "Standard": 'Fig. 4 and Sec. 6.2, ResNet110: "greatly improve" on SVHN, "worsens" on CIFAR-10',
    "TS_FL": 'Fig. 6: "using the transformation Ψ is preferable"',
    "LS": 'Fig. 6: "using the transformation Ψ is preferable"',
}


def claims(found: Found, *, is_full: bool) -> tuple[Line, ...]:
    """Return a line for each claim."""
    problems = PROBLEMS[found.scale]
    return (
        *_psi_lowers(found, is_full=is_full),
        _most_settings(found, is_full=is_full),
        _same_error(found, is_full=is_full),
        *(line for p in problems for line in _temperature_lines(found, p, is_full=is_full)),
        *_smoothing_lines(found, is_full=is_full),
        *(_against_cross_entropy(found, p, is_full=is_full) for p in problems),
        _overconfident_ones(found, is_full=is_full),
    )


def _name(setting: Setting) -> str:
    return f"{SET_NAMES[setting.problem]}, {setting.paradigm}"


def _psi_lowers(found: Found, *, is_full: bool) -> Iterator[Line]:
    for setting in found.settings:
        for gamma in found.gammas(setting)[1:]:
            gap = found.values("gap", setting, gamma, is_after=False).mean()
            side = "over" if gap > 0 else "under"
            yield judged(
                mean_interval(found.change(setting, gamma)),
                claim=f"Ψ lowers the ECE of FL-{gamma}: {_name(setting)}",
                what="ECE with Ψ less ECE without, paired by seed",
                paper=_WORDS[setting.paradigm],
                unit="points of ECE",
                is_full=is_full,
                note=f"Without Ψ, {side}confident by {abs(gap):.1f} points on average.",
            )


def _most_settings(found: Found, *, is_full: bool) -> Line:
    changes = [found.change(s, g).mean() for s in found.settings for g in found.gammas(s)[1:]]
    ours = Interval.exact(float(np.mean(np.array(changes) < 0)))
    return Line(
        "Ψ lowers the ECE of focal networks in most settings",
        "the mean over seeds falls in more than half of the settings (data, paradigm, γ > 0)",
        'Sec. 6.1: "substantially improves ECE for most settings"',
        ours,
        f"of {len(changes)} settings",
        judge_above(ours, 0.5, is_full=is_full),
    )


def _same_error(found: Found, *, is_full: bool) -> Line:
    changes = [
        found.values("error", s, g, is_after=True) - found.values("error", s, g, is_after=False)
        for s in found.settings
        for g in found.gammas(s)
    ]
    ours = Interval.exact(float(max(np.abs(change).max() for change in changes)))
    return Line(
        "Ψ leaves the error as it is",
        "the largest change over all networks is 0 (below 1e-9 points)",
        "Prop. 12: the decision rule is preserved",
        ours,
        "points of error",
        judge_below(ours, 1e-9, is_full=is_full),
    )


def _temperature_lines(found: Found, problem: Problem, *, is_full: bool) -> Iterator[Line]:
    scaled, standard = Setting(problem, "TS_FL"), Setting(problem, "Standard")
    name = SET_NAMES[problem]
    before, after = (
        mean_interval(found.focal_ece(scaled, is_after=x) - found.focal_ece(standard, is_after=x))
        for x in (False, True)
    )
    yield judged(
        before,
        claim=f"Without Ψ, TS_FL raises the ECE of Standard: {name}",
        what="ECE of TS_FL less Standard, both without Ψ, mean over γ > 0",
        paper='Sec. 6.1: "ECE-raw degrades compared with that of Standard"',
        unit="points of ECE",
        below=False,
        is_full=is_full,
    )
    yield judged(
        after,
        claim=f"With Ψ, TS_FL lowers the ECE of Standard: {name}",
        what="ECE of TS_FL less Standard, both with Ψ, mean over γ > 0",
        paper='Sec. 6.1: "can further improve the performance of Standard"',
        unit="points of ECE",
        is_full=is_full,
    )
    yield _rises_with_gamma(found, scaled, is_full=is_full)


def _rises_with_gamma(found: Found, setting: Setting, *, is_full: bool) -> Line:
    last = found.gammas(setting)[-1]
    most, none = (found.values("ece", setting, g, is_after=False) for g in (last, 0))
    return judged(
        mean_interval(most - none),
        claim=f"Without Ψ, ECE rises with γ: {_name(setting)}",
        what=f"ECE at γ = {last} less that at γ = 0, paired by seed",
        paper='Sec. 6.2: "a larger γ always leads to worse performance"',
        unit="points of ECE",
        below=False,
        is_full=is_full,
    )


def _smoothing_lines(found: Found, *, is_full: bool) -> Iterator[Line]:
    for setting in found.settings:
        if setting.paradigm != "LS":
            continue
        yield _rises_with_gamma(found, setting, is_full=is_full)
        without, after = (
            np.ptp(
                [found.values("ece", setting, g, is_after=x) for g in found.gammas(setting)],
                axis=0,
            )
            for x in (False, True)
        )
        yield judged(
            mean_interval(after - without),
            claim=f"With Ψ, γ matters less: {_name(setting)}",
            what="range of ECE over γ with Ψ less that without, paired by seed",
            paper='Sec. 6.1: raw "drastically increases", γ "does not significantly affect ECE-Ψ"',
            unit="points of ECE",
            is_full=is_full,
        )


def _against_cross_entropy(found: Found, problem: Problem, *, is_full: bool) -> Line:
    standard = Setting(problem, "Standard")
    plain = found.values("ece", standard, 0, is_after=False)
    return judged(
        mean_interval(found.focal_ece(standard, is_after=True) - plain),
        claim=f"FL with Ψ is comparable to CE, or better: {SET_NAMES[problem]}",
        what="ECE with Ψ, mean over γ > 0, less that of CE, paired by seed",
        paper='Sec. 6.3 (30 other sets): "comparable with that of the cross-entropy loss"',
        unit="points of ECE",
        bound=COMPARABLE,
        is_full=is_full,
    )


def _overconfident_ones(found: Found, *, is_full: bool) -> Line:
    networks = [
        (setting, gamma)
        for setting in found.settings
        if setting.paradigm == "Standard"
        for gamma in found.gammas(setting)[1:]
    ]
    gaps = np.concatenate([found.values("gap", *network, is_after=False) for network in networks])
    changes = np.concatenate([found.change(*network) for network in networks])
    ours = Interval.exact(float(np.mean((gaps > 0) == (changes > 0))))
    return Line(
        "Ψ fails where training left the network overconfident, and only there",
        "in more than 9 of 10 focal networks (Standard), Ψ raises ECE exactly if the mean "
        "confidence without it is above the accuracy",
        "Sec. 6.2: less effective where networks overfit one-hot labels or data are few",
        ours,
        f"of {gaps.size} networks, {int((gaps > 0).sum())} of them overconfident",
        judge_above(ours, 0.9, is_full=is_full),
        "Ψ is exact for the minimiser of the focal risk only. It raises nearly every confidence, "
        "so that a network already overconfident gets further from its accuracy.",
    )
