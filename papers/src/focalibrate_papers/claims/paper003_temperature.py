"""Claims of Komisarenko & Kull (2024) about the nearest temperature: fits and printed numbers."""

from collections.abc import Callable

import numpy as np

from focalibrate.theory.temperature import nearest_temperature, recover_log_odds
from focalibrate_papers.claims._claim import Finding, checks, erratum_if, holds_if
from focalibrate_papers.claims._nearest import (
    GAMMAS,
    grid_line,
    grid_nearest,
    minimax_line,
    nearest_curve,
    worst_case,
)
from focalibrate_papers.claims._plain import as_text

TOLERANCE = 0.05
"""A printed line counts as right if it is within this fraction of 1/T."""
PAPER_LINES = {2: (0.95, 0.85), 3: (0.64, 0.91), 4: (0.47, 0.85)}
PAPER_TEMPERATURES = {2: {0.5: 0.76, 3.0: 0.36}, 3: {1.0: 0.81, 3.0: 0.46}}
PAPER_BOUNDS = (0.206, 0.218)


def _line(n_classes: int) -> Callable[[], Finding]:
    def check() -> Finding:
        slope, intercept = PAPER_LINES[n_classes]
        exact = nearest_curve(n_classes).inverse
        ours = minimax_line(GAMMAS, exact)
        off = (slope * GAMMAS + intercept) / exact - 1.0
        bad = np.flatnonzero(np.abs(off) > TOLERANCE)
        start = 0 if len(bad) == 0 else int(bad[-1]) + 1
        evidence = (
            f"the best line over γ in (0, 10] and all logits is {ours} (off by up to "
            f"{ours.deviation:.3f}). At γ→0, 1/T must be 1 and the printed line gives "
            f"{intercept}: {abs(off[0]):.0%} off at γ={GAMMAS[0]:g}. The intercept depends on the "
            "grid of logits"
        )
        if start < len(GAMMAS) and GAMMAS[start] < 1.0:
            return Finding(
                verdict="holds where",
                where=f"γ ≥ {GAMMAS[start]:.2f}: there the line is within "
                f"{np.abs(off[start:]).max():.1%} of 1/T",
                evidence=evidence,
            )
        grids = {step: grid_line(n_classes, step) for step in (1.0, 0.5)}
        return holds_if(
            abs(ours.slope - slope) < 0.02,
            f"{evidence}; the slope is right, the intercept alone is off"
            + "".join(f"; with logits at steps of {step:g}: {g}" for step, g in grids.items()),
            otherwise=f"the slope is {ours.slope:.3f}",
            grade="fair",
        )

    return check


for k in PAPER_LINES:
    checks(f"003-fit-k{k}")(_line(k))


@checks("003-error-k2")
def _error_of_two_classes() -> Finding:
    curve = nearest_curve(2)
    i = int(curve.error.argmax())
    gamma, temperature = float(GAMMAS[i]), 1.0 / float(curve.inverse[i])
    worst = worst_case(gamma, 2, temperature)
    above = GAMMAS[curve.error > 1e-3]
    return erratum_if(
        worst.difference > 1e-3,
        f"γ={gamma:.2f}, nearest T={temperature:.4f}: score {worst.probs[0]:.4f} is mapped to "
        f"{worst.recovered[0]:.5f} by Ψ and to {worst.scaled[0]:.5f} by T, a difference of "
        f"{worst.difference:.2e}",
        f"the best temperature misses by more than 1e-3 for γ from {above[0]:.2f} to "
        f"{above[-1]:.2f}",
        grade="digit",
        where=f"γ > {above[-1]:.2f} or γ < {above[0]:.2f}",
    )


@checks("003-error-k3")
def _error_of_three_classes() -> Finding:
    error = nearest_temperature(9.0, 3).largest_difference
    return holds_if(
        0.075 <= error < 0.085 and bool(np.all(np.diff(nearest_curve(3).error) > 0.0)),
        f"{error:.4f} at γ=9; it rises all the way from "
        f"{nearest_curve(3).error[0]:.4f} at γ={GAMMAS[0]:g}",
        otherwise=f"{error:.4f} at γ=9",
    )


@checks("003-error-k4")
def _error_of_four_classes() -> Finding:
    nearest = nearest_temperature(9.0, 4)
    worst = worst_case(9.0, 4, nearest.temperature)
    above = GAMMAS[nearest_curve(4).error > 0.08]
    return erratum_if(
        worst.difference > 0.09 and nearest.largest_difference > 0.09,
        f"γ=9, nearest T={nearest.temperature:.4f}: {as_text(worst.probs)} is mapped to "
        f"{as_text(worst.recovered)} by Ψ and to {as_text(worst.scaled)} by T, a difference of "
        f"{worst.difference:.4f}; any other T is worse elsewhere",
        f"of the exponents tried, all from γ={above[0]:g} on exceed 8 %. The paper does not say "
        "which logits it tried with four classes; a coarse grid misses the worst case: steps of "
        f"0.5 between -5 and 5 give {grid_nearest(4, 9.0, 0.5)[1]:.3f}",
    )


def _caption(n_classes: int) -> Callable[[], Finding]:
    def check() -> Finding:
        parts, off = [], []
        slope, intercept = PAPER_LINES[n_classes]
        printed = PAPER_TEMPERATURES[n_classes]
        for gamma, value in printed.items():
            exact = nearest_temperature(gamma, n_classes).temperature
            off.append(abs(exact - value))
            parts.append(f"γ={gamma:g}: nearest T={exact:.4f}, printed {value}")
        own = ", ".join(
            f"{1.0 / (slope * g + intercept):.3f} for γ={g:g}"
            for g in sorted({0.5, 2.0, *printed})
        )
        wrong = " and ".join(f"{g:g}" for g in printed if g not in (0.5, 2.0))
        return erratum_if(
            min(off) > 0.005,
            "; ".join(parts),
            f"the paper's own line 1/T = {slope}γ + {intercept} gives T = {own}: the printed "
            f"temperatures are that line's at γ = 0.5 and 2, beside the labels "
            f"{' and '.join(f'{g:g}' for g in printed)} (mislabelled: {wrong})",
            grade="slip",
        )

    return check


checks("003-fig-2")(_caption(2))
checks("003-fig-5")(_caption(3))


@checks("003-bounds")
def _experimental_bounds() -> Finding:
    s = np.arange(0.001, 20.0005, 0.001)
    ratio = s / recover_log_odds(s, 4.0)
    low, high = float(ratio.min()), float(ratio.max())
    reached = float(s[np.argmax(ratio < PAPER_BOUNDS[0])])
    return erratum_if(
        low < PAPER_BOUNDS[0] - 0.001 and abs(high - PAPER_BOUNDS[1]) < 0.001,
        f"the logit {s[ratio.argmin()]:g} needs T={low:.4f}, below the printed {PAPER_BOUNDS[0]}",
        f"on the paper's grid, 0 < |s| ≤ 20, T runs from {low:.4f} to {high:.4f}; the printed "
        f"lower end is crossed at |s| = {reached:.2f}. The upper end is right",
    )
