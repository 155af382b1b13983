"""Temperature versus focal temperature scaling (E10)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import (
    Calibrator,
    FitReport,
    FocalTemperatureScaling,
    Identity,
    TemperatureScaling,
    fit_focal_temperature,
)
from focalibrate.calibrate.fit_focal_temperature import FINE_TEMPERATURES
from focalibrate.metrics import adaptive_ece, ece, nll
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.networks import (
    GAMMA,
    SET_NAMES,
    SHOWN,
    TOO_FEW,
    Fold,
    Problem,
    StraightLine,
    by_problem,
    fit_line,
    folds,
    losses_in,
    mean_of_known,
    pool_recipe,
    quiet,
    trained,
)

PAPER_LOSSES = ("ce", "fl1", "fl2", "fl3", "fl5", "fl7", "flsd53", "adafocal")
LOSSES: Mapping[lab.Scale, Mapping[Problem, tuple[str, ...]]] = {
    "smallest": {"cifar10": ("ce", "fl1", "fl3")},
    "reduced": {
        "cifar10": ("ce", "fl1", "fl2", "fl3", "flsd53"),
        "fashion_mnist": PAPER_LOSSES,
        "20newsgroups": ("ce", "fl3", "flsd53"),
    },
    "full": {"cifar10": PAPER_LOSSES, "fashion_mnist": PAPER_LOSSES},
}
"""The paper's losses that the pool has."""
SEEDS: Mapping[lab.Scale, int] = {"smallest": 2, "reduced": 3, "full": 5}
FEWEST_GAMMAS = 3
"""Losses with one exponent each, for a trend over the exponents of a problem."""


def concluded(rows: lab.Rows) -> dict[Problem, lab.Rows]:
    """Return the rows of the problems that conclusions are drawn from."""
    return {p: own for p, own in by_problem(rows).items() if p not in TOO_FEW}


def focal_in(rows: lab.Rows) -> list[str]:
    """Return the losses that have one exponent, 0 among them, in its order."""
    return [loss for loss in losses_in(rows) if loss in GAMMA]


def gap(rows: lab.Rows, metric: str, loss: str, fitted_by: str) -> NDArray[np.float64]:
    """Return a metric of FTS − that of TS, per seed."""
    both, alone = (rows.values(f"{metric}, {m}_{fitted_by}", loss=loss) for m in ("FTS", "TS"))
    return np.asarray(both - alone)


def lines(rows: lab.Rows, loss: str, *, largest: float = np.inf) -> list[StraightLine]:
    """Return for each seed the line of the best T on the exponent of the map up to `largest`."""
    found = []
    for seed in rows.each("seed"):
        at, best = rows.curve("best T", loss=loss, seed=seed)
        found.append(fit_line(at[at <= largest], best[at <= largest]))
    return found


METHODS = ("raw", "TS_ECE", "FTS_ECE", "TS_NLL", "FTS_NLL")


def tables(rows: lab.Rows) -> Iterator[lab.Table]:
    """Yield our Table 1, and the lines of Fig. 8."""
    yield lab.Table(
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
            _row(own, problem, loss)
            for problem, own in by_problem(rows).items()
            for loss in losses_in(own)
        ),
        "Mean ± standard deviation over seeds. AdaECE with the fits by AdaECE, NLL with the fits "
        "by NLL, as the paper does; (γ, T) are means over seeds and halves. The paper's numbers "
        "are for ResNet-50 on CIFAR-10, where they are legible in our copy.",
    )
    yield lab.Table(
        "The best T as a line in the γ of the map, by AdaECE",
        ("data", "loss", "slope", "intercept", "R²", "points", "R², γ ≤ 1"),
        tuple(
            _line_row(own, problem, loss)
            for problem, own in by_problem(rows).items()
            for loss in focal_in(own)
        ),
        "Mean over seeds. Any γ whose best T is at the end of the grid is left out.",
    )


def _row(rows: lab.Rows, problem: Problem, loss: str) -> tuple[str, ...]:
    def percent(metric: str) -> str:
        return lab.spread(100 * rows.values(metric, loss=loss))

    def mean(metric: str) -> str:
        return f"{rows.values(metric, loss=loss).mean():.2f}"

    printed = PAPER_VALUES.get(loss) if problem == "cifar10" else None
    return (
        SET_NAMES[problem],
        SHOWN[loss],
        percent("error, raw"),
        *(percent(f"adaece, {m}") for m in METHODS[:3]),
        mean("T, TS_ECE"),
        f"({mean('gamma, FTS_ECE')}, {mean('T, FTS_ECE')})",
        "–" if printed is None else f"{printed[0]:.2f}, {printed[1]:.2f}",
        *(lab.spread(rows.values(f"nll, {m}", loss=loss), 4) for m in ("raw", *METHODS[3:])),
    )


