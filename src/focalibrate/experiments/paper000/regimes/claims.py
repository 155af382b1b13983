"""The claims of papers 000, 001 and 003 about confidence regimes, with the rules."""

from collections.abc import Iterator

import numpy as np

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    number_result,
    side_result,
)
from focalibrate.experiments.paper000.regimes.figures import (
    FIGURE_CLASSES,
    FOOTNOTE_CLASSES,
    ROUNDING,
    SEARCHED_CLASSES,
    SEARCHED_GAMMAS,
    fall,
    one,
)
from focalibrate.experiments.paper000.regimes.numbers import COUNTEREXAMPLES, GAMMAS

SLIDES = {1.0: 0.78, 3.0: 0.65, 5.0: 0.60}
"""Minimisers printed on the slides (001) for the posterior (0.9, 0.1)."""
FOOTNOTE = (
    'footnote 2: "We numerically found that q can be ηOC with as minimum as K = 5 classes with '
    'γ ≤ 0.03 when max q → 1/K"'
)


def claims(rows: Rows, *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Judge the theorems and figures of paper 000, and claims that contradict them."""
    return (
        *_theorems(rows, is_full),
        *_figures(rows, is_full),
        *_footnote(rows, is_full),
        *_elsewhere(rows, is_full),
    )


def finding(rows: Rows) -> str:
    """Return the main result in one sentence."""
    wrong = int(rows.values("vectors", "in the wrong regime").sum())
    n = sum(int(rows.values("vectors", m).sum()) for m in ("below tau_over", "above tau_under"))
    return (
        f"Theorem 8 of paper 000 holds: {wrong:,} of {n:,} random vectors are in the wrong "
        "regime. Two claims of others do not hold: Proposition 5 of paper 003, because Ψ can "
        "lower the top probability with four or more classes, and one digit of the slides (001)."
    )


def _theorems(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    _, low = rows.curve("thresholds", "tau_over")
    _, high = rows.curve("thresholds", "tau_under")
    yield side_result(
        Interval.exact(min(low.min(), (high - low).min(), (0.5 - high).min())),
        claim="The thresholds are in order: 0 < τ_oc < τ_uc < 1/2",
        what="the smallest of τ_oc, τ_uc − τ_oc and 1/2 − τ_uc over γ from 0.01 to 30",
        paper_value="Thm. 8, 1: 0 < τ_oc < τ_uc < 0.5",
        unit=f"smallest distance, over {len(low)} exponents",
        below=False,
        covers=is_full,
        theory="000-thm-8",
    )
    n = [int(rows.values("vectors", m).sum()) for m in ("below tau_over", "above tau_under")]
    yield number_result(
        Interval.exact(rows.values("vectors", "in the wrong regime").sum() if min(n) else np.nan),
        0.0,
        tolerance=0.0,
        claim="Overconfident where max q ≤ τ_oc, underconfident where max q ≥ τ_uc",
        what=f"random vectors of 3 to 300 classes in the other regime, of {n[0]} below τ_oc and "
        f"{n[1]} above τ_uc",
        paper_value="Thm. 8, 2 and 3: ηOC if max q ∈ (0, τ_oc], ηUC if max q ∈ [τ_uc, 1)",
        unit="vectors in the other regime",
        covers=is_full,
        theory="000-thm-8",
    )
    yield side_result(
        Interval.exact(rows.values("vectors", "least rise above 1/2").min()),
        claim="Underconfident where max q > 1/2, for every γ",
        what="smallest max Ψ(q) − max q over random vectors with max q in (0.5, 0.999)",
        paper_value='Cor. 9: "For all γ > 0, q is ηUC if max q ∈ (0.5, 1)"',
        unit="smallest rise",
        below=False,
        covers=is_full,
        theory="000-cor-9",
    )
    cases = [(k, g) for k in FIGURE_CLASSES for g in GAMMAS]
    yield side_result(
        Interval.exact(max(one(rows, f"minimiser K={k} γ={g:g}", "round trip") for k, g in cases)),
        claim="Ψ recovers the posterior from the focal minimiser",
        what="largest error of any probability",
        paper_value="Thm. 11: η(x) = Ψ(q(x)) for the focal risk minimizer q",
        unit="largest error",
        bound=1e-9,
        covers=is_full,
        theory="000-thm-11",
    )
    yield number_result(
        Interval.exact(rows.values("vectors", "predicted class changed").sum()),
        0.0,
        tolerance=0.0,
        claim="Ψ keeps the predicted class",
        what="random vectors whose predicted class changes",
        paper_value="Prop. 12: arg max Ψ(v) = arg max v",
        unit="vectors changed",
        covers=is_full,
        theory="000-prop-12",
    )


def _figures(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    two, many = FIGURE_CLASSES
    yield side_result(
        Interval.exact(
            min(one(rows, f"minimiser K={two} γ={g:g}", "least under") for g in GAMMAS)
        ),
        claim="With two classes the minimiser is underconfident everywhere",
        what="smallest max η − max q over the curves of Figure 2a",
        paper_value='Cor. 10: "For all γ > 0, q is always ηUC in binary classification unless '
        'q(x) is uniform or a one-hot vector"',
        unit="smallest max η − max q",
        below=False,
        covers=is_full,
        theory="000-cor-10",
    )
    gaps = [one(rows, f"minimiser K={two} γ={g:g}", "largest under") for g in GAMMAS]
    yield side_result(
        Interval.exact(np.diff(gaps).min()),
        claim="A larger γ causes a larger gap between max q and the posterior (K=2)",
        what="smallest rise of the largest gap from one exponent to the next",
        paper_value='Fig. 2a: "a larger γ causes a larger gap between max q and the true '
        'class-posterior probability"',
        unit="rise of the largest gap",
        below=False,
        covers=is_full,
        note=f"The largest gap rises from {gaps[0]:.3f} to {gaps[-1]:.3f}.",
    )
    over = [one(rows, f"minimiser K={many} γ={g:g}", "largest over") for g in GAMMAS]
    yield side_result(
        Interval.exact(min(over)),
        claim="With 1000 classes the minimiser is overconfident somewhere, for each γ",
        what="largest max q − max η, at the exponent with the smallest",
        paper_value='Fig. 2b: "the relation of a 1000-way classification where the focal loss can '
        'also induce ηOC"',
        unit="max q − max η",
        below=False,
        covers=is_full,
    )
    outside = 0
    for g in GAMMAS:
        crossing = rows.values(f"minimiser K={many} γ={g:g}", "crossing")
        low, high = (one(rows, f"factor γ={g:g}", f"tau_{side}") for side in ("over", "under"))
        outside += not (len(crossing) == 1 and low <= crossing[0] <= high)
    yield number_result(
        Interval.exact(outside),
        0.0,
        tolerance=0.0,
        claim="The curve changes from over- to underconfident inside the ambiguous region (τ_oc, "
        "τ_uc)",
        what=f"number of the {len(GAMMAS)} curves of Figure 2b that cross outside of it",
        paper_value='Sec. 4.2: "For max q(x) ∈ (τ_oc, τ_uc), we may require the knowledge of '
        'q_y′ for all y′ to determine if q is ηUC or ηOC"',
        unit="crossings outside",
        covers=is_full,
    )


def _footnote(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    near = {k: one(rows, f"footnote K={k}", "limit near uniform") for k in FOOTNOTE_CLASSES}
    tied = {k: one(rows, f"footnote K={k}", "limit at tied classes") for k in FOOTNOTE_CLASSES}
    yield number_result(
        Interval.exact(near[5]),
        0.03,
        tolerance=0.005,
        claim="Near the uniform vector, overconfidence needs five classes and a γ of at most 0.03",
        what="largest γ with overconfidence for five classes, max q → 1/K",
        paper_value=FOOTNOTE,
        unit="last overconfident γ",
        covers=is_full,
        theory="000-footnote-2",
        note="It is the γ at which τ_oc(γ) = 1/5. With four classes there is none near the "
        "uniform vector, because τ_oc is below 1/4 for every γ: the footnote is right.",
    )
    fewest = min(
        (k for k in SEARCHED_CLASSES for g in SEARCHED_GAMMAS if fall(rows, k, g) > ROUNDING),
        default=np.nan,
    )
    yield side_result(
        Interval.exact(fewest),
        claim="Away from the uniform vector, four classes are enough for overconfidence",
        what="fewest classes of a vector whose top probability exceeds the posterior's",
        paper_value="our extension: the footnote is about the limit max q → 1/K only",
        unit="classes",
        bound=4.5,
        covers=is_full,
        is_papers=False,
        note="Three equal classes above a rare fourth are overconfident for every γ below "
        f"γ*(1/3) = {tied[4]:.4f}, four above a rare fifth for every γ below γ*(1/4) = "
        f"{tied[5]:.4f}; with three classes we found no such vector.",
    )


def _elsewhere(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    cases = [f"counterexample {i}" for i in range(1, len(COUNTEREXAMPLES) + 1)]
    rises = [one(rows, c, "max psi") - one(rows, c, "max q") for c in cases]
    yield side_result(
        Interval.exact(min(rises)),
        claim="Ψ never lowers the top probability, for any number of classes (paper 003)",
        what="max Ψ(q) − max q, to 1e-12, for the vectors of the table",
        paper_value='003, Prop. 5: "Let the model’s output for a test instance be a predicted '
        "probability vector q such that the predicted class is j. Then, if we apply focal "
        "calibration to the prediction q, the j-th coordinate of the resulting vector will be "
        'higher than or equal to all coordinates of the initial prediction q"',
        unit="smallest max Ψ(q) − max q",
        below=False,
        bound=-ROUNDING,
        covers=is_full,
        theory="003-prop-5",
        note="False as stated; paper 000's Theorem 8 is right. The proposition holds for two "
        "classes and where max q > 1/2.",
    )
    for gamma, score in SLIDES.items():
        yield number_result(
            Interval.exact(one(rows, f"slides γ={gamma:g}", "q")),
            score,
            tolerance=0.005,
            claim=f"If the posterior is (0.9, 0.1), the minimiser for γ = {gamma:g} is "
            f"{score:.2f} (slides)",
            what="first probability, printed to two digits",
            paper_value=f"001: ({score:.2f}, {1 - score:.2f})",
            unit="first probability",
            covers=is_full,
            theory="001-scores",
            note="One digit off." if gamma == 1.0 else "",
        )
