"""The claims of paper 004 about curvature, with the rules that judge them."""

from collections.abc import Iterator

import numpy as np

from focalibrate.experiments._curvature_found import Found, resampled
from focalibrate.experiments._pool import SET_NAMES, judged
from focalibrate.experiments._trend import rank_correlation
from focalibrate.experiments.networks import Problem
from focalibrate.experiments.page import show_interval
from focalibrate.experiments.verdict import Interval, Line, judge_above, judge_below, mean_interval

DEEP = 0.5
"""Points of ECE by which a minimum must lie below both ends; the paper gives no number."""
OF_LOSS = {"own": "the training loss", "ce": "cross-entropy"}
_WHICH = '"the Hessian of the validation loss", not said which loss'


def claims(found: Found, *, is_full: bool) -> tuple[Line, ...]:
    """Return a line for each claim."""
    return tuple(
        line for problem in found.problems for line in _of_problem(found, problem, is_full=is_full)
    )


def _of_problem(found: Found, problem: Problem, *, is_full: bool) -> Iterator[Line]:
    for of in OF_LOSS:
        yield _falls(found, problem, "lambda_max", of, is_full=is_full)
        yield _falls(found, problem, "trace", of, is_full=is_full)
    yield _monotonic(found, problem, is_full=is_full)
    yield _same_weights(found, problem, is_full=is_full)
    yield _best_gamma_inside(found, problem, is_full=is_full)
    yield _best_trace_inside(found, problem, is_full=is_full)


def _falls(found: Found, problem: Problem, metric: str, of: str, *, is_full: bool) -> Line:
    table, gammas = found.table(f"{metric}, {of}", problem), found.gammas(problem)
    name = {"lambda_max": "λ_max(H_val)", "trace": "Tr(H_val)"}[metric]
    means = ", ".join(f"{mean:.3g}" for mean in table.mean(axis=1))
    words = {
        "lambda_max": 'Fig. 2: "monotonically decreases with increasing γ"',
        "trace": "Fig. 3 shows ECE against it at several γ; no order is stated",
    }[metric]
    return judged(
        mean_interval([rank_correlation(gammas, column) for column in table.T]),
        claim=f"{name} of {OF_LOSS[of]} falls with the γ of training: {SET_NAMES[problem]}",
        what="rank correlation with γ",
        paper=f"{words} ({_WHICH})",
        unit="Spearman's ρ",
        is_full=is_full,
        note=f"Means at γ = {', '.join(f'{g:g}' for g in gammas)}: {means}.",
    )


def _monotonic(found: Found, problem: Problem, *, is_full: bool) -> Line:
    means = found.table("lambda_max, own", problem).mean(axis=1)
    ours = Interval.exact(float((np.diff(means) >= 0).sum()))
    return Line(
        f"λ_max(H_val) of the training loss falls at every step of γ: {SET_NAMES[problem]}",
        "the mean over seeds rises at no step from one γ to the next",
        'Fig. 2: "For all architectures, λ_max(H_val) monotonically decreases"',
        ours,
        f"rises in {means.size - 1} steps",
        judge_below(ours, 0.5, is_full=is_full),
    )


def _same_weights(found: Found, problem: Problem, *, is_full: bool) -> Line:
    own, plain = (found.table(f"lambda_max, {of}", problem)[1:] for of in OF_LOSS)
    ratio = own / plain
    return judged(
        mean_interval(np.log(ratio).mean(axis=0)),
        claim=f"On the same weights, focal loss is less curved than CE: {SET_NAMES[problem]}",
        what="log of λ_max of the training loss over that of CE, mean over networks of γ > 0",
        paper='Eq. 28: "the larger γ makes the curvature term smaller"',
        unit="log ratio",
        is_full=is_full,
        note=f"Ratios from {ratio.min():.3g} to {ratio.max():.3g}. Eq. 28 leaves out a term (SPEC "
        "X.5): on fixed weights the ratio may be above 1, so that this is a finding about these "
        "networks, not a law.",
    )


def _best_gamma_inside(found: Found, problem: Problem, *, is_full: bool) -> Line:
    table, gammas = found.table("ece", problem), found.gammas(problem)
    best = gammas[table.mean(axis=1).argmin()]
    return judged(
        mean_interval(table[1:-1].min(axis=0) - table[[0, -1]].min(axis=0)),
        claim=f"ECE is least at a middle γ: {SET_NAMES[problem]}",
        what="least ECE at a γ between the ends less the lower of the ends, paired by seed",
        paper='Fig. 2: minimum "around γ=3,4" (ViT: 10)',
        unit="points of ECE",
        is_full=is_full,
        note=f"The mean over seeds is least at γ = {best:g} of 0 to {gammas[-1]:g}.",
    )


def _best_trace_inside(found: Found, problem: Problem, *, is_full: bool) -> Line:
    trace, ece = (found.table(m, problem).ravel() for m in ("trace, own", "ece"))
    depth, best, curve = resampled(trace, ece)
    return Line(
        f"ECE is least at a middle Tr(H_val): {SET_NAMES[problem]}",
        f"a cubic of ECE on Tr(H_val), looked at where there are networks, is lowest at least "
        f"{DEEP:g} points below both its ends; interval by resampling the networks",
        'Fig. 3: minimum when Tr(H_val) "is reduced to a certain extent"',
        depth,
        "points of ECE below the lower end",
        judge_above(depth, DEEP, is_full=is_full),
        f"Lowest at Tr = {show_interval(best)} of {trace.min():.3g} to {trace.max():.3g}; the "
        f"cubic explains {100 * curve.r2:.0f} % of the variance.",
    )
