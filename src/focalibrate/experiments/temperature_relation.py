"""How near the focal map comes to a temperature: bounds, best temperatures, simplex maps."""

from collections.abc import Iterator, Sequence

import numpy as np

from focalibrate.experiments._temperature_numbers import RISKS, run
from focalibrate.experiments._temperature_page import (
    CLASSES,
    LOSS_GAMMAS,
    MAP_GAMMAS,
    PRINTED_LINES,
    PRINTED_TEMPERATURES,
    charts,
    fit,
    one,
    tables,
)
from focalibrate.experiments.experiment import Conclusion, Experiment, Rows, Scale, Task
from focalibrate.experiments.verdict import (
    Interval,
    Line,
    judge_above,
    judge_below,
    judge_number,
)
from focalibrate.theory.claims._nearest import minimax_line

NAME = "temperature-relation"
GRID_STEPS = {2: 0.01, 3: 0.05, 4: 0.2}
"""Of the logits in [-5, 5] by which the paper's own fits are imitated."""
PRINTED_BOUNDS = {"proven low": 0.2, "proven high": 0.238} | {
    "measured low": 0.206,
    "measured high": 0.218,
}
"""Temperatures printed for γ = 4."""
ROUNDED = 0.0005
TWO_DIGITS = 0.005
COEFFICIENT = 0.02
"""How near a fitted coefficient must be to the two digits printed, whose grid is not ours."""


def tasks(scale: Scale) -> Sequence[Task]:
    """Return the computations: the same at each scale, on coarser grids at the smallest."""
    small = scale == "smallest"
    n, simplex = (41, 12) if small else (101, 36)

    def task(part: str, **settings: object) -> Task:
        return Task.of(NAME, part=part, **settings)

    found = [task("map", gamma=g, n=n) for g in MAP_GAMMAS]
    found += [task("loss", gamma=g, n=n) for g in LOSS_GAMMAS]
    found += [task("nearest", n_classes=k, step=_gamma_step(k, small=small)) for k in CLASSES]
    printed = [(g, k) for k, values in PRINTED_TEMPERATURES.items() for g in values]
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


def describe(task: Task) -> tuple[str, int]:
    """Return part with its classes, exponent or loss; nothing is drawn, so the seed is 0."""
    settings = dict(task.settings)
    words = [str(task["part"])]
    words += [f"K={settings['n_classes']}"] if "n_classes" in settings else []
    words += [f"γ={settings['gamma']:g}"] if "gamma" in settings else []
    words += [str(settings["loss"])] if "loss" in settings else []
    return " ".join(words), 0


def conclude(rows: Rows, scale: Scale) -> Conclusion:
    """Judge the propositions, fits and printed numbers of sections 3.2 and 3.3."""
    is_full = EXPERIMENT.is_full(scale)
    lines = (
        *_bound_lines(rows, is_full),
        *_fit_lines(rows, is_full),
        *_error_lines(rows, is_full),
        *_caption_lines(rows, is_full),
        *_shape_lines(rows, is_full),
    )
    return Conclusion(lines, tables(rows), charts(rows))


def _bound_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    names = ("proven low", "measured low", "measured high", "proven high")
    gammas, _ = rows.curve("bounds", names[0])
    low, lowest, highest, high = (rows.curve("bounds", name)[1] for name in names)
    room = Interval.exact(min((lowest / low - 1.0).min(), (1.0 - highest / high).min()))
    yield Line(
        "The binary focal map lies between T = 1/(γ+1) and T = 1/(γ+1 - log(γ+1)/2)",
        "the least relative distance of s/logit Ψ(s) from either bound is at least 0 (to 1e-12) "
        "for |s| ≤ 20 and γ from 0.5 to 10",
        "Prop. 3",
        room,
        "least relative distance",
        judge_above(room, -1e-12, is_full=is_full),
    )
    width = Interval.exact(((highest - lowest) / (high - low)).max())
    yield Line(
        "The measured bounds are considerably tighter than the proven ones",
        "their width is below 0.75 of the proven one, at its largest over γ",
        "Fig. 3: considerably tighter",
        width,
        "of the proven width, the largest",
        judge_below(width, 0.75, is_full=is_full),
    )
    i = int(np.flatnonzero(gammas == 4.0)[0])
    ours = dict(zip(names, (low, lowest, highest, high), strict=True))
    for name, printed in PRINTED_BOUNDS.items():
        value = Interval.exact(ours[name][i])
        yield Line(
            f"At γ = 4 the {name.split()[0]} {_END[name.split()[1]]} bound is T = {printed:g}",
            "within 0.0005, as printed to three digits",
            f"Sec. 3.2: {printed:g}",
            value,
            "T",
            judge_number(value, printed, tolerance=ROUNDED, is_full=is_full),
        )


