"""Claims of Komisarenko & Kull (2024) about the nearest temperature: fits and printed numbers."""

from collections.abc import Callable

import numpy as np

from focalibrate.theory.claims._claim import (
    Claim,
    Finding,
    holds_if,
    holds_where_if,
    refuted_if,
)
from focalibrate.theory.claims._nearest import (
    GAMMAS,
    grid_line,
    minimax_line,
    nearest_curve,
    worst_case,
)
from focalibrate.theory.claims._plain import as_text
from focalibrate.theory.claims.paper003 import SOURCE
from focalibrate.theory.temperature import nearest_temperature, recover_log_odds

TOLERANCE = 0.05
"""A printed line counts as right where it is within this fraction of 1/T."""
PRINTED_LINES = {2: (0.95, 0.85), 3: (0.64, 0.91), 4: (0.47, 0.85)}
PRINTED_TEMPERATURES = {
    2: {0.5: 0.76, 3.0: 0.36},
    3: {1.0: 0.81, 3.0: 0.46},
}
PRINTED_BOUNDS = (0.206, 0.218)


def _line(n_classes: int) -> Callable[[], Finding]:
    def check() -> Finding:
        slope, intercept = PRINTED_LINES[n_classes]
        exact = nearest_curve(n_classes).inverse
        ours = minimax_line(GAMMAS, exact)
        off = (slope * GAMMAS + intercept) / exact - 1.0
        bad = np.flatnonzero(np.abs(off) > TOLERANCE)
        start = 0 if len(bad) == 0 else int(bad[-1]) + 1
        evidence = (
            f"the best line over γ in (0, 10] and all logits is {ours} (off by up to "
            f"{ours.deviation:.3f}). At γ→0, 1/T must be 1 and the printed line gives "
            f"{intercept}: {abs(off[0]):.0%} off at γ={GAMMAS[0]:g}. Slope and intercept depend "
            "on the grid of logits"
        )
        i = int(np.searchsorted(GAMMAS, 1.0))
        if start == len(GAMMAS):
            grids = {step: grid_line(n_classes, step) for step in (1.0, 0.5)}
            evidence += "".join(f"; with step {step:g}: {g}" for step, g in grids.items())
        return holds_where_if(
            start < len(GAMMAS) and 0.0 < GAMMAS[min(start, len(GAMMAS) - 1)] < 1.0,
            f"γ ≥ {GAMMAS[min(start, len(GAMMAS) - 1)]:.2f}: there the line is within "
            f"{np.abs(off[start:]).max(initial=0.0):.1%} of 1/T",
            evidence,
            otherwise=f"γ={GAMMAS[i]:g}: 1/T = {exact[i]:.4f}, the line gives "
            f"{slope * GAMMAS[i] + intercept:.4f}, {abs(off[i]):.1%} off; never in (0, 10] closer "
            f"than {np.abs(off).min():.1%}",
        )

    return check


def _error_of_two_classes() -> Finding:
    curve = nearest_curve(2)
    i = int(curve.error.argmax())
    gamma, temperature = float(GAMMAS[i]), 1.0 / float(curve.inverse[i])
    worst = worst_case(gamma, 2, temperature)
    above = GAMMAS[curve.error > 1e-3]
    return refuted_if(
        worst.difference > 1e-3,
        f"γ={gamma:.2f}, nearest T={temperature:.4f}: score {worst.probs[0]:.4f} is mapped to "
        f"{worst.recovered[0]:.5f} by Ψ and to {worst.scaled[0]:.5f} by T, a difference of "
        f"{worst.difference:.2e}",
        f"the best temperature misses by more than 1e-3 for γ from {above[0]:.2f} to "
        f"{above[-1]:.2f}",
        where=f"γ > {above[-1]:.2f} or γ < {above[0]:.2f}",
    )


def _error_of_three_classes() -> Finding:
    error = nearest_temperature(9.0, 3).largest_difference
    return holds_if(
        0.075 <= error < 0.085 and bool(np.all(np.diff(nearest_curve(3).error) > 0.0)),
        f"{error:.4f} at γ=9; it rises all the way from "
        f"{nearest_curve(3).error[0]:.4f} at γ={GAMMAS[0]:g}",
        otherwise=f"{error:.4f} at γ=9",
    )


