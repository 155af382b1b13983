"""Table and figures of `curvature`."""

from collections.abc import Iterator

import numpy as np

from focalibrate.experiments.engine.experiment import Table
from focalibrate.experiments.networks.pool import SET_NAMES
from focalibrate.experiments.networks.recipes import Problem
from focalibrate.experiments.paper004.curvature.claims import OF_LOSS
from focalibrate.experiments.paper004.curvature.rows import CurvatureRows, fit_cubic
from focalibrate.report.charts import Chart, Panel, Series

_COLUMNS = (
    ("λ_max, training loss", "lambda_max, own", 2),
    ("Tr, training loss", "trace, own", 1),
    ("its standard error", "trace error, own", 1),
    ("λ_max, CE", "lambda_max, ce", 2),
    ("Tr, CE", "trace, ce", 1),
    ("ECE %", "ece", 2),
    ("ECE %, validation", "ece, validation", 2),
    ("error %", "error", 2),
)


def score_table(found: CurvatureRows) -> Table:
    """Return curvature and calibration per exponent."""
    body = []
    for problem in found.problems:
        columns = [(found.table(metric, problem), digits) for _, metric, digits in _COLUMNS]
        for place, gamma in enumerate(found.gammas(problem)):
            cells = [
                f"{table[place].mean():.{digits}f} ± {table[place].std(ddof=1):.{digits}f}"
                for table, digits in columns
            ]
            body.append((SET_NAMES[problem], f"{gamma:g}", *cells))
    return Table(
        "Mean and standard deviation over seeds",
        ("data", "γ", *(head for head, _, _ in _COLUMNS)),
        tuple(body),
        "ECE with 15 bins on all test rows; beside it, ECE on the validation rows, which are few.",
    )


def charts(found: CurvatureRows) -> Iterator[Chart]:
    """Yield Fig. 2 and Fig. 3."""
    yield Chart(
        "figure-2",
        "The largest eigenvalue and the trace of the Hessian of the validation loss, and ECE, "
        "against the γ of training, as in Fig. 2: mean, smallest and largest value over the "
        "seeds.",
        [panel for problem in found.problems for panel in _against_gamma(found, problem)],
    )
    yield Chart(
        "figure-3",
        "ECE against the trace of the Hessian of the validation loss, one point per network, "
        "with the least-squares cubic, as in Fig. 3.",
        [_against_trace(found, problem) for problem in found.problems],
        columns=2,
    )


def _against_gamma(found: CurvatureRows, problem: Problem) -> Iterator[Panel]:
    name = SET_NAMES[problem]
    for metric, label in (("lambda_max", "λ_max(H_val)"), ("trace", "Tr(H_val)")):
        series = [
            _curve(found, problem, f"{metric}, {of}", f"of {what}") for of, what in OF_LOSS.items()
        ]
        is_positive = all(np.min(s.low) > 0 for s in series if s.low is not None)
        yield Panel(name, "γ", label, series, log_y=is_positive)
    yield Panel(name, "γ", "ECE, %", [_curve(found, problem, "ece", "")])


def _curve(found: CurvatureRows, problem: Problem, metric: str, label: str) -> Series:
    table, gammas = found.table(metric, problem), found.gammas(problem)
    band = table.min(axis=1), table.max(axis=1)
    return Series(gammas, table.mean(axis=1), label, "line and points", *band)


def _against_trace(found: CurvatureRows, problem: Problem) -> Panel:
    trace, ece = found.table("trace, own", problem), found.table("ece", problem)
    series = [
        Series(trace[i], ece[i], f"γ = {gamma:g}", "points")
        for i, gamma in enumerate(found.gammas(problem))
    ]
    curve = fit_cubic(trace.ravel(), ece.ravel())
    x = np.linspace(trace.min(), trace.max(), 101)
    series.append(Series(x, curve.at(x), "cubic", color=7))
    return Panel(SET_NAMES[problem], "Tr(H_val) of the training loss", "ECE, %", series)
