"""The claims of paper 003 about the focal map and temperature scaling, with the rules."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    Interval,
    number_result,
    side_result,
)
from focalibrate.experiments.networks.trend import fit_line
from focalibrate.experiments.paper003.temperature_relation.figures import (
    LOSS_GAMMAS,
    PAPER_LINES,
    PAPER_TEMPERATURES,
    one,
)
from focalibrate.experiments.paper003.temperature_relation.numbers import RISKS
from focalibrate.theory.claims import minimax_line

PAPER_BOUNDS = {"proven low": 0.2, "proven high": 0.238} | {
    "measured low": 0.206,
    "measured high": 0.218,
}
"""Temperatures printed for γ = 4."""
ROUNDED = 0.0005
TWO_DIGITS = 0.005
COEFFICIENT = 0.02
"""How close a fitted slope must be to the two printed digits, as the paper's grid is not ours."""
_END = {"low": "lower", "high": "upper"}
_BOUNDS = (
    'Sec. 3.2: "the theoretical result suggests the focal calibration with γ = 4 for all possible '
    "logits are bounded between temperature scaling with T = 0.2 and T = 0.238. If we "
    "double-check this result numerically, we could suggest even tighter bounds T = 0.206 and T = "
    '0.218"'
)
_LINES = {
    2: 'Sec. 3.2: "with the linear fit 1/T ≈ 0.95 γ + 0.85 between the inverse temperature and γ '
    'parameter"',
    3: 'Sec. 3.3: "a close to a linear trend that could be approximated with a function 1/T ≈ '
    '0.64 γ + 0.91"',
    4: 'Sec. 3.3: "We also considered this approximation in a four-dimensional case and received '
    "a similar linear dependency trend: 1/T ≈ 0.47 γ + 0.85 with similar maximum approximation "
    'error of up to 8% on probability scale for larger γ as in the three-dimensional scale"',
}
_ERRORS = {
    2: 'Sec. 3.2: "the maximum approximation error is marginal, lower than 1e-3 in the '
    'probability scale"',
    3: 'Sec. 3.3: "the approximation error in a three-dimensional case rises from 0 (identity '
    'transformation for γ = 0) to 8% (of the probability scale) for γ = 9"',
    4: _LINES[4],
}


