"""Table and figure of `psi-gap`."""

import math
from collections.abc import Callable, Sequence

from focalibrate.experiments.engine.experiment import Table
from focalibrate.experiments.engine.forest import show_interval
from focalibrate.experiments.engine.verdict import mean_interval
from focalibrate.experiments.paper000.psi_gap.rows import (
    FITTED,
    LINE,
    NEAR,
    Setting,
    by_problem,
    mean_changes,
)
from focalibrate.report.charts import Chart, Panel, Series

SMALLEST_GAP = 1e-3
"""Smaller and negative gaps are drawn at this value, because the axis is logarithmic."""


def family_of(problem: str, networks: Sequence[str]) -> str:
    """Return the kind of problem: image networks, a line, or tables."""
    return "images" if problem in networks else "line" if problem.startswith(LINE) else "tables"


def gap_chart(settings: Sequence[Setting], networks: Sequence[str]) -> Chart:
    """Return the change of ECE by Ψ against the two generalisation gaps."""
    known = [s for s in settings if not math.isnan(s.loss_gap)]
    panels = [
        _panel("Loss", "test loss − training loss", known, lambda s: s.loss_gap, networks),
        _panel("Error", "test error − training error", settings, lambda s: s.error_gap, networks),
    ]
    return Chart(
        "gap",
        "Change of ECE by Ψ (below 0: Ψ helps) against how much worse the network is on test "
        "examples than on training examples. Each point is one problem and one γ of 1 to 3, the "
        f"mean over seeds or trials. Gaps below {SMALLEST_GAP:g} are drawn at {SMALLEST_GAP:g}. "
        f"Dashed: no change, and in the left panel the bound of {NEAR:g} below which the losses "
        "count as equal.",
        panels,
        columns=2,
        size=(4.8, 3.8),
    )


def _panel(
    title: str,
    x_label: str,
    settings: Sequence[Setting],
    gap: Callable[[Setting], float],
    networks: Sequence[str],
) -> Panel:
    def at(setting: Setting) -> float:
        return max(gap(setting), SMALLEST_GAP)

    series = []
    for color, name in ((0, "tables"), (2, "line"), (1, "images")):
        own = [s for s in settings if family_of(s.problem, networks) == name]
        if own:
            x, y = [at(s) for s in own], [s.change for s in own]
            series.append(Series(x, y, name, "points", color=color))
    ends = [min(map(at, settings)), max(map(at, settings))]
    series.append(Series(ends, [0.0, 0.0], style="dashed", color=6))
    if title == "Loss":
        changes = [s.change for s in settings]
        bounds = [min(changes), max(changes)]
        series.append(Series([NEAR, NEAR], bounds, style="dashed", color=6))
    return Panel(title, x_label, "points of ECE, with Ψ − without", series, log_x=True)


def regimes_table(settings: Sequence[Setting]) -> Table:
    """Return the change by Ψ near the minimiser, in between, and for overfitted networks."""
    known = [s for s in settings if not math.isnan(s.loss_gap)]
    regimes = {
        f"losses agree within {NEAR:g}": [s for s in known if s.is_near],
        "between": [s for s in known if not s.is_near and not s.is_fitted],
        f"training error below {100 * FITTED:g} %, losses differ": [
            s for s in known if s.is_fitted
        ],
    }
    body = []
    for name, own in regimes.items():
        if own:
            helped = sum(s.change < 0 for s in own)
            under = sum(s.confidence_gap < 0 for s in own)
            mean = show_interval(mean_interval(mean_changes(own)))
            counts = (len(by_problem(own)), len(own), helped, under)
            body.append((name, *map(str, counts), mean))
    return Table(
        "Change of ECE by Ψ, by the network's distance from the minimiser of its risk",
        (
            "regime",
            "problems",
            "settings",
            "ECE falls in",
            "underconfident before",
            "change of ECE, points",
        ),
        tuple(body),
        "The change is the mean over problems with its 95 % interval.",
    )


def settings_table(settings: Sequence[Setting], networks: Sequence[str]) -> Table:
    """Return every setting, image networks first."""
    order = sorted(settings, key=lambda s: family_of(s.problem, networks) != "images")
    body = tuple(
        (
            s.problem,
            f"{s.gamma:g}",
            str(s.n),
            "–" if math.isnan(s.loss_gap) else f"{s.loss_gap:.3f}",
            f"{100 * s.train_error:.2f}",
            f"{100 * s.error_gap:.2f}",
            f"{s.ece:.2f}",
            f"{s.change:+.2f}",
            f"{100 * s.confidence_gap:+.2f}",
        )
        for s in order
    )
    return Table(
        "Every setting",
        (
            "problem",
            "γ",
            "seeds",
            "loss gap",
            "training error, %",
            "error gap, points",
            "ECE, %",
            "change by Ψ",
            "confidence − accuracy, points",
        ),
        body,
        "–: the training loss was not kept.",
    )
