"""Tables and figures of `focal-temperature`."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.experiment import Table
from focalibrate.experiments.networks.pool import SET_NAMES, network_name
from focalibrate.experiments.networks.recipes import GAMMA, SHOWN, Problem
from focalibrate.experiments.networks.trend import mean_of_known
from focalibrate.experiments.paper003.focal_temperature.claims import PAPER_VALUES
from focalibrate.experiments.paper003.focal_temperature.rows import SEEDS, ScalingRows
from focalibrate.report.charts import Chart, Panel, Series

METHODS = ("raw", "TS_ECE", "FTS_ECE", "TS_NLL", "FTS_NLL")


def tables(found: ScalingRows) -> Iterator[Table]:
    """Yield our Table 1, and the lines of Fig. 8."""
    yield Table(
        "Table 1 of the paper, here",
        (
            "data",
            "loss",
            "error %",
            "AdaECE % raw",
            "TS",
            "FTS",
            "T of TS",
            "(γ, T) of FTS",
            "paper: TS, FTS",
            "NLL raw",
            "TS",
            "FTS",
        ),
        tuple(
            _row(found, problem, loss)
            for problem, losses in found.losses.items()
            for loss in losses
        ),
        "Mean ± standard deviation over seeds. AdaECE with the fits by AdaECE, NLL with the fits "
        "by NLL, as the paper does; (γ, T) are means over seeds and halves. The paper's numbers "
        "are for ResNet-50 on CIFAR-10, where they are legible in our copy.",
    )
    yield Table(
        "The best T as a line in the γ of the map, by AdaECE",
        ("data", "loss", "slope", "intercept", "R²", "points", "R², γ ≤ 1"),
        tuple(
            _line_row(found, problem, loss)
            for problem in found.losses
            for loss in found.focal(problem)
        ),
        "Mean over seeds. Any γ whose best T is at the end of the grid is left out.",
    )


def _spread(values: NDArray[np.float64], digits: int = 2) -> str:
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def _row(found: ScalingRows, problem: Problem, loss: str) -> tuple[str, ...]:
    def percent(metric: str) -> str:
        return _spread(100 * found.values(metric, problem, loss))

    def mean(metric: str) -> str:
        return f"{found.values(metric, problem, loss).mean():.2f}"

    printed = PAPER_VALUES.get(loss) if problem == "cifar10" else None
    return (
        SET_NAMES[problem],
        SHOWN[loss],
        percent("error, raw"),
        *(percent(f"adaece, {m}") for m in METHODS[:3]),
        mean("T, TS_ECE"),
        f"({mean('gamma, FTS_ECE')}, {mean('T, FTS_ECE')})",
        "–" if printed is None else f"{printed[0]:.2f}, {printed[1]:.2f}",
        *(_spread(found.values(f"nll, {m}", problem, loss), 4) for m in ("raw", *METHODS[3:])),
    )


def _line_row(found: ScalingRows, problem: Problem, loss: str) -> tuple[str, ...]:
    seeds = range(SEEDS[found.scale])
    whole = [found.line(problem, loss, seed=seed) for seed in seeds]
    near = [found.line(problem, loss, seed=seed, largest=1.0) for seed in seeds]
    numbers = [[fit.slope, fit.intercept, fit.r2, fit.n_points] for fit in whole]
    slope, intercept, r2, n_points = (mean_of_known(column) for column in np.transpose(numbers))
    return (
        SET_NAMES[problem],
        SHOWN[loss],
        f"{slope:.3f}",
        f"{intercept:.3f}",
        f"{r2:.4f}",
        f"{n_points:.1f}",
        f"{mean_of_known([fit.r2 for fit in near]):.4f}",
    )


def charts(found: ScalingRows) -> Iterator[Chart]:
    """Yield calibration errors by method, then Fig. 8."""
    yield Chart(
        "adaece",
        "AdaECE without a fit, after TS and after FTS (both fitted by AdaECE on the other half "
        "of the test rows): mean, smallest and largest value over the seeds.",
        [_errors(found, problem) for problem in found.concluded],
        columns=2,
    )
    problems = [p for p in found.concluded if any(GAMMA[loss] > 0 for loss in found.focal(p))]
    yield Chart(
        "best-temperature",
        "The best T by AdaECE at each γ of the map, for networks trained with focal loss: mean "
        "over the seeds, with the least-squares line, as in Fig. 8.",
        [_best_temperatures(found, problem) for problem in problems],
        columns=2,
    )


def _errors(found: ScalingRows, problem: Problem) -> Panel:
    losses = found.losses[problem]
    names = [SHOWN[loss] for loss in losses]
    series = []
    for method, label in (("raw", "raw"), ("TS_ECE", "TS"), ("FTS_ECE", "FTS")):
        y = np.array([100 * found.values(f"adaece, {method}", problem, loss) for loss in losses])
        band = y.min(axis=1), y.max(axis=1)
        series.append(Series(names, y.mean(axis=1), label, "points", *band))
    return Panel(SET_NAMES[problem], "training loss", "AdaECE, %", series, log_y=True)


def _best_temperatures(found: ScalingRows, problem: Problem) -> Panel:
    series = []
    focal = [loss for loss in found.focal(problem) if GAMMA[loss] > 0]
    for color, loss in enumerate(focal):
        at, best = found.rows.curve(network_name(problem, loss), "best T")
        fits = [found.line(problem, loss, seed=seed) for seed in range(SEEDS[found.scale])]
        series.append(Series(at, best, SHOWN[loss], "points", color=color))
        slope = mean_of_known([fit.slope for fit in fits])
        start = mean_of_known([fit.intercept for fit in fits])
        if not np.isnan(slope):
            ends = np.array([at.min(), at.max()])
            series.append(Series(ends, start + slope * ends, style="line", color=color))
    return Panel(SET_NAMES[problem], "γ of the map", "best T", series)