def claims(rows: Rows, *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Judge the propositions, fits and printed numbers of sections 3.2 and 3.3."""
    return (
        *_bounds(rows, is_full),
        *_fits(rows, is_full),
        *_errors(rows, is_full),
        *_captions(rows, is_full),
        *_shapes(rows, is_full),
    )


def finding(rows: Rows) -> str:
    """Return the main result in one sentence."""
    worst = {k: rows.curve(f"nearest K={k}", "error")[1].max() for k in (2, 3, 4)}
    return (
        "For two classes the focal map is close to temperature scaling (largest difference "
        f"{worst[2]:.1e}), for more classes it is not ({worst[3]:.0%} with three, {worst[4]:.0%} "
        "with four, γ up to 10); 1/T is close to linear in γ, as the paper says."
    )


def _bounds(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    names = ("proven low", "measured low", "measured high", "proven high")
    gammas, _ = rows.curve("bounds", names[0])
    low, lowest, highest, high = (rows.curve("bounds", name)[1] for name in names)
    yield side_result(
        Interval.exact(min((lowest / low - 1.0).min(), (1.0 - highest / high).min())),
        claim="The binary focal map lies between T = 1/(γ+1) and T = 1/(γ+1 − log(γ+1)/2)",
        what="smallest relative distance of s/logit Ψ(s) from either bound, to 1e-12, for "
        "|s| ≤ 20 and γ from 0.5 to 10",
        paper_value='Prop. 3: "the focal calibration could be bounded between two temperature '
        'scaling maps with T = 1/(γ+1) and T = 1/(γ+1 − log(γ+1)/2)"',
        unit="smallest relative distance",
        below=False,
        bound=-1e-12,
        covers=is_full,
        theory="003-prop-3",
    )
    yield side_result(
        Interval.exact(((highest - lowest) / (high - low)).max()),
        claim="The measured bounds are considerably tighter than the proven ones",
        what="largest ratio over γ of their width to that of the proven bounds",
        paper_value='Sec. 3.2: "the experimental bounds are considerably tighter than the '
        'theoretical"',
        unit="of the proven width",
        bound=0.75,
        covers=is_full,
    )
    i = int(np.flatnonzero(gammas == 4.0)[0])
    ours = dict(zip(names, (low, lowest, highest, high), strict=True))
    for name, value in PAPER_BOUNDS.items():
        yield number_result(
            Interval.exact(ours[name][i]),
            value,
            tolerance=ROUNDED,
            claim=f"At γ = 4 the {name.split()[0]} {_END[name.split()[1]]} bound is T = {value:g}",
            what="as printed to three digits",
            paper_value=_BOUNDS,
            unit="T",
            covers=is_full,
            theory="003-bounds" if name == "measured low" else "",
        )


def _fits(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    for k, (slope, intercept) in PAPER_LINES.items():
        gammas, inverse = rows.curve(f"nearest K={k}", "1/T")
        line, squares = minimax_line(gammas, inverse), fit_line(gammas, inverse)
        grid = [one(rows, f"grid K={k}", name) for name in ("slope", "intercept")]
        yield number_result(
            Interval.exact(line.slope),
            slope,
            tolerance=COEFFICIENT,
            claim=f"K = {k}: 1/T of the nearest temperature rises by {slope} per unit of γ",
            what="slope of the line with the smallest maximum deviation over γ in (0, 10]",
            paper_value=_LINES[k],
            unit="slope",
            covers=is_full,
            theory=f"003-fit-k{k}",
            note=f"Intercept {line.intercept:.3f}, printed {intercept}; at γ → 0, 1/T is 1. By "
            f"least squares {squares.slope:.3f}γ + {squares.intercept:.3f}; with logits in "
            f"[-5, 5] on a grid only, {grid[0]:.3f}γ + {grid[1]:.3f}.",
        )
        yield side_result(
            Interval.exact(squares.r2),
            claim=f"K = {k}: the relation of 1/T and γ is close to linear",
            what="R² of least squares over γ in (0, 10]",
            paper_value=_LINES[k],
            unit="R²",
            below=False,
            bound=0.99,
            covers=is_full,
        )
    yield side_result(
        Interval.exact(1.0 / rows.curve("nearest K=3", "1/T")[1].min()),
        claim="For every γ > 0 the nearest temperature is below 1 (K = 3)",
        what="largest T over γ in (0, 10]",
        paper_value='Sec. 3.3: "For all positive γ, the temperature is lower than one"',
        unit="largest T",
        bound=1.0,
        covers=is_full,
    )


def _errors(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    gammas, errors = rows.curve("nearest K=2", "error")
    yield side_result(
        Interval.exact(errors.max()),
        claim="K = 2: the nearest temperature is off by less than 1e-3 in probability",
        what="largest error over γ in (0, 10]",
        paper_value=_ERRORS[2],
        unit="largest difference of probabilities",
        bound=1e-3,
        covers=is_full,
        theory="003-error-k2",
        note=f"At γ = {gammas[errors.argmax()]:g}; only slightly above the printed bound.",
    )
    for k in (3, 4):
        yield number_result(
            Interval.exact(one(rows, f"printed K={k} γ=9", "error")),
            0.08,
            tolerance=TWO_DIGITS,
            claim=f"K = {k}: the nearest temperature is off by up to 8 % at γ = 9",
            what="largest difference of any class's probability, over all logits",
            paper_value=_ERRORS[k],
            unit="largest difference of probabilities",
            covers=is_full,
            theory=f"003-error-k{k}",
            note="The paper does not say which logits it tried with four classes; a coarse grid "
            "misses the worst case."
            if k == 4
            else "",
        )


def _captions(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    for k, values in PAPER_TEMPERATURES.items():
        slope, intercept = PAPER_LINES[k]
        for gamma, value in values.items():
            meant = (1.0 / value - intercept) / slope
            yield number_result(
                Interval.exact(one(rows, f"printed K={k} γ={gamma:g}", "T")),
                value,
                tolerance=TWO_DIGITS,
                claim=f"K = {k}, γ = {gamma:g}: the nearest temperature is {value:g}",
                what="as printed to two digits",
                paper_value=f"caption of Fig. {2 if k == 2 else 5}: γ = {gamma:g} beside T = "
                f"{value:g}",
                unit="T",
                covers=is_full,
                theory=f"003-fig-{2 if k == 2 else 5}",
                note=f"The paper's own line gives {1.0 / (slope * gamma + intercept):.3f} here"
                + (
                    f", and {value:g} at γ = {meant:.2f}: γ is mislabelled."
                    if abs(meant - gamma) > 0.1
                    else ": the printed temperature is the line's, not the nearest one."
                ),
            )
    yield number_result(
        Interval.exact(one(rows, "example γ=2", "q")),
        0.62,
        tolerance=0.01,
        claim="If the truth is 0.8, focal loss with γ = 2 is lowest at around 0.62",
        what="the paper says around 0.62",
        paper_value='Sec. 3.1: "Optimizing for the improper focal loss will result in the '
        'prediction of a lower value of around 0.62 for γ = 2"',
        unit="probability",
        covers=is_full,
        theory="003-example",
    )


def _shapes(rows: Rows, is_full: bool) -> Iterator[ClaimResult]:
    yield side_result(
        Interval.exact(min(one(rows, f"loss γ={g:g}", "least excess") for g in LOSS_GAMMAS)),
        claim="The proper part of the loss is below the focal loss for scores under 1/2, else "
        "above it",
        what="smallest difference, positive if it is as the paper says",
        paper_value='Sec. 3.2: "The proper part of the focal loss compared with a regular focal '
        "loss with the same γ has lower loss values for predictions lower than 0.5 and higher "
        'loss otherwise"',
        unit="smallest difference of losses",
        below=False,
        covers=is_full,
    )
    bends = [one(rows, f"isolines {loss}", "third harmonic") for loss in RISKS]
    shown = ", ".join(f"{loss} {bend:.4f}" for loss, bend in zip(RISKS, bends, strict=True))
    yield side_result(
        Interval.exact(np.diff(bends).min()),
        claim="Isolines: circles for Brier, ovals for CE, more and more triangular with γ",
        what="smallest rise, from Brier to CE to γ = 1 to γ = 3, of the third harmonic of the "
        "isoline at 12 % (0 for circles and ellipses)",
        paper_value='Sec. 3.3: "Notably, the Brier score displays circular isolines, reflective '
        "of its quadratic loss expression. The isolines for cross-entropy exhibit a more "
        "oval-like configuration. In contrast, the isolines for the proper part of the focal loss "
        "assume a shape more akin to a curved triangle, a trend that becomes more pronounced with "
        'increasing values of γ."',
        unit="smallest rise",
        below=False,
        covers=is_full,
        note=f"{shown}.",
    )
    nearer = [
        one(rows, f"difference γ={g:g}", "to the centre")
        - one(rows, f"difference γ={g:g}", "to the corner")
        for g in LOSS_GAMMAS
    ]
    tops = ", ".join(f"{one(rows, f'difference γ={g:g}', 'top there'):.3f}" for g in LOSS_GAMMAS)
    near_corners = side_result(
        Interval.exact(min(nearer)),
        claim="Focal map and nearest temperature differ most near the corners (K = 3)",
        what="distance from the point of largest difference to the centre − to the nearest "
        "corner, for γ = 0.5 and 3",
        paper_value='Sec. 3.3: "The highest difference between these two transformations could '
        'be seen near the corners, while it non-uniformly decreases towards the centre"',
        unit="distance to centre − to corner",
        below=False,
        covers=False,
        note=f"Top probability there {tops}. This cannot decide the claim: for the nearest "
        "temperature the largest difference is reached at two points at once, the other one on an "
        "edge of the simplex, and the sentence describes a figure that our copy lacks.",
    )
    yield replace(near_corners, verdict="undecided")