_END = {"low": "lower", "high": "upper"}


def _fit_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    for k, printed in PRINTED_LINES.items():
        gammas, inverse = rows.curve(f"nearest K={k}", "1/T")
        line = minimax_line(gammas, inverse)
        slope, intercept, r2 = fit(gammas, inverse)
        grid = [one(rows, f"grid K={k}", name) for name in ("slope", "intercept")]
        squares = {"slope": slope, "intercept": intercept}
        for name, theirs in zip(("slope", "intercept"), printed, strict=True):
            value = Interval.exact(getattr(line, name))
            first = judge_number(
                Interval.exact(squares[name]), theirs, tolerance=COEFFICIENT, is_full=is_full
            )
            yield Line(
                f"K = {k}: 1/T of the nearest temperature is about {printed[0]}γ + {printed[1]}: "
                f"{name}",
                f"the {name} of the line of least largest deviation (SPEC F9) over γ in (0, 10] "
                f"is within {COEFFICIENT:g}",
                f"Sec. 3.2-3.3: {theirs:g}",
                value,
                name,
                judge_number(value, theirs, tolerance=COEFFICIENT, is_full=is_full),
                f"By least squares {slope:.3f}γ + {intercept:.3f}, and so: {first}. That was the "
                "first rule; it gave way to the line of SPEC F9 after a run on coarse grids had "
                f"been seen. With logits in [-5, 5] on a grid only, {grid[0]:.3f}γ + "
                f"{grid[1]:.3f}. At γ → 0, 1/T is 1.",
            )
        value = Interval.exact(r2)
        yield Line(
            f"K = {k}: the relation of 1/T and γ is close to linear",
            "R² of least squares over γ in (0, 10] is above 0.99",
            "Sec. 3.2-3.3: close to linear",
            value,
            "R²",
            judge_above(value, 0.99, is_full=is_full),
        )
    hottest = Interval.exact(1.0 / rows.curve("nearest K=3", "1/T")[1].min())
    yield Line(
        "For every γ > 0 the nearest temperature is below 1 (K = 3)",
        "the largest over γ in (0, 10] is below 1",
        "Sec. 3.3",
        hottest,
        "the largest T",
        judge_below(hottest, 1.0, is_full=is_full),
    )


def _error_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    gammas, errors = rows.curve("nearest K=2", "error")
    worst = Interval.exact(errors.max())
    yield Line(
        "K = 2: the nearest temperature is off by less than 1e-3 in probability",
        "the largest error over γ in (0, 10] is below 1e-3",
        "Sec. 3.2: lower than 1e-3",
        worst,
        f"at γ = {gammas[errors.argmax()]:g}",
        judge_below(worst, 1e-3, is_full=is_full),
    )
    for k in (3, 4):
        found = Interval.exact(one(rows, f"printed K={k} γ=9", "error"))
        yield Line(
            f"K = {k}: it is off by up to 8 % at γ = 9",
            "the largest difference of any class's probability is within 0.005 of 0.08",
            "Sec. 3.3: 8 %" + (" at γ = 9" if k == 3 else " for larger γ"),
            found,
            "largest difference",
            judge_number(found, 0.08, tolerance=TWO_DIGITS, is_full=is_full),
            "Over all logits; a coarse grid of them misses the worst.",
        )


