"""Tables and figures of the experiment `temperature-relation`."""

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate import PosteriorRecovery, TemperatureScaling
from focalibrate.experiments.engine.experiment import Rows, Table
from focalibrate.experiments.networks.trend import fit_line
from focalibrate.experiments.paper003.temperature_relation.numbers import (
    LEVELS,
    RISKS,
    simplex_grid,
)
from focalibrate.report.charts import ArrowPanel, Chart, Panel, Series, SimplexPanel

CLASSES = (2, 3, 4, 10, 100)
MAP_GAMMAS = (-0.5, 0.5, 1.0, 3.0, 10.0)
LOSS_GAMMAS = (0.5, 3.0)
ARROW_GAMMAS = (1.0, 3.0)
PAPER_LINES = {2: (0.95, 0.85), 3: (0.64, 0.91), 4: (0.47, 0.85)}
"""Slope and intercept of 1/T against γ, by the number of classes."""
PAPER_TEMPERATURES = {2: {0.5: 0.76, 3.0: 0.36}, 3: {1.0: 0.81, 3.0: 0.46}}
"""Nearest temperatures by classes and exponent, in the captions of Figures 2 and 5."""
SIMPLEX_SIZE = (2.7, 2.1)
"""Size in inches of a panel drawn in colour: small, as its pixels make the page large."""


def one(rows: Rows, recipe: str, metric: str) -> float:
    """Return a number of one run."""
    return float(rows.values(recipe, metric)[0])


def tables(rows: Rows) -> tuple[Table, ...]:
    """Return the lines through the best temperatures, and some of the temperatures."""
    body = []
    for k in CLASSES:
        gammas, inverse = rows.curve(f"nearest K={k}", "1/T")
        line = fit_line(gammas, inverse)
        others = [
            fit_line(gammas, 1.0 / inverse).r2,
            fit_line(1.0 / (1.0 + gammas), 1.0 / inverse).r2,
        ]
        printed = "{} γ + {}".format(*PAPER_LINES[k]) if k in PAPER_LINES else "none printed"
        errors = rows.curve(f"nearest K={k}", "error")[1]
        body.append(
            (
                f"{k}",
                f"1/T = {line.slope:.3f} γ + {line.intercept:.3f}",
                printed,
                *(f"{r:.5f}" for r in (line.r2, *others)),
                f"{errors.max():.4g}",
            )
        )
    fits = Table(
        "Lines of least squares over γ in (0, 10]",
        ("classes", "here", "paper", "R²", "R² of T on γ", "R² of T on 1/(γ+1)", "largest error"),
        tuple(body),
        "The first R² is that of 1/T on γ. The error is the largest difference of any class's "
        "probability over all logits and exponents.",
    )
    shown = (1.0, 2.0, 3.0, 5.0)
    cells = []
    for k in CLASSES:
        gammas, inverse = rows.curve(f"nearest K={k}", "1/T")
        known = dict(zip(gammas.tolist(), (1.0 / inverse).tolist(), strict=True))
        cells.append((f"{k}", *(f"{known[g]:.4f}" if g in known else "none" for g in shown)))
    nearest = Table(
        "Nearest temperature",
        ("classes", *(f"γ={g:g}" for g in shown)),
        tuple(cells),
        "Section 4.1 of the paper mentions 0.4 to 0.5 for common exponents.",
    )
    return fits, nearest


def charts(rows: Rows) -> tuple[Chart, ...]:
    """Return the paper's Figures 1 to 7."""
    return (
        _figure_1(rows),
        _figure_2(rows),
        _figure_3(rows),
        _figure_4(rows),
        _figure_5(rows),
        _figure_6(rows),
        _figure_7(rows),
    )


def _figure_1(rows: Rows) -> Chart:
    losses = []
    for color, g in enumerate(LOSS_GAMMAS):
        losses.append(
            Series(*rows.curve(f"loss γ={g:g}", "proper"), f"proper, γ={g:g}", color=color)
        )
        focal = rows.curve(f"loss γ={g:g}", "focal")
        losses.append(Series(*focal, f"focal, γ={g:g}", "dashed", color=color))
    x = rows.curve(f"loss γ={LOSS_GAMMAS[0]:g}", "focal")[0]
    losses.append(Series(x, -np.log(x), "CE", color=7))
    maps = [
        Series(*rows.curve(f"map γ={g:g}", "recovered"), f"γ={g:g}", color=i)
        for i, g in enumerate(MAP_GAMMAS)
    ]
    same = Series([0.0, 1.0], [0.0, 1.0], style="dashed", color=6)
    return Chart(
        "figure-1",
        "As Figure 1 of paper 003: the proper part of the focal loss on a positive example, with "
        "the focal loss itself (dashed); and the binary focal map.",
        (
            Panel("Losses", "predicted probability", "loss", losses),
            Panel("Focal map", "predicted probability", "after Ψ", [*maps, same]),
        ),
    )