def _line_row(rows: lab.Rows, problem: Problem, loss: str) -> tuple[str, ...]:
    numbers = [[fit.slope, fit.intercept, fit.r2, fit.n_points] for fit in lines(rows, loss)]
    slope, intercept, r2, n_points = (mean_of_known(column) for column in np.transpose(numbers))
    return (
        SET_NAMES[problem],
        SHOWN[loss],
        f"{slope:.3f}",
        f"{intercept:.3f}",
        f"{r2:.4f}",
        f"{n_points:.1f}",
        f"{mean_of_known([fit.r2 for fit in lines(rows, loss, largest=1.0)]):.4f}",
    )


def charts(rows: lab.Rows) -> Iterator[Chart]:
    """Yield calibration errors by method, then Fig. 8."""
    yield Chart(
        "adaece",
        "AdaECE without a fit, after TS and after FTS (both fitted by AdaECE on the other half "
        "of the test rows): mean, smallest and largest value over the seeds.",
        [_errors(own, problem) for problem, own in concluded(rows).items()],
        columns=2,
    )
    yield Chart(
        "best-temperature",
        "The best T by AdaECE at each γ of the map, for networks trained with focal loss: mean "
        "over the seeds, with the least-squares line, as in Fig. 8.",
        [_best_temperature_chart(own, problem) for problem, own in concluded(rows).items()],
        columns=2,
    )


def _errors(rows: lab.Rows, problem: Problem) -> Panel:
    losses, series = losses_in(rows), []
    names = [SHOWN[loss] for loss in losses]
    for method, label in (("raw", "raw"), ("TS_ECE", "TS"), ("FTS_ECE", "FTS")):
        y = np.array([100 * rows.values(f"adaece, {method}", loss=loss) for loss in losses])
        series.append(Series.over_seeds(names, y, label, style="points"))
    return Panel(SET_NAMES[problem], "training loss", "AdaECE, %", series, log_y=True)


def _best_temperature_chart(rows: lab.Rows, problem: Problem) -> Panel:
    series = []
    for color, loss in enumerate(loss for loss in focal_in(rows) if GAMMA[loss] > 0):
        at, best = rows.curve("best T", loss=loss)
        fits = lines(rows, loss)
        series.append(Series(at, best, SHOWN[loss], "points", color=color))
        slope = mean_of_known([fit.slope for fit in fits])
        start = mean_of_known([fit.intercept for fit in fits])
        if not np.isnan(slope):
            ends = np.array([at.min(), at.max()])
            series.append(Series(ends, start + slope * ends, style="line", color=color))
    return Panel(SET_NAMES[problem], "γ of the map", "best T", series)


