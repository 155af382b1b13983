"""Where focal training is over- and underconfident: φ, its thresholds, max η against max q."""

from collections.abc import Iterator, Sequence

import numpy as np

from focalibrate.experiments._regimes_numbers import COUNTEREXAMPLES, GAMMAS, run
from focalibrate.experiments._regimes_page import (
    FIGURE_CLASSES,
    FOOTNOTE_CLASSES,
    ROUNDING,
    SEARCHED_CLASSES,
    SEARCHED_GAMMAS,
    counterexamples,
    fall,
    falls,
    few_classes,
    figure_1,
    figure_2,
    one,
    thresholds,
)
from focalibrate.experiments.experiment import Conclusion, Experiment, Rows, Scale, Task
from focalibrate.experiments.verdict import (
    Interval,
    Line,
    judge_above,
    judge_below,
    judge_number,
)

NAME = "regimes"
SLIDES = {1.0: 0.78, 3.0: 0.65, 5.0: 0.60}
"""Minimisers printed on the slides (001) for the posterior (0.9, 0.1)."""
SEEDS = (0, 1, 2)


def tasks(scale: Scale) -> Sequence[Task]:
    """Return the computations: the same at each scale, on coarser grids at the smallest."""
    n = 40 if scale == "smallest" else 240
    found = [Task.of(NAME, part="factor", gamma=g, n=n) for g in GAMMAS]
    found += [
        Task.of(NAME, part="minimiser", n_classes=k, gamma=g, n=n)
        for k in FIGURE_CLASSES
        for g in GAMMAS
    ]
    found += [
        Task.of(NAME, part="two levels", n_classes=k, gamma=g, n=n)
        for k in SEARCHED_CLASSES
        for g in SEARCHED_GAMMAS
    ]
    found += [Task.of(NAME, part="vectors", seed=seed, n=10 * n) for seed in SEEDS]
    found += [
        Task.of(NAME, part="counterexample", case=i) for i in range(1, len(COUNTEREXAMPLES) + 1)
    ]
    found += [Task.of(NAME, part="slides", gamma=g) for g in SLIDES]
    found += [Task.of(NAME, part="footnote", n_classes=k, n=n) for k in FOOTNOTE_CLASSES]
    return [*found, Task.of(NAME, part="thresholds", n=n)]


def describe(task: Task) -> tuple[str, int]:
    """Return part with its classes and exponent, and the seed (0 where nothing is drawn)."""
    settings = dict(task.settings)
    words = [str(task["part"])]
    words += [f"K={settings['n_classes']}"] if "n_classes" in settings else []
    words += [f"γ={settings['gamma']:g}"] if "gamma" in settings else []
    words += [f"{settings['case']}"] if "case" in settings else []
    return " ".join(words), int(settings.get("seed", 0))


def conclude(rows: Rows, scale: Scale) -> Conclusion:
    """Judge the theorems and figures of paper 000, and what contradicts them elsewhere."""
    is_full = EXPERIMENT.is_full(scale)
    lines = (
        *_theorem_lines(rows, is_full),
        *_figure_lines(rows, is_full),
        *_footnote_lines(rows, is_full),
        *_contradicted(rows, is_full),
    )
    tables = (thresholds(rows), falls(rows), counterexamples(rows))
    return Conclusion(lines, tables, (figure_1(rows), figure_2(rows), few_classes(rows)))


