"""Table and figures of `psi-images`."""

from collections.abc import Iterator

import numpy as np

from focalibrate.experiments.engine.experiment import Table
from focalibrate.experiments.networks.pool import SET_NAMES
from focalibrate.experiments.paper000.psi_images.rows import (
    GAMMAS,
    PROBLEMS,
    SEEDS,
    WITH,
    WITHOUT,
    PsiRows,
    Setting,
)
from focalibrate.report.charts import Chart, Panel, Series

FEWEST_ROWS = 20
"""Least number of rows of a bin, over all seeds, for its point to be drawn."""
_LOOKS = ((False, "without Ψ", 1), (True, "with Ψ", 2))


def score_table(found: PsiRows) -> Table:
    """Return every setting with its scores without and with Ψ."""
    body = []
    for setting in found.settings:
        for gamma in found.gammas(setting):
            cells = [SET_NAMES[setting.problem], setting.paradigm, str(gamma)]
            for metric, digits in (("ece", 2), ("gap", 2), ("nll", 4)):
                for is_after in (False, True):
                    values = found.values(metric, setting, gamma, is_after=is_after)
                    cells.append(f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}")
            error = found.values("error", setting, gamma, is_after=False)
            body.append((*cells, f"{error.mean():.2f} ± {error.std(ddof=1):.2f}"))
    return Table(
        "Mean and standard deviation over seeds",
        (
            "data",
            "paradigm",
            "γ",
            "ECE %",
            "with Ψ",
            "gap %",
            "with Ψ",
            "NLL",
            "with Ψ",
            "error %",
        ),
        tuple(body),
        "ECE with 10 bins; gap: mean confidence − accuracy, above 0 if overconfident. Numbers "
        "are means of the two halves of the test rows.",
    )


def charts(found: PsiRows) -> Iterator[Chart]:
    """Yield the reliability diagrams of each problem, then ECE against gamma."""
    for problem in PROBLEMS[found.scale]:
        yield Chart(
            f"reliability-{problem.replace('_', '-')}",
            f"Reliability on {SET_NAMES[problem]} without and with Ψ, as in Fig. 4; all seeds "
            f"together. Above the diagonal: underconfident. Bins with fewer than {FEWEST_ROWS} "
            "rows are left out.",
            [
                _reliability(found, setting, gamma)
                for setting in found.settings
                if setting.problem == problem
                for gamma in found.gammas(setting)[1:]
            ],
            columns=len(GAMMAS[found.scale]) - 1,
        )
    yield Chart(
        "ece",
        "ECE against γ without and with Ψ, as in Fig. 5 and 6: mean, smallest and largest value "
        "over the seeds.",
        [_ece_panel(found, setting) for setting in found.settings],
    )


def _reliability(found: PsiRows, setting: Setting, gamma: int) -> Panel:
    recipe = found.recipe(setting, gamma)
    series = [Series([0.0, 1.0], [0.0, 1.0], style="dashed", color=6)]
    for is_after, label, color in _LOOKS:
        method = (WITH if is_after else WITHOUT)[setting.paradigm]
        n, sure, right = (
            found.rows.curve(recipe, f"{what} in bin, {method}")[1]
            for what in ("rows", "confidence", "right")
        )
        seen = n * SEEDS[found.scale] >= FEWEST_ROWS
        ece = found.values("ece", setting, gamma, is_after=is_after).mean()
        text = f"{label}: ECE {ece:.1f} %"
        points = sure[seen] / n[seen], right[seen] / n[seen]
        series.append(Series(*points, text, "line and points", color=color))
    title = f"{setting.paradigm}, γ = {gamma}"
    return Panel(title, "confidence", "accuracy", series, is_square=True)


def _ece_panel(found: PsiRows, setting: Setting) -> Panel:
    series = []
    for is_after, label, color in _LOOKS:
        y = np.array(
            [found.values("ece", setting, g, is_after=is_after) for g in found.gammas(setting)]
        )
        series.append(
            Series(
                [float(gamma) for gamma in found.gammas(setting)],
                y.mean(axis=1),
                label,
                "line and points",
                y.min(axis=1),
                y.max(axis=1),
                color,
            )
        )
    return Panel(f"{SET_NAMES[setting.problem]}, {setting.paradigm}", "γ", "ECE, %", series)