PAPER_VALUES = {
    "ce": (1.03, 0.71),
    "fl1": (1.05, 0.82),
    "fl7": (0.66, 0.61),
    "flsd53": (1.30, 1.23),
    "adafocal": (1.80, 0.95),
}
"""Table 1, CIFAR-10: ECE in percent after TS and after FTS, for the rows legible in our copy."""
NEAR_LINE = 0.95
"""R² from which a relation counts as close to linear; the paper gives no number."""
SAME_NLL = 2.0
"""Percent within which two log losses count as about the same; the paper gives no number."""
ALL = 0.9
"""The fraction that "all trained models" requires: less than 1, as a fraction of few models is
uncertain."""
SILENT = "not in the paper"
PAPERS: tuple[Problem, ...] = ("cifar10",)
"""Problems whose data the paper has too."""
_BY_GAMMA = (
    'Sec. 5.2: "Models trained with higher γ_tr have generally better ECE but worse accuracy."'
)


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield one result per claim."""
    sets = concluded(rows)
    trends = {p: own for p, own in sets.items() if len(focal_in(own)) >= FEWEST_GAMMAS}
    papers = {p: own for p, own in sets.items() if p in PAPERS}
    for problem, own in sets.items():
        yield _fts_below_ts(own, problem)
    yield _over_all(sets)
    yield _everywhere(papers)
    yield _same_log_loss(papers)
    yield _criterion_matters(papers)
    yield from _linear(trends)
    for problem, own in trends.items():
        yield from _trends(own, problem)


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    gaps = 100 * _kinds(concluded(rows), "adaece", "ECE")
    mean = lab.mean_interval(gaps)
    return (
        f"The second parameter changes AdaECE by {mean.estimate:.3f} points [{mean.low:.3f}, "
        f"{mean.high:.3f}] on average over {gaps.size} kinds of networks (FTS − TS); FTS is "
        f"lower for {int((gaps < 0).sum())} of them."
    )


def _fts_below_ts(rows: lab.Rows, problem: Problem) -> lab.ClaimResult:
    is_papers = problem in PAPERS
    mean = np.mean([after - before for before, after in PAPER_VALUES.values()])
    return lab.judged(
        "focal-temperature/fts-lower",
        np.mean([100 * gap(rows, "adaece", x, "ECE") for x in losses_in(rows)], axis=0),
        data=SET_NAMES[problem],
        n_printed=len(PAPER_VALUES),
        mean=mean,
        is_papers=is_papers,
    )


def _kinds(sets: Mapping[Problem, lab.Rows], metric: str, fitted_by: str) -> NDArray[np.float64]:
    """Return the mean over seeds of FTS − TS, per problem and loss."""
    each = [gap(own, metric, x, fitted_by) for own in sets.values() for x in losses_in(own)]
    return np.array([values.mean() for values in each])


def _over_all(sets: Mapping[Problem, lab.Rows]) -> lab.ClaimResult:
    differences = 100 * _kinds(sets, "adaece", "ECE")
    return lab.judged("focal-temperature/on-average", differences, size=differences.size)


def _everywhere(sets: Mapping[Problem, lab.Rows]) -> lab.ClaimResult:
    differences = _kinds(sets, "adaece", "ECE")
    return lab.judged(
        "focal-temperature/everywhere",
        lab.share_interval(int(np.sum(differences < 0)), differences.size),
        size=differences.size,
        bound=ALL,
    )


def _same_log_loss(sets: Mapping[Problem, lab.Rows]) -> lab.ClaimResult:
    changes = _kinds(sets, "nll", "NLL")
    level = np.array(
        [
            own.values("nll, TS_NLL", loss=loss).mean()
            for own in sets.values()
            for loss in losses_in(own)
        ]
    )
    return lab.judged(
        "focal-temperature/same-nll",
        lab.mean_interval(100 * np.abs(changes) / level).within(0.0, np.inf),
        bound=SAME_NLL,
        note=f"NLL is lower with FTS for {int((changes < 0).sum())} of {changes.size} kinds.",
    )


def _criterion_matters(sets: Mapping[Problem, lab.Rows]) -> lab.ClaimResult:
    gains = []
    for own in sets.values():
        for loss in losses_in(own):
            by_ece, by_nll = (
                np.mean(
                    [own.values(f"adaece, {m}_{fit}", loss=loss).mean() for m in ("TS", "FTS")]
                )
                for fit in ("ECE", "NLL")
            )
            gains.append(100 * (1 - by_ece / by_nll))
    return lab.judged("focal-temperature/criterion", gains)


def _linear(sets: Mapping[Problem, lab.Rows]) -> Iterator[lab.ClaimResult]:
    for problem, own in sets.items():
        is_papers = problem in PAPERS
        for largest, where in ((np.inf, "the whole grid of γ"), (1.0, "γ ≤ 1 only")):
            losses = [loss for loss in focal_in(own) if GAMMA[loss] > 0]
            fits = [*zip(*(lines(own, loss, largest=largest) for loss in losses), strict=True)]
            r2 = np.array([[fit.r2 for fit in row] for row in fits])
            least = np.fmin.reduce(r2, axis=None)
            slope = mean_of_known([fit.slope for row in fits for fit in row])
            yield lab.judged(
                "focal-temperature/linear",
                lab.mean_interval([mean_of_known(row) for row in r2]).within(0.0, 1.0),
                data=SET_NAMES[problem],
                where=where,
                least=least,
                slope=slope,
                bound=NEAR_LINE,
                is_papers=is_papers,
            )


def _trends(rows: lab.Rows, problem: Problem) -> Iterator[lab.ClaimResult]:
    losses = focal_in(rows)
    gammas = [GAMMA[loss] for loss in losses]
    name, is_papers = SET_NAMES[problem], problem in PAPERS
    for metric, what, below, words in (
        (
            "T, TS_ECE",
            "The best T falls",
            True,
            'Sec. 5.2: "The optimal temperature generally decreases with the growth of the focal '
            'training parameter γ_tr."',
        ),
        ("adaece, TS_ECE", "AdaECE after TS falls", True, _BY_GAMMA),
        ("error, raw", "The error rises", False, _BY_GAMMA),
    ):
        table = np.array([rows.values(metric, loss=loss) for loss in losses])
        yield lab.judged(
            "focal-temperature/trend",
            lab.rank_correlation_interval(gammas, table),
            measure=what,
            name=name,
            largest=gammas[-1],
            paper_value=words if is_papers else SILENT,
            below=below,
            is_papers=is_papers,
        )


NAME = "focal-temperature"
N_BINS = 15
Criterion: TypeAlias = Literal["adaptive_ece", "nll"]
CRITERIA: Mapping[str, Criterion] = {"ECE": "adaptive_ece", "NLL": "nll"}
"""What a fit minimises, by its name in the rows; the paper's ECE has bins of equal mass."""
STEP: Mapping[lab.Scale, int] = {"smallest": 20, "reduced": 1, "full": 1}
"""Step, in temperatures of the paper's grid."""


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one run per network."""
    return [
        lab.Task.of(NAME, problem=problem, loss=loss, seed=seed, scale=scale)
        for problem, losses in LOSSES[scale].items()
        for loss in losses
        for seed in range(SEEDS[scale])
    ]


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Fit T alone and with γ, by calibration error and by log loss, and evaluate all of them."""
    found = trained(pool_recipe(task), folders)
    parts = folds(found.test_logits, found.test_labels)
    yield from scaling_numbers(parts, step=STEP[task["scale"]])