def _theorem_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    _, low = rows.curve("thresholds", "tau_over")
    _, high = rows.curve("thresholds", "tau_under")
    room = Interval.exact(min(low.min(), (high - low).min(), (0.5 - high).min()))
    yield Line(
        "The thresholds are in order: 0 < τ_oc < τ_uc < 1/2",
        "the least of τ_oc, τ_uc - τ_oc and 1/2 - τ_uc over γ from 0.01 to 30 is above 0",
        "Thm. 8, 1",
        room,
        f"the least, over {len(low)} exponents",
        judge_above(room, 0.0, is_full=is_full),
    )
    wrong = Interval.exact(rows.values("vectors", "in the wrong regime").sum())
    n = [int(rows.values("vectors", m).sum()) for m in ("below tau_over", "above tau_under")]
    yield Line(
        "Overconfident where max q ≤ τ_oc, underconfident where max q ≥ τ_uc",
        "no random vector of 3 to 300 classes is in the other regime, and both regions have some",
        "Thm. 8, 2 and 3",
        wrong,
        f"vectors in the other regime, of {n[0]} below τ_oc and {n[1]} above τ_uc",
        judge_number(wrong, 0.0, tolerance=0.0, is_full=is_full) if min(n) else "not reproduced",
    )
    rise = Interval.exact(rows.values("vectors", "least rise above 1/2").min())
    yield Line(
        "Underconfident where max q > 1/2, whatever γ",
        "the least of max Ψ(q) - max q over random vectors with max q in (0.5, 0.999) is above 0",
        "Cor. 9",
        rise,
        "least rise",
        judge_above(rise, 0.0, is_full=is_full),
    )
    off = Interval.exact(
        max(one(rows, f"minimiser K={k} γ={g:g}", "round trip") for k, g in _figure_2_cases())
    )
    yield Line(
        "Ψ recovers the posterior from the focal minimiser",
        "the largest error of any probability is below 1e-9",
        "Thm. 11",
        off,
        "largest error",
        judge_below(off, 1e-9, is_full=is_full),
    )
    changed = Interval.exact(rows.values("vectors", "predicted class changed").sum())
    yield Line(
        "Ψ keeps the predicted class",
        "it changes in no random vector",
        "Prop. 12",
        changed,
        "vectors changed",
        judge_number(changed, 0.0, tolerance=0.0, is_full=is_full),
    )


def _figure_2_cases() -> list[tuple[int, float]]:
    return [(k, g) for k in FIGURE_CLASSES for g in GAMMAS]


def _figure_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    two, many = FIGURE_CLASSES
    least = Interval.exact(
        min(one(rows, f"minimiser K={two} γ={g:g}", "least under") for g in GAMMAS)
    )
    yield Line(
        "With two classes the minimiser is underconfident everywhere",
        "the least of max η - max q over the curves of Figure 2a is above 0",
        "Cor. 10, Fig. 2a",
        least,
        "least of max η - max q",
        judge_above(least, 0.0, is_full=is_full),
    )
    gaps = [one(rows, f"minimiser K={two} γ={g:g}", "largest under") for g in GAMMAS]
    growth = Interval.exact(np.diff(gaps).min())
    yield Line(
        "A larger γ causes a larger gap between max q and the posterior (K=2)",
        "the largest gap rises from each exponent to the next",
        "Fig. 2a",
        growth,
        f"least rise of the largest gap, which runs from {gaps[0]:.3f} to {gaps[-1]:.3f}",
        judge_above(growth, 0.0, is_full=is_full),
    )
    over = Interval.exact(
        min(one(rows, f"minimiser K={many} γ={g:g}", "largest over") for g in GAMMAS)
    )
    yield Line(
        "With 1000 classes the minimiser is overconfident somewhere, for each γ",
        "the largest of max q - max η is above 0 for every exponent drawn",
        "Fig. 2b",
        over,
        "the least over the exponents",
        judge_above(over, 0.0, is_full=is_full),
    )
    outside = 0
    for g in GAMMAS:
        crossing = rows.values(f"minimiser K={many} γ={g:g}", "crossing")
        low, high = (one(rows, f"factor γ={g:g}", f"tau_{side}") for side in ("over", "under"))
        outside += not (len(crossing) == 1 and low <= crossing[0] <= high)
    count = Interval.exact(outside)
    yield Line(
        "From over- to underconfident the curve passes in the ambiguous region (τ_oc, τ_uc)",
        "the crossing of each curve of Figure 2b lies there",
        "Fig. 1 and 2b",
        count,
        f"crossings outside, of {len(GAMMAS)}",
        judge_number(count, 0.0, tolerance=0.0, is_full=is_full),
    )


