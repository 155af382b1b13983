"""How close the focal map is to temperature scaling: bounds, best temperatures, simplex maps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from focalibrate._array import Floats
from focalibrate.calibrate import PosteriorRecovery, TemperatureScaling
from focalibrate.losses import proper_focal_loss
from focalibrate.report.plot import CORNERS
from focalibrate.theory import (
    focal_minimiser,
    nearest_temperature,
    recover_log_odds,
    recover_posterior,
)
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import ArrowPanel, Chart, Panel, Series, SimplexPanel
from focalibrate_papers.claims import grid_line, minimax_line, temperature_bounds, worst_case
from focalibrate_papers.networks import fit_line

TRUTH = np.array([0.55, 0.3, 0.15])
"""Ground truth of the isolines of Figure 4."""
LEVELS = (3.0, 12.0, 20.0)
"""Percentiles of the isolines of Figure 4."""
RISKS: dict[str, Callable[[Floats], Floats]] = {
    "Brier": lambda q: np.sum(TRUTH * (np.sum(q**2, axis=-1)[:, None] - 2 * q + 1), axis=-1),
    "CE": lambda q: -np.log(q) @ TRUTH,
    "γ=1": lambda q: _proper_risk(q, 1.0),
    "γ=3": lambda q: _proper_risk(q, 3.0),
}
"""Conditional risk of each loss of Figure 4 if the true probabilities are `TRUTH`."""


def _proper_risk(q: Floats, gamma: float) -> Floats:
    risk: Floats = proper_focal_loss(np.log(q), np.tile(TRUTH, (len(q), 1)), gamma)
    return risk


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Compute one part; nothing is read or trained."""
    del folders
    part = {
        "map": _map,
        "loss": _loss,
        "nearest": _nearest,
        "printed": _printed,
        "grid": _grid,
        "bounds": _bounds,
        "logits": _logits,
        "isolines": _isolines,
        "difference": _difference,
        "example": _example,
    }
    return part[task["part"]](task)


def simplex_grid(steps: int) -> Floats:
    """Return the points of the simplex at multiples of 1/steps, none on an edge."""
    i, j = np.meshgrid(np.arange(1, steps), np.arange(1, steps))
    keep = i + j < steps
    first, second = i[keep] / steps, j[keep] / steps
    return np.stack([first, second, 1.0 - first - second], axis=-1)


def _map(task: lab.Task) -> lab.Numbers:
    q = np.linspace(0.0, 1.0, task["n"] + 2)[1:-1]
    after = 1.0 / (1.0 + np.exp(-recover_log_odds(np.log(q / (1.0 - q)), task["gamma"])))
    yield from lab.drawn("recovered", q, after)


def _loss(task: lab.Task) -> lab.Numbers:
    gamma = task["gamma"]
    q = np.linspace(0.0, 1.0, task["n"] + 2)[1:-1]
    focal = -((1.0 - q) ** gamma) * np.log(q)
    log_q = np.log(np.stack([q, 1.0 - q], axis=-1))
    proper = proper_focal_loss(log_q, np.zeros(len(q), dtype=np.int64), gamma)
    side = np.sign(q - 0.5)
    # 0 in the middle, where both maps leave the score unchanged.
    yield "least excess", float((side * (proper - focal))[np.abs(q - 0.5) > 1e-9].min())
    yield from lab.drawn("focal", q, focal)
    yield from lab.drawn("proper", q, proper)


def _nearest(task: lab.Task) -> lab.Numbers:
    k, step = task["n_classes"], task["step"]
    for gamma in np.arange(step, 10.0 + 0.5 * step, step):
        found = nearest_temperature(float(gamma), k)
        yield "1/T", 1.0 / found.temperature, round(float(gamma), 6)
        yield "error", found.largest_difference, round(float(gamma), 6)


def _printed(task: lab.Task) -> lab.Numbers:
    found = nearest_temperature(task["gamma"], task["n_classes"])
    worst = worst_case(task["gamma"], task["n_classes"], found.temperature)
    yield "T", found.temperature
    yield "error", found.largest_difference
    yield from ((f"worst q{i}", float(q)) for i, q in enumerate(worst.probs))


def _grid(task: lab.Task) -> lab.Numbers:
    line = grid_line(task["n_classes"], task["step"])
    yield "slope", line.slope
    yield "intercept", line.intercept