def _error_of_four_classes() -> Finding:
    nearest = nearest_temperature(9.0, 4)
    worst = worst_case(9.0, 4, nearest.temperature)
    above = GAMMAS[nearest_curve(4).error > 0.08]
    return refuted_if(
        worst.difference > 0.09 and nearest.largest_difference > 0.09,
        f"γ=9, nearest T={nearest.temperature:.4f}: {as_text(worst.probs)} is mapped to "
        f"{as_text(worst.recovered)} by Ψ and to {as_text(worst.scaled)} by T, a difference of "
        f"{worst.difference:.4f}; any other T is worse elsewhere",
        f"of the exponents tried, all from γ={above[0]:g} on exceed 8 %",
    )


def _caption(n_classes: int) -> Callable[[], Finding]:
    def check() -> Finding:
        parts, off = [], []
        for gamma, printed in PRINTED_TEMPERATURES[n_classes].items():
            exact = nearest_temperature(gamma, n_classes).temperature
            off.append(abs(exact - printed))
            parts.append(f"γ={gamma:g}: nearest T={exact:.4f}, printed {printed}")
        slope, intercept = PRINTED_LINES[n_classes]
        own = ", ".join(
            f"{1.0 / (slope * g + intercept):.3f} for γ={g:g}"
            for g in PRINTED_TEMPERATURES[n_classes]
        )
        return refuted_if(
            min(off) > 0.005,
            "; ".join(parts),
            f"the paper's own line 1/T = {slope}γ + {intercept} gives T = {own}",
        )

    return check


def _experimental_bounds() -> Finding:
    s = np.arange(0.001, 20.0005, 0.001)
    ratio = s / recover_log_odds(s, 4.0)
    low, high = float(ratio.min()), float(ratio.max())
    reached = float(s[np.argmax(ratio < PRINTED_BOUNDS[0])])
    return refuted_if(
        low < PRINTED_BOUNDS[0] - 0.001 and abs(high - PRINTED_BOUNDS[1]) < 0.001,
        f"the logit {s[ratio.argmin()]:g} asks for T={low:.4f}, below the printed "
        f"{PRINTED_BOUNDS[0]}",
        f"on the paper's grid, 0 < |s| ≤ 20, T runs from {low:.4f} to {high:.4f}; the printed "
        f"lower end is already passed at |s| = {reached:.2f}. The upper end is right",
    )


CLAIMS = (
    *(
        Claim(
            id=f"003-fit-k{k}",
            source=SOURCE,
            statement=f"With {k} classes the nearest temperature follows 1/T ≈ {a}γ + {b} for γ "
            f"in (0, 10) (we ask for {TOLERANCE:.0%}).",
            expected="refuted" if k == 4 else "holds where",
            check=_line(k),
        )
        for k, (a, b) in PRINTED_LINES.items()
    ),
    Claim(
        id="003-error-k2",
        source=SOURCE,
        statement="With two classes the nearest temperature is never off by 1e-3 in probability.",
        expected="refuted",
        check=_error_of_two_classes,
    ),
    Claim(
        id="003-error-k3",
        source=SOURCE,
        statement="With three classes the nearest temperature is off by up to 8 % at γ = 9.",
        expected="holds",
        check=_error_of_three_classes,
    ),
    Claim(
        id="003-error-k4",
        source=SOURCE,
        statement="With four classes the nearest temperature is off by up to 8 % for large γ.",
        expected="refuted",
        check=_error_of_four_classes,
    ),
    Claim(
        id="003-fig-2",
        source=SOURCE,
        statement="With two classes the nearest temperatures for γ = 0.5 and 3 are 0.76 and 0.36.",
        expected="refuted",
        check=_caption(2),
    ),
    Claim(
        id="003-fig-5",
        source=SOURCE,
        statement="With three classes the nearest temperatures for γ = 1 and 3 are 0.81 and 0.46.",
        expected="refuted",
        check=_caption(3),
    ),
    Claim(
        id="003-bounds",
        source=SOURCE,
        statement="At γ = 4 and for logits within ±20, the binary map lies between temperatures "
        "0.206 and 0.218.",
        expected="refuted",
        check=_experimental_bounds,
    ),
)