def _caption_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    for k, values in PRINTED_TEMPERATURES.items():
        slope, intercept = PRINTED_LINES[k]
        for gamma, printed in values.items():
            found = Interval.exact(one(rows, f"printed K={k} γ={gamma:g}", "T"))
            yield Line(
                f"K = {k}, γ = {gamma:g}: the nearest temperature is {printed:g}",
                "within 0.005, as printed to two digits",
                f"caption of Fig. {2 if k == 2 else 5}: {printed:g}",
                found,
                "T",
                judge_number(found, printed, tolerance=TWO_DIGITS, is_full=is_full),
                f"The paper's own line gives {1.0 / (slope * gamma + intercept):.3f} here, and "
                f"{printed:g} at γ = {(1.0 / printed - intercept) / slope:.2f}.",
            )
    score = Interval.exact(one(rows, "example γ=2", "q"))
    yield Line(
        "Where the truth is 0.8, focal loss with γ = 2 is least at about 0.62",
        "within 0.005, as printed to two digits",
        "motivating example: 0.62",
        score,
        "q",
        judge_number(score, 0.62, tolerance=TWO_DIGITS, is_full=is_full),
    )


def _shape_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    excess = Interval.exact(min(one(rows, f"loss γ={g:g}", "least excess") for g in LOSS_GAMMAS))
    yield Line(
        "The proper part of the loss is below the focal loss for scores under 1/2, else above it",
        "the least difference, counted positive where it is as the paper says, is above 0",
        "Sec. 3.2, Fig. 1",
        excess,
        "least difference",
        judge_above(excess, 0.0, is_full=is_full),
    )
    bends = [one(rows, f"isolines {loss}", "third harmonic") for loss in RISKS]
    rise = Interval.exact(np.diff(bends).min())
    shown = ", ".join(f"{loss} {bend:.4f}" for loss, bend in zip(RISKS, bends, strict=True))
    yield Line(
        "Isolines: circles for Brier, ovals for CE, ever more triangular with γ",
        "the third harmonic of the isoline at 12 %, which a circle and an ellipse do not have, "
        "rises from Brier to CE to γ = 1 to γ = 3",
        "Sec. 3.3, Fig. 4",
        rise,
        f"least rise; {shown}",
        judge_above(rise, 0.0, is_full=is_full),
    )
    nearer = [
        one(rows, f"difference γ={g:g}", "to the centre")
        - one(rows, f"difference γ={g:g}", "to the corner")
        for g in LOSS_GAMMAS
    ]
    least = Interval.exact(min(nearer))
    tops = ", ".join(f"{one(rows, f'difference γ={g:g}', 'top there'):.3f}" for g in LOSS_GAMMAS)
    yield Line(
        "Focal map and nearest temperature differ most near the corners (K = 3)",
        "the point of the largest difference is nearer to a corner than to the centre, for "
        "γ = 0.5 and 3",
        "Sec. 3.3, Fig. 7",
        least,
        f"less distance to the corner than to the centre; top probability there {tops}",
        judge_above(least, 0.0, is_full=is_full),
    )


EXPERIMENT = Experiment(
    name=NAME,
    spec="E9",
    source="Komisarenko & Kull (2024), paper 003, Sec. 3.2-3.3, Fig. 1-7",
    title="The focal map and temperature scaling",
    protocol="Computed, nothing is trained: the focal map Ψ and the proper part of the focal "
    "loss; the temperatures between which Ψ lies; the temperature whose map differs least, at its "
    "worst over all logits, from Ψ, for γ up to 10 and 2 to 100 classes, with lines through "
    "1/T; isolines and arrows on the simplex of three classes. That Ψ can lower the "
    "top probability (against Prop. 5) is shown by `regimes`.",
    smaller={
        "smallest": "Coarse grids, to test the program.",
        "reduced": "",
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe,
    conclude=conclude,
)