def _bounds(task: lab.Task) -> lab.Numbers:
    s = np.arange(task["step"], 20.0 + 0.5 * task["step"], task["step"])
    for gamma in (float(g) for g in np.arange(0.5, 10.25, 0.5)):
        ratio, proven = s / recover_log_odds(s, gamma), temperature_bounds(gamma)
        yield "proven low", proven.low, gamma
        yield "proven high", proven.high, gamma
        yield "measured low", float(ratio.min()), gamma
        yield "measured high", float(ratio.max()), gamma


def _logits(task: lab.Task) -> lab.Numbers:
    s = np.linspace(-6.0, 6.0, task["n"])
    temperature = nearest_temperature(task["gamma"], 2).temperature
    after = recover_log_odds(s, task["gamma"])
    yield from lab.drawn("recovered", s, 1.0 / (1.0 + np.exp(-after)))
    yield from lab.drawn("scaled", s, 1.0 / (1.0 + np.exp(-s / temperature)))


def _isolines(task: lab.Task) -> lab.Numbers:
    risk = RISKS[task["loss"]]
    values = risk(simplex_grid(task["steps"]))
    rank = values.argsort().argsort() / (len(values) - 1)
    yield from (("percentile", round(100.0 * float(r), 3), float(i)) for i, r in enumerate(rank))
    yield "third harmonic", third_harmonic(isoline(risk, float(np.percentile(values, LEVELS[1]))))
    least = simplex_grid(task["steps"])[values.argmin()]
    yield "least at distance", float(np.abs(least - TRUTH).max())


def isoline(risk: Callable[[Floats], Floats], level: float, *, n: int = 360) -> Floats:
    """Return points of the plane ``[n, 2]`` where the risk is `level`, around `TRUTH`.

    A proper risk rises along every ray from the truth: bisection finds the only point, or stops at
    the edge of the simplex.
    """
    angles = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    across = np.linalg.pinv(np.vstack([CORNERS.T, np.ones(3)]))[:, :2]  # plane to probabilities
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=-1) @ across.T
    reach = np.min(np.where(rays < 0, TRUTH / np.maximum(-rays, 1e-300), np.inf), axis=-1)
    low, high = np.zeros(n), reach * (1.0 - 1e-9)
    for _ in range(50):
        middle = 0.5 * (low + high)
        is_below = risk(TRUTH + middle[:, None] * rays) < level
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    points: Floats = (TRUTH + low[:, None] * rays) @ CORNERS
    return points


def third_harmonic(points: Floats) -> float:
    """Return how triangular a closed line is: 0 for a circle and for an ellipse.

    The third harmonic of the distance from the line's centre as a function of the angle, relative
    to its mean.
    """
    x, y = (points - points.mean(axis=0)).T
    for _ in range(20):  # to the centre at which the first harmonic vanishes
        angle, radius = np.arctan2(y, x), np.hypot(x, y)
        order = np.argsort(angle)
        even = np.linspace(-np.pi, np.pi, 720, endpoint=False)
        r = np.interp(even, angle[order], radius[order], period=2.0 * np.pi)
        once = 2.0 * np.mean(r * np.exp(1j * even))
        x, y = x - once.real, y - once.imag
    return float(2.0 * np.abs(np.mean(r * np.exp(3j * even))) / r.mean())


def _difference(task: lab.Task) -> lab.Numbers:
    q = simplex_grid(task["steps"])
    temperature = nearest_temperature(task["gamma"], 3).temperature
    scaled = q ** (1.0 / temperature)
    scaled /= scaled.sum(axis=-1, keepdims=True)
    gap = np.abs(recover_posterior(q, task["gamma"]) - scaled).max(axis=-1)
    yield from (("difference", round(float(d), 7), float(i)) for i, d in enumerate(gap))
    worst = q[gap.argmax()]
    yield "to the corner", float(np.linalg.norm(worst - np.eye(3), axis=-1).min())
    yield "to the centre", float(np.linalg.norm(worst - 1.0 / 3.0))
    yield "top there", float(worst.max())


def _example(task: lab.Task) -> lab.Numbers:
    yield "q", float(focal_minimiser(np.array([0.8, 0.2]), task["gamma"])[0])


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


