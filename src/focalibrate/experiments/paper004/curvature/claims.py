"""The claims of paper 004 about curvature, with the rules that judge them."""

from collections.abc import Iterator

import numpy as np

from focalibrate.experiments.engine.forest import show_interval
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    mean_interval,
    rank_correlation_interval,
    side_result,
)
from focalibrate.experiments.networks.pool import SET_NAMES, UNPUBLISHED
from focalibrate.experiments.networks.recipes import Problem
from focalibrate.experiments.paper004.curvature.rows import CurvatureRows, resampled

DEEP = 0.5
"""Points of ECE by which a minimum must be below both ends; the paper gives no number."""
OF_LOSS = {"own": "the training loss", "ce": "cross-entropy"}
_FALLS = (
    'Fig. 2, on CIFAR-100: "For all architectures, λ_max(H_val) monotonically decreases with '
    'increasing γ"; not said of which loss'
)
_MIDDLE = (
    'Fig. 3, on CIFAR-100: "ECE reaches a minimum peak for all network architectures when '
    'Tr(H_val) is reduced to a certain extent rather than maximizing it"'
)


def claims(found: CurvatureRows, *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Return one result per claim."""
    return tuple(
        result
        for problem in found.problems
        for result in _of_problem(found, problem, is_full=is_full)
    )


def finding(found: CurvatureRows) -> str:
    """Return the main result: how λ_max of the focal loss and of cross-entropy depend on γ."""
    parts = []
    for of, name in OF_LOSS.items():
        trends = [_trend(found, problem, of) for problem in found.problems]
        first, *more = [f"{verb} {where}" for verb, where in trends]
        if len({verb for verb, _ in trends}) == 1:
            more = [where for _, where in trends[1:]]
        parts.append(f"λ_max of {name} {' and '.join([first, *more])}")
    return (
        f"As the γ of training grows, {'; '.join(parts)} (both losses at the same trained "
        "weights; rank correlation ρ with its 95 % confidence interval)."
    )


def _trend(found: CurvatureRows, problem: Problem, of: str) -> tuple[str, str]:
    """Return whether λ_max falls or rises with γ, and where, with the correlation."""
    table = found.table(f"lambda_max, {of}", problem)
    ours = rank_correlation_interval(found.gammas(problem), table)
    verb = "falls" if ours.high < 0 else "rises" if ours.low > 0 else "shows no clear trend"
    number = f"ρ = {ours.estimate:.2f} [{ours.low:.2f}, {ours.high:.2f}]"
    return verb, f"on {SET_NAMES[problem]} ({number})"


def _of_problem(found: CurvatureRows, problem: Problem, *, is_full: bool) -> Iterator[ClaimResult]:
    yield _falls(found, problem, "lambda_max", "own", is_full=is_full)
    yield _monotonic(found, problem, is_full=is_full)
    yield _falls(found, problem, "lambda_max", "ce", is_full=is_full)
    for of in OF_LOSS:
        yield _falls(found, problem, "trace", of, is_full=is_full)
    yield _same_weights(found, problem)
    yield _best_gamma_inside(found, problem, is_full=is_full)
    yield _best_trace_inside(found, problem, is_full=is_full)


def _is_papers(problem: Problem) -> bool:
    return problem not in UNPUBLISHED


def _falls(
    found: CurvatureRows, problem: Problem, metric: str, of: str, *, is_full: bool
) -> ClaimResult:
    table, gammas = found.table(f"{metric}, {of}", problem), found.gammas(problem)
    name = {"lambda_max": "λ_max(H_val)", "trace": "Tr(H_val)"}[metric]
    means = ", ".join(f"{mean:.3g}" for mean in table.mean(axis=1))
    is_stated = metric == "lambda_max"
    return side_result(
        rank_correlation_interval(gammas, table),
        claim=f"{name} of {OF_LOSS[of]} falls with the γ of training: {SET_NAMES[problem]}",
        what="rank correlation with γ over all networks",
        paper_value=_FALLS if is_stated else "Fig. 3 shows ECE against it; no trend is stated",
        unit="Spearman's ρ",
        covers=is_full,
        is_papers=is_stated and _is_papers(problem),
        note=f"Means at γ = {', '.join(f'{g:g}' for g in gammas)}: {means}.",
    )


def _monotonic(found: CurvatureRows, problem: Problem, *, is_full: bool) -> ClaimResult:
    logs = np.log(found.table("lambda_max, own", problem))
    steps = [mean_interval(step) for step in np.diff(logs, axis=0)]
    worst = max(steps, key=lambda step: step.high)
    return side_result(
        worst,
        claim=f"λ_max(H_val) of the training loss falls at every step of γ: {SET_NAMES[problem]}",
        what="log ratio of λ_max of neighbouring γ, paired by seed, at the least certain step",
        paper_value=_FALLS,
        unit="log ratio",
        covers=is_full,
        is_papers=_is_papers(problem),
        note=f"The mean falls at {sum(s.estimate < 0 for s in steps)} of {len(steps)} steps.",
    )


def _same_weights(found: CurvatureRows, problem: Problem) -> ClaimResult:
    own, plain = (found.table(f"lambda_max, {of}", problem)[1:] for of in OF_LOSS)
    ratio = own / plain
    return side_result(
        mean_interval(np.log(ratio).mean(axis=0)),
        claim="At the trained weights, focal loss has a lower λ_max than CE: "
        f"{SET_NAMES[problem]}",
        what="log of λ_max of the training loss over that of CE, mean over networks of γ > 0",
        paper_value='Eq. 28 expands at the maximum likelihood estimate: "the larger γ makes the '
        'curvature term smaller"; these networks are not at that estimate',
        unit="log ratio",
        covers=False,
        is_papers=False,
        note=f"Ratios from {ratio.min():.3g} to {ratio.max():.3g}. It depends on the weights "
        "which loss is more curved: see 004-eq-28 of `focalibrate theory`.",
    )


def _best_gamma_inside(found: CurvatureRows, problem: Problem, *, is_full: bool) -> ClaimResult:
    table, gammas = found.table("ece", problem), found.gammas(problem)
    best = gammas[table.mean(axis=1).argmin()]
    return side_result(
        mean_interval(table[1:-1].min(axis=0) - table[[0, -1]].min(axis=0)),
        claim=f"ECE is lowest at an intermediate γ: {SET_NAMES[problem]}",
        what="lowest ECE at a γ between the ends − the lower ECE of the two ends, paired by seed",
        paper_value='Fig. 2, on CIFAR-100: "ECE reaches its minimum for ViT architecture around '
        'γ=10 and for other architectures around γ=3,4"',
        unit="points of ECE",
        covers=is_full,
        is_papers=_is_papers(problem),
        note=f"The mean over seeds is lowest at γ = {best:g} of 0 to {gammas[-1]:g}.",
    )


def _best_trace_inside(found: CurvatureRows, problem: Problem, *, is_full: bool) -> ClaimResult:
    trace, ece = (found.table(m, problem).ravel() for m in ("trace, own", "ece"))
    depth, best, curve = resampled(trace, ece)
    return side_result(
        depth,
        claim=f"ECE is lowest at an intermediate Tr(H_val): {SET_NAMES[problem]}",
        what="depth of the minimum of a cubic of ECE on Tr(H_val), where there are networks, "
        "below its lower end; interval by resampling the networks",
        paper_value=_MIDDLE,
        unit="points of ECE below the lower end",
        below=False,
        bound=DEEP,
        covers=is_full,
        is_papers=_is_papers(problem),
        note=f"Lowest at Tr = {show_interval(best)} of {trace.min():.3g} to {trace.max():.3g}; "
        f"the cubic explains {100 * curve.r2:.0f} % of the variance.",
    )