def _line_panel(rows: Rows, k: int) -> Panel:
    gammas, inverse = rows.curve(f"nearest K={k}", "1/T")
    line = fit_line(gammas, inverse)
    series = [
        Series(gammas, inverse, "nearest 1/T", color=0),
        Series(gammas, line.slope * gammas + line.intercept, "least squares", "dashed", color=1),
    ]
    if k in PAPER_LINES:
        a, b = PAPER_LINES[k]
        series.append(Series(gammas, a * gammas + b, f"paper: {a}γ + {b}", "dashed", color=2))
    return Panel(f"K = {k}", "γ", "1/T", series)


def _figure_2(rows: Rows) -> Chart:
    curves = []
    for color, g in enumerate(LOSS_GAMMAS):
        curves.append(
            Series(*rows.curve(f"logits γ={g:g}", "recovered"), f"Ψ, γ={g:g}", color=color)
        )
        temperature = one(rows, f"printed K=2 γ={g:g}", "T")
        scaled = rows.curve(f"logits γ={g:g}", "scaled")
        curves.append(Series(*scaled, f"T = {temperature:.3f}", "dashed", color=color + 3))
    return Chart(
        "figure-2",
        "As Figure 2 of paper 003: the inverse of the nearest temperature against γ for two "
        "classes; and the maps for γ = 0.5 and 3, hidden behind those of their nearest "
        "temperatures.",
        (_line_panel(rows, 2), Panel("Maps", "logit", "probability", curves)),
    )


def _figure_3(rows: Rows) -> Chart:
    names = ("proven low", "measured low", "measured high", "proven high")
    found = {name: rows.curve("bounds", name) for name in names}
    inverse = [
        Series(x, 1.0 / y, name, "dashed" if "proven" in name else "line", color=i)
        for i, (name, (x, y)) in enumerate(found.items())
    ]
    x = found["proven low"][0]
    widths = [
        Series(x, found[f"{kind} high"][1] - found[f"{kind} low"][1], kind, color=i)
        for i, kind in enumerate(("proven", "measured"))
    ]
    return Chart(
        "figure-3",
        "As Figure 3 of paper 003: proven bounds of the inverse temperature of the binary focal "
        "map, and bounds measured for |s| ≤ 20; and the widths of both intervals of T.",
        (
            Panel("Bounds", "γ", "1/T", inverse),
            Panel("Width", "γ", "difference of the temperatures", widths),
        ),
    )


def _points(rows: Rows, recipe: str, metric: str) -> tuple[Floats, Floats]:
    """Return a grid of the simplex and a number at each of its points."""
    _, values = rows.curve(recipe, metric)
    steps = round((3.0 + np.sqrt(1.0 + 8.0 * len(values))) / 2.0)
    return simplex_grid(steps), values


def _figure_4(rows: Rows) -> Chart:
    names = {
        "Brier": "Brier",
        "CE": "CE",
        "γ=1": "Proper focal, γ = 1",
        "γ=3": "Proper focal, γ = 3",
    }
    return Chart(
        "figure-4",
        "As Figure 4 of paper 003: conditional risk for the true probabilities (0.55, 0.3, "
        "0.15), as a percentile over the simplex, with isolines at 3, 12 and 20 %.",
        tuple(
            SimplexPanel(
                names[loss], *_points(rows, f"isolines {loss}", "percentile"), "%", levels=LEVELS
            )
            for loss in RISKS
        ),
        columns=4,
        size=SIMPLEX_SIZE,
    )


def _figure_5(rows: Rows) -> Chart:
    temperatures = {g: one(rows, f"printed K=3 γ={g:g}", "T") for g in ARROW_GAMMAS}
    maps = [ArrowPanel(f"Ψ, γ = {g:g}", PosteriorRecovery(g)) for g in ARROW_GAMMAS]
    scaled = [
        ArrowPanel(f"T = {t:.3f}, nearest to γ = {g:g}", TemperatureScaling(t))
        for g, t in temperatures.items()
    ]
    return Chart(
        "figure-5",
        "As Figure 5 of paper 003: how the focal map (above) and the nearest temperature (below) "
        "change predictions of three classes.",
        (*maps, *scaled),
        columns=2,
    )


def _figure_6(rows: Rows) -> Chart:
    errors = [
        Series(*rows.curve(f"nearest K={k}", "error"), f"K={k}", color=i)
        for i, k in enumerate(CLASSES)
    ]
    return Chart(
        "figure-6",
        "As Figure 6 of paper 003, with four classes beside it: the inverse of the nearest "
        "temperature against γ, and the largest error of that temperature.",
        (
            _line_panel(rows, 3),
            _line_panel(rows, 4),
            Panel("Largest error", "γ", "difference of probabilities", errors),
        ),
    )


def _figure_7(rows: Rows) -> Chart:
    return Chart(
        "figure-7",
        "As Figure 7 of paper 003: largest difference of any class's probability between the "
        "focal map and the nearest temperature.",
        tuple(
            SimplexPanel(
                f"γ = {g:g}", *_points(rows, f"difference γ={g:g}", "difference"), "difference", 5
            )
            for g in LOSS_GAMMAS
        ),
        size=SIMPLEX_SIZE,
    )