def tables(rows: lab.Rows) -> tuple[lab.Table, ...]:
    """Return the lines through the best temperatures, and some of the temperatures."""
    body = []
    for k in CLASSES:
        gammas, inverse = rows.curve("1/T", n_classes=k)
        line = fit_line(gammas, inverse)
        others = [
            fit_line(gammas, 1.0 / inverse).r2,
            fit_line(1.0 / (1.0 + gammas), 1.0 / inverse).r2,
        ]
        printed = "{} γ + {}".format(*PAPER_LINES[k]) if k in PAPER_LINES else "none printed"
        errors = rows.curve("error", part="nearest", n_classes=k)[1]
        body.append(
            (
                f"{k}",
                f"1/T = {line.slope:.3f} γ + {line.intercept:.3f}",
                printed,
                *(f"{r:.5f}" for r in (line.r2, *others)),
                f"{errors.max():.4g}",
            )
        )
    fits = lab.Table(
        "Lines of least squares over γ in (0, 10]",
        ("classes", "here", "paper", "R²", "R² of T on γ", "R² of T on 1/(γ+1)", "largest error"),
        tuple(body),
        "The first R² is that of 1/T on γ. The error is the largest difference of any class's "
        "probability over all logits and exponents.",
    )
    shown = (1.0, 2.0, 3.0, 5.0)
    cells = []
    for k in CLASSES:
        gammas, inverse = rows.curve("1/T", n_classes=k)
        known = dict(zip(gammas.tolist(), (1.0 / inverse).tolist(), strict=True))
        cells.append((f"{k}", *(f"{known[g]:.4f}" if g in known else "none" for g in shown)))
    nearest = lab.Table(
        "Nearest temperature",
        ("classes", *(f"γ={g:g}" for g in shown)),
        tuple(cells),
        "Section 4.1 of the paper mentions 0.4 to 0.5 for common exponents.",
    )
    return fits, nearest


def charts(rows: lab.Rows) -> tuple[Chart, ...]:
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


def _figure_1(rows: lab.Rows) -> Chart:
    losses = []
    for color, g in enumerate(LOSS_GAMMAS):
        losses.append(
            Series(*rows.curve("proper", part="loss", gamma=g), f"proper, γ={g:g}", color=color)
        )
        focal = rows.curve("focal", part="loss", gamma=g)
        losses.append(Series(*focal, f"focal, γ={g:g}", "dashed", color=color))
    x = rows.curve("focal", part="loss", gamma=LOSS_GAMMAS[0])[0]
    losses.append(Series(x, -np.log(x), "CE", color=7))
    maps = [
        Series(*rows.curve("recovered", part="map", gamma=g), f"γ={g:g}", color=i)
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


def _line_panel(rows: lab.Rows, k: int) -> Panel:
    gammas, inverse = rows.curve("1/T", n_classes=k)
    line = fit_line(gammas, inverse)
    series = [
        Series(gammas, inverse, "nearest 1/T", color=0),
        Series(gammas, line.slope * gammas + line.intercept, "least squares", "dashed", color=1),
    ]
    if k in PAPER_LINES:
        a, b = PAPER_LINES[k]
        series.append(Series(gammas, a * gammas + b, f"paper: {a}γ + {b}", "dashed", color=2))
    return Panel(f"K = {k}", "γ", "1/T", series)


def _figure_2(rows: lab.Rows) -> Chart:
    curves = []
    for color, g in enumerate(LOSS_GAMMAS):
        curves.append(
            Series(*rows.curve("recovered", part="logits", gamma=g), f"Ψ, γ={g:g}", color=color)
        )
        temperature = rows.one("T", n_classes=2, gamma=g)
        scaled = rows.curve("scaled", part="logits", gamma=g)
        curves.append(Series(*scaled, f"T = {temperature:.3f}", "dashed", color=color + 3))
    return Chart(
        "figure-2",
        "As Figure 2 of paper 003: the inverse of the nearest temperature against γ for two "
        "classes; and the maps for γ = 0.5 and 3, hidden behind those of their nearest "
        "temperatures.",
        (_line_panel(rows, 2), Panel("Maps", "logit", "probability", curves)),
    )


def _figure_3(rows: lab.Rows) -> Chart:
    names = ("proven low", "measured low", "measured high", "proven high")
    found = {name: rows.curve(name) for name in names}
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


def _points(rows: lab.Rows, metric: str, **settings: Any) -> tuple[Floats, Floats]:
    """Return a grid of the simplex and a number at each of its points."""
    _, values = rows.curve(metric, **settings)
    steps = round((3.0 + np.sqrt(1.0 + 8.0 * len(values))) / 2.0)
    return simplex_grid(steps), values


def _figure_4(rows: lab.Rows) -> Chart:
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
            SimplexPanel(names[loss], *_points(rows, "percentile", loss=loss), "%", levels=LEVELS)
            for loss in RISKS
        ),
        columns=4,
        size=SIMPLEX_SIZE,
    )


