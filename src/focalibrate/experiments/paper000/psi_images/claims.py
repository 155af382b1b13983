"""The claims of paper 000 about Ψ on images, with the rules that judge them."""

from collections.abc import Iterator

import numpy as np

from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    mean_interval,
    share_interval,
    side_result,
)
from focalibrate.experiments.networks.pool import SET_NAMES, UNPUBLISHED
from focalibrate.experiments.networks.recipes import Problem
from focalibrate.experiments.paper000.psi_images.rows import PROBLEMS, PsiRows, Setting

COMPARABLE = 1.0
"""Points of ECE within which two losses count as comparable; the paper gives no number."""
SILENT = "the paper's text does not mention this data set"
_WORDS = {
    "Standard": 'Sec. 6.2: "although our transformation Ψ can greatly improve the performance for '
    'Standard in SVHN, it worsens the performance for Standard in CIFAR10" (ResNet110)',
    "TS_FL": 'Fig. 6: "Box plots of ECEs with varying γ for ResNet110 using TS_FL for CIFAR10 and '
    "CIFAR10-s, and LS for CIFAR10. It can be observed that using the transformation Ψ is "
    'preferable."',
}
_WORDS["LS"] = _WORDS["TS_FL"]


def claims(found: PsiRows, *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Return one result per claim."""
    problems = PROBLEMS[found.scale]
    return (
        *_change_by_psi(found, is_full=is_full),
        _same_error(found),
        *(r for p in problems for r in _temperature_results(found, p, is_full=is_full)),
        *_smoothing_results(found, is_full=is_full),
        *(_against_cross_entropy(found, p) for p in problems),
        _most_settings(found),
        _overconfident_ones(found),
    )


def _name(setting: Setting) -> str:
    return f"{SET_NAMES[setting.problem]}, {setting.paradigm}"


def _change_by_psi(found: PsiRows, *, is_full: bool) -> Iterator[ClaimResult]:
    """Yield the sign of the change by Ψ: the paper says that Standard gets worse on CIFAR-10."""
    for setting in found.settings:
        is_papers = setting.problem not in UNPUBLISHED
        below = not (is_papers and setting.paradigm == "Standard")
        for gamma in found.gammas(setting)[1:]:
            gap = found.values("gap", setting, gamma, is_after=False).mean()
            side = "over" if gap > 0 else "under"
            yield side_result(
                mean_interval(found.change(setting, gamma)),
                claim=f"Ψ {'lowers' if below else 'raises'} the ECE of FL-{gamma}: "
                f"{_name(setting)}",
                what="ECE with Ψ − ECE without, paired by seed",
                paper_value=_WORDS[setting.paradigm] if is_papers else SILENT,
                unit="points of ECE, with Ψ − without",
                below=below,
                covers=is_full,
                is_papers=is_papers,
                note=f"Without Ψ, {side}confident by {abs(gap):.1f} points on average.",
            )


def _same_error(found: PsiRows) -> ClaimResult:
    changes = [
        found.values("error", s, g, is_after=True) - found.values("error", s, g, is_after=False)
        for s in found.settings
        for g in found.gammas(s)
    ]
    return side_result(
        Interval.exact(float(max(np.abs(change).max() for change in changes))),
        claim="Ψ does not change the error",
        what="the largest change over all networks",
        paper_value="Prop. 12: Ψ preserves the decision rule",
        unit="points of error",
        bound=1e-9,
        covers=True,
    )


def _temperature_results(
    found: PsiRows, problem: Problem, *, is_full: bool
) -> Iterator[ClaimResult]:
    scaled, standard = Setting(problem, "TS_FL"), Setting(problem, "Standard")
    name, is_papers = SET_NAMES[problem], problem not in UNPUBLISHED
    before, after = (
        mean_interval(found.focal_ece(scaled, is_after=x) - found.focal_ece(standard, is_after=x))
        for x in (False, True)
    )
    yield side_result(
        before,
        claim=f"Without Ψ, TS_FL raises the ECE of Standard: {name}",
        what="ECE of TS_FL − Standard, both without Ψ, mean over γ > 0",
        paper_value='Sec. 6.1: "in TS_FL, if Ψ is not applied, we can see that ECE-raw degrades '
        'compared with that of Standard"'
        if is_papers
        else SILENT,
        unit="points of ECE, TS_FL − Standard",
        below=False,
        covers=is_full,
        is_papers=is_papers,
    )
    yield side_result(
        after,
        claim=f"With Ψ, TS_FL lowers the ECE of Standard: {name}",
        what="ECE of TS_FL − Standard, both with Ψ, mean over γ > 0",
        paper_value='Sec. 6.1: "On the other hand, our transformation Ψ can further improve the '
        'performance of Standard"'
        if is_papers
        else SILENT,
        unit="points of ECE, TS_FL − Standard",
        covers=is_full,
        is_papers=is_papers,
    )
    yield _rises_with_gamma(found, scaled, is_full=is_full)


def _rises_with_gamma(found: PsiRows, setting: Setting, *, is_full: bool) -> ClaimResult:
    last, is_papers = found.gammas(setting)[-1], setting.problem not in UNPUBLISHED
    most, none = (found.values("ece", setting, g, is_after=False) for g in (last, 0))
    return side_result(
        mean_interval(most - none),
        claim=f"Without Ψ, ECE rises with γ: {_name(setting)}",
        what=f"ECE at γ = {last} − that at γ = 0, paired by seed",
        paper_value='Sec. 6.2: "For LS and TS_FL, we observe that a larger γ always leads to '
        'worse performance and Ψ can effectively mitigate this problem for every dataset"'
        if is_papers
        else SILENT,
        unit=f"points of ECE, γ = {last} − γ = 0",
        below=False,
        covers=is_full,
        is_papers=is_papers,
    )


def _smoothing_results(found: PsiRows, *, is_full: bool) -> Iterator[ClaimResult]:
    for setting in found.settings:
        if setting.paradigm != "LS":
            continue
        is_papers = setting.problem not in UNPUBLISHED
        yield _rises_with_gamma(found, setting, is_full=is_full)
        without, after = (
            np.ptp(
                [found.values("ece", setting, g, is_after=x) for g in found.gammas(setting)],
                axis=0,
            )
            for x in (False, True)
        )
        yield side_result(
            mean_interval(after - without),
            claim=f"With Ψ, the ECE depends less on γ: {_name(setting)}",
            what="range of ECE over γ with Ψ − that without, paired by seed",
            paper_value='Sec. 6.1: "For LS, ECE-raw drastically increases as γ increases, whereas '
            'the value of γ does not significantly affect ECE-Ψ"'
            if is_papers
            else SILENT,
            unit="points of ECE, with Ψ − without",
            covers=is_full,
            is_papers=is_papers,
        )


def _against_cross_entropy(found: PsiRows, problem: Problem) -> ClaimResult:
    standard = Setting(problem, "Standard")
    plain = found.values("ece", standard, 0, is_after=False)
    return side_result(
        mean_interval(found.focal_ece(standard, is_after=True) - plain),
        claim=f"FL with Ψ has at most {COMPARABLE:g} point more ECE than CE: {SET_NAMES[problem]}",
        what="ECE with Ψ, mean over γ > 0, − that of CE, paired by seed",
        paper_value='Sec. 6.3 says so of the 30 sets of its appendix C: "Ψ can successfully '
        'improve ECE to be comparable with that of the cross-entropy loss"; see psi-tabular',
        unit="points of ECE, FL with Ψ − CE",
        bound=COMPARABLE,
        covers=False,
        is_papers=False,
    )


def _most_settings(found: PsiRows) -> ClaimResult:
    changes = [found.change(s, g).mean() for s in found.settings for g in found.gammas(s)[1:]]
    return side_result(
        share_interval(int(np.sum(np.array(changes) < 0)), len(changes)),
        claim="Ψ lowers the ECE of focal networks in most of the settings run here",
        what="fraction of settings (data, paradigm, γ > 0) with a lower mean",
        paper_value='Sec. 6.1, of SVHN and CIFAR-10: "Ψ substantially improves ECE for most '
        'settings"; these are not its settings',
        unit=f"of {len(changes)} settings",
        below=False,
        bound=0.5,
        covers=False,
        is_papers=False,
    )


def _overconfident_ones(found: PsiRows) -> ClaimResult:
    networks = [
        (setting, gamma)
        for setting in found.settings
        if setting.paradigm == "Standard"
        for gamma in found.gammas(setting)[1:]
    ]
    gaps = np.concatenate([found.values("gap", *network, is_after=False) for network in networks])
    changes = np.concatenate([found.change(*network) for network in networks])
    agree = int(np.sum((gaps > 0) == (changes > 0)))
    return side_result(
        share_interval(agree, gaps.size),
        claim="Ψ raises the ECE exactly for the networks that are overconfident after training",
        what="fraction of focal networks (Standard) for which both or neither is true",
        paper_value='Sec. 6.2 names the cause: "DNNs can overfit the one-hot vector, which leads '
        'to overconfident prediction"',
        unit=f"of {gaps.size} networks, {int((gaps > 0).sum())} of them overconfident",
        below=False,
        bound=0.9,
        covers=False,
        is_papers=False,
        note="Ψ is exact only for the minimiser of the focal risk. It raises nearly every "
        "confidence, so an overconfident network becomes even more overconfident.",
    )


def finding(found: PsiRows) -> str:
    """Return the main result in one sentence."""
    parts = []
    for problem in PROBLEMS[found.scale]:
        setting = Setting(problem, "Standard")
        gamma = found.gammas(setting)[-1]
        before, after = (
            found.values("ece", setting, gamma, is_after=x).mean() for x in (False, True)
        )
        parts.append(f"{before:.1f} → {after:.1f} on {SET_NAMES[problem]} (FL-{gamma})")
    return (
        f"ECE in % without → with Ψ: {', '.join(parts)}. These networks are trained on few images "
        "without augmentation, where paper 000 says that Ψ is less effective."
    )