def _footnote_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    near = {k: one(rows, f"footnote K={k}", "limit near uniform") for k in FOOTNOTE_CLASSES}
    tied = {k: one(rows, f"footnote K={k}", "limit at tied classes") for k in FOOTNOTE_CLASSES}
    limit = Interval.exact(near[5])
    yield Line(
        "Near the uniform vector of five classes, overconfidence takes γ of at most 0.03",
        "the last such exponent is within 0.005 of 0.03",
        "footnote 2: K = 5, γ ≤ 0.03, max q → 1/K",
        limit,
        "last overconfident γ",
        judge_number(limit, 0.03, tolerance=0.005, is_full=is_full),
        "It is where τ_oc(γ) = 1/5. With four classes there is none near the uniform vector.",
    )
    fewest = Interval.exact(
        min(
            (k for k in SEARCHED_CLASSES for g in SEARCHED_GAMMAS if fall(rows, k, g) > ROUNDING),
            default=np.nan,
        )
    )
    yield Line(
        "Overconfidence takes at least five classes",
        "the fewest classes of a vector whose top probability exceeds the posterior's are 5",
        "footnote 2: as few as K = 5",
        fewest,
        "classes",
        judge_number(fewest, 5.0, tolerance=0.0, is_full=is_full),
        "The footnote looks near the uniform vector only. Three tied classes above a rare fourth "
        f"are overconfident for every γ below γ*(1/3) = {tied[4]:.4f}; among three classes we "
        "found none.",
    )
    anywhere = Interval.exact(tied[5])
    yield Line(
        "With five classes overconfidence takes γ of at most 0.03 anywhere",
        "the last exponent at which four tied classes above a rare fifth are overconfident is "
        "within 0.005 of 0.03",
        "footnote 2, read without its limit",
        anywhere,
        "last overconfident γ",
        judge_number(anywhere, 0.03, tolerance=0.005, is_full=is_full),
        f"It is γ*(1/4) = {one(rows, 'footnote K=5', 'gamma_star(1/(K-1))'):.4f}.",
    )


def _contradicted(rows: Rows, is_full: bool) -> Iterator[Line]:
    cases = [f"counterexample {i}" for i in range(1, len(COUNTEREXAMPLES) + 1)]
    rises = [one(rows, c, "max psi") - one(rows, c, "max q") for c in cases]
    worst = Interval.exact(min(rises))
    yield Line(
        "Ψ never lowers the top probability, for any number of classes",
        "max Ψ(q) - max q is at least 0 (to 1e-12) for the vectors of the table",
        "003, Prop. 5",
        worst,
        "least of max Ψ(q) - max q",
        judge_above(worst, -ROUNDING, is_full=is_full),
        "Paper 000's Theorem 8 and this proposition cannot both hold; the vectors decide for "
        "Theorem 8. The proposition is right for two classes and where max q > 1/2.",
    )
    for gamma, printed in SLIDES.items():
        q = Interval.exact(one(rows, f"slides γ={gamma:g}", "q"))
        yield Line(
            f"Where the posterior is (0.9, 0.1), the minimiser for γ = {gamma:g} is {printed:.2f}",
            "within 0.005, as printed to two digits",
            f"001: {printed:.2f}",
            q,
            "first probability",
            judge_number(q, printed, tolerance=0.005, is_full=is_full),
        )


EXPERIMENT = Experiment(
    name=NAME,
    spec="E1",
    source="Charoenphakdee et al. (2021), paper 000, Fig. 1-2, Thm. 8, footnote 2; slides 001",
    title="Where focal training is over- and underconfident",
    protocol="Computed, nothing is trained: φ and its thresholds; the focal minimiser of "
    "posteriors with one class above equal others; random vectors of 3 to 300 classes; and all "
    "vectors of two levels on a grid, in search of overconfidence. `focalibrate theory` checks "
    "the same theorems by other means, direct minimisation of the risk among them.",
    smaller={
        "smallest": "Coarse grids and few random vectors, to test the program.",
        "reduced": "",
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe,
    conclude=conclude,
)