def _figure_5(rows: lab.Rows) -> Chart:
    temperatures = {g: rows.one("T", n_classes=3, gamma=g) for g in ARROW_GAMMAS}
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


def _figure_6(rows: lab.Rows) -> Chart:
    errors = [
        Series(*rows.curve("error", part="nearest", n_classes=k), f"K={k}", color=i)
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


def _figure_7(rows: lab.Rows) -> Chart:
    return Chart(
        "figure-7",
        "As Figure 7 of paper 003: largest difference of any class's probability between the "
        "focal map and the nearest temperature.",
        tuple(
            SimplexPanel(f"γ = {g:g}", *_points(rows, "difference", gamma=g), "difference", 5)
            for g in LOSS_GAMMAS
        ),
        size=SIMPLEX_SIZE,
    )


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


def claims(rows: lab.Rows) -> tuple[lab.ClaimResult, ...]:
    """Judge the propositions, fits and printed numbers of sections 3.2 and 3.3."""
    return (*_bound_claims(rows), *_fits(rows), *_errors(rows), *_captions(rows), *_shapes(rows))


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    worst = {k: rows.curve("error", part="nearest", n_classes=k)[1].max() for k in (2, 3, 4)}
    return (
        "For two classes the focal map is close to temperature scaling (largest difference "
        f"{worst[2]:.1e}), for more classes it is not ({worst[3]:.0%} with three, {worst[4]:.0%} "
        "with four, γ up to 10); 1/T is close to linear in γ, as the paper says."
    )


def _bound_claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    names = ("proven low", "measured low", "measured high", "proven high")
    gammas, _ = rows.curve(names[0])
    low, lowest, highest, high = (rows.curve(name)[1] for name in names)
    yield lab.judged(
        "temperature-relation/bounds",
        min((lowest / low - 1.0).min(), (1.0 - highest / high).min()),
    )
    yield lab.judged("temperature-relation/tighter", ((highest - lowest) / (high - low)).max())
    i = int(np.flatnonzero(gammas == 4.0)[0])
    ours = dict(zip(names, (low, lowest, highest, high), strict=True))
    for name, value in PAPER_BOUNDS.items():
        yield lab.judged(
            "temperature-relation/printed-bounds",
            ours[name][i],
            bound=value,
            tolerance=ROUNDED,
            claim=f"At γ = 4 the {name.split()[0]} {_END[name.split()[1]]} bound is T = {value:g}",
            theory="003-bounds" if name == "measured low" else "",
        )


def _fits(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    for k, (slope, intercept) in PAPER_LINES.items():
        gammas, inverse = rows.curve("1/T", n_classes=k)
        line, squares = minimax_line(gammas, inverse), fit_line(gammas, inverse)
        grid = [rows.one(name, n_classes=k) for name in ("slope", "intercept")]
        yield lab.judged(
            "temperature-relation/slope",
            line.slope,
            k=k,
            slope=slope,
            bound=slope,
            tolerance=COEFFICIENT,
            paper_value=_LINES[k],
            theory=f"003-fit-k{k}",
            note=f"Intercept {line.intercept:.3f}, printed {intercept}; at γ → 0, 1/T is 1. By "
            f"least squares {squares.slope:.3f}γ + {squares.intercept:.3f}; with logits in "
            f"[-5, 5] on a grid only, {grid[0]:.3f}γ + {grid[1]:.3f}.",
        )
        yield lab.judged("temperature-relation/linear", squares.r2, k=k, paper_value=_LINES[k])
    yield lab.judged(
        "temperature-relation/below-one", 1.0 / rows.curve("1/T", n_classes=3)[1].min()
    )


def _errors(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    gammas, errors = rows.curve("error", part="nearest", n_classes=2)
    yield lab.judged(
        "temperature-relation/error-k2",
        errors.max(),
        paper_value=_ERRORS[2],
        note=f"At γ = {gammas[errors.argmax()]:g}; only slightly above the printed bound.",
    )
    for k in (3, 4):
        yield lab.judged(
            "temperature-relation/error-at-9",
            rows.one("error", part="printed", n_classes=k, gamma=9.0),
            k=k,
            tolerance=TWO_DIGITS,
            paper_value=_ERRORS[k],
            theory=f"003-error-k{k}",
            note="The paper does not say which logits it tried with four classes; a coarse grid "
            "misses the worst case."
            if k == 4
            else "",
        )


def _captions(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    for k, values in PAPER_TEMPERATURES.items():
        slope, intercept = PAPER_LINES[k]
        for gamma, value in values.items():
            meant = (1.0 / value - intercept) / slope
            yield lab.judged(
                "temperature-relation/captions",
                rows.one("T", n_classes=k, gamma=gamma),
                k=k,
                gamma=gamma,
                value=value,
                bound=value,
                tolerance=TWO_DIGITS,
                paper_value=f"caption of Fig. {2 if k == 2 else 5}: γ = {gamma:g} beside T = "
                f"{value:g}",
                theory=f"003-fig-{2 if k == 2 else 5}",
                note=f"The paper's own line gives {1.0 / (slope * gamma + intercept):.3f} here"
                + (
                    f", and {value:g} at γ = {meant:.2f}: γ is mislabelled."
                    if abs(meant - gamma) > 0.1
                    else ": the printed temperature is the line's, not the nearest one."
                ),
            )
    yield lab.judged("temperature-relation/example", rows.one("q", gamma=2.0))


def _shapes(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    yield lab.judged(
        "temperature-relation/proper-part",
        min(rows.one("least excess", part="loss", gamma=g) for g in LOSS_GAMMAS),
    )
    bends = [rows.one("third harmonic", loss=loss) for loss in RISKS]
    shown = ", ".join(f"{loss} {bend:.4f}" for loss, bend in zip(RISKS, bends, strict=True))
    yield lab.judged("temperature-relation/isolines", np.diff(bends).min(), shown=shown)
    nearer = [
        rows.one("to the centre", gamma=g) - rows.one("to the corner", gamma=g)
        for g in LOSS_GAMMAS
    ]
    tops = ", ".join(
        f"{rows.one('top there', part='difference', gamma=g):.3f}" for g in LOSS_GAMMAS
    )
    near_corners = lab.judged("temperature-relation/corners", min(nearer), tops=tops, covers=False)
    yield replace(near_corners, verdict="undecided")


NAME = "temperature-relation"
GRID_STEPS = {2: 0.01, 3: 0.05, 4: 0.2}
"""Steps of the logits in [-5, 5] that imitate the paper's own fits, by number of classes."""


def tasks(scale: lab.Scale) -> Sequence[lab.Task]:
    """Return the computations: the same at each scale, but on coarser grids at the smallest."""
    small = scale == "smallest"
    n, simplex = (41, 12) if small else (101, 36)

    def task(part: str, **settings: object) -> lab.Task:
        return lab.Task.of(NAME, part=part, **settings)

    found = [task("map", gamma=g, n=n) for g in MAP_GAMMAS]
    found += [task("loss", gamma=g, n=n) for g in LOSS_GAMMAS]
    found += [task("nearest", n_classes=k, step=_gamma_step(k, small=small)) for k in CLASSES]
    printed = [(g, k) for k, values in PAPER_TEMPERATURES.items() for g in values]
    found += [task("printed", gamma=g, n_classes=k) for g, k in (*printed, (9.0, 3), (9.0, 4))]
    found += [
        task("grid", n_classes=k, step=1.0 if small else step) for k, step in GRID_STEPS.items()
    ]
    found += [task("bounds", step=0.05 if small else 0.001)]
    found += [task("logits", gamma=g, n=n) for g in LOSS_GAMMAS]
    found += [task("isolines", loss=loss, steps=simplex) for loss in RISKS]
    found += [task("difference", gamma=g, steps=simplex) for g in LOSS_GAMMAS]
    return [*found, task("example", gamma=2.0)]


def _gamma_step(n_classes: int, *, small: bool) -> float:
    if small:
        return 1.0 if n_classes <= 10 else 5.0
    return 0.1 if n_classes <= 10 else 0.5


EXPERIMENT = lab.Experiment.of(
    __name__,
    tables=(tables,),
    charts=(_figure_1, _figure_2, _figure_3, _figure_4, _figure_5, _figure_6, _figure_7),
)