def scaling_numbers(parts: Sequence[Fold], *, step: int = 1) -> lab.Numbers:
    """Yield parameters and scores of TS and FTS, averaged over the folds.

    Args:
        parts: rows to fit on and rows to evaluate on.
        step: 1 for every temperature of the paper's grid, 20 for every twentieth.
    """
    methods: dict[str, list[Calibrator]] = {"raw": [Identity()] * len(parts)}
    for name, criterion in CRITERIA.items():
        reports = [_grid(part, criterion, step) for part in parts]
        alone = [_best_alone(report) for report in reports]
        both = [_best(report) for report in reports]
        methods[f"TS_{name}"], methods[f"FTS_{name}"] = [*alone], [*both]
        yield f"T, TS_{name}", float(np.mean([fit.temperature for fit in alone]))
        yield f"T, FTS_{name}", float(np.mean([fit.temperature for fit in both]))
        yield f"gamma, FTS_{name}", float(np.mean([fit.gamma for fit in both]))
        yield f"fits at the edge, FTS_{name}", float(sum(report.at_bound for report in reports))
        if name == "ECE":
            yield from _best_temperatures(reports)
    for name, calibrators in methods.items():
        yield from _scores(name, calibrators, parts)


def _grid(part: Fold, criterion: Criterion, step: int) -> FitReport:
    """Return the criterion on the paper's whole grid, in which γ = 0 is temperature scaling."""
    with quiet():
        found = fit_focal_temperature(
            part.fit_logits,
            part.fit_labels,
            criterion=criterion,
            temperatures=FINE_TEMPERATURES[::step],
            n_bins=N_BINS,
            whole_grid=True,
        )
    if found.report is None:
        raise ValueError("A fit on a grid must have a report, but has none.")
    return found.report


def _axes(report: FitReport) -> tuple[tuple[float, ...], tuple[float, ...], NDArray[np.float64]]:
    if report.gammas is None or report.temperatures is None or report.grid is None:
        raise ValueError("`report` must contain the grid of a full search, but has none.")
    return report.gammas, report.temperatures, report.grid


def _best(report: FitReport) -> FocalTemperatureScaling:
    gammas, temperatures, grid = _axes(report)
    g, t = np.unravel_index(int(grid.argmin()), grid.shape)
    return FocalTemperatureScaling(gammas[int(g)], temperatures[int(t)])


def _best_alone(report: FitReport) -> TemperatureScaling:
    gammas, temperatures, grid = _axes(report)
    return TemperatureScaling(temperatures[int(grid[gammas.index(0.0)].argmin())])


def _best_temperatures(reports: list[FitReport]) -> Iterator[tuple[str, float, float]]:
    """Yield the best T at each γ, the mean of the halves; none if one is at the grid's end."""
    gammas, temperatures, _ = _axes(reports[0])
    at = np.array([_axes(report)[2].argmin(axis=1) for report in reports])
    is_inside = np.all((at > 0) & (at < len(temperatures) - 1), axis=0)
    best = np.array(temperatures)[at].mean(axis=0)
    for gamma, temperature, inside in zip(gammas, best, is_inside, strict=True):
        if inside:
            yield "best T", float(temperature), gamma


def _scores(
    name: str, calibrators: list[Calibrator], parts: Sequence[Fold]
) -> Iterator[tuple[str, float]]:
    scores = []
    for calibrator, part in zip(calibrators, parts, strict=True):
        log_probs = np.asarray(calibrator.log_probs(part.logits))
        probs = np.exp(log_probs)
        scores.append(
            (
                adaptive_ece(probs, part.labels, n_bins=N_BINS),
                ece(probs, part.labels, n_bins=N_BINS),
                nll(labels=part.labels, log_probs=log_probs),
                float(np.mean(log_probs.argmax(axis=1) != part.labels)),
            )
        )
    names = ("adaece", "ece", "nll", "error")
    for metric, value in zip(names, np.mean(scores, axis=0), strict=True):
        yield f"{metric}, {name}", float(value)


EXPERIMENT = lab.Experiment.of(__name__, tables=(tables,), charts=(charts,), network=pool_recipe)
