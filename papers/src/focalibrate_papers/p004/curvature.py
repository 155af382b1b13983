"""Curvature of the loss, calibration, and the exponent of focal training (E11)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Identity
from focalibrate.curvature import hutchinson_trace, lambda_max
from focalibrate.metrics import ece
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.networks import (
    GAMMA,
    SET_NAMES,
    UNPUBLISHED,
    Problem,
    by_problem,
    losses_in,
    pool_recipe,
    trained,
)

if TYPE_CHECKING:
    from focalibrate.nn import HessianOperator
    from focalibrate_papers.datasets import Dataset

LOSSES: Mapping[lab.Scale, Mapping[Problem, tuple[str, ...]]] = {
    "smallest": {"cifar10": ("ce", "fl1", "fl3")},
    "reduced": {
        "cifar10": ("ce", "fl1", "fl2", "fl3"),
        "fashion_mnist": ("ce", "fl1", "fl2", "fl3", "fl5", "fl7"),
    },
    "full": {
        "cifar10": ("ce", "fl1", "fl2", "fl3", "fl5", "fl7"),
        "fashion_mnist": ("ce", "fl1", "fl2", "fl3", "fl5", "fl7"),
    },
}
SEEDS: Mapping[lab.Scale, int] = {"smallest": 2, "reduced": 3, "full": 3}
N_RESAMPLES = 300


def gammas_in(rows: lab.Rows) -> NDArray[np.float64]:
    """Return the exponents of the networks, in ascending order."""
    return np.array([GAMMA[loss] for loss in losses_in(rows)])


def table(rows: lab.Rows, metric: str) -> NDArray[np.float64]:
    """Return a number by exponent and seed, ``[gammas, seeds]``; calibration in percent."""
    unit = 100.0 if metric.startswith(("ece", "error")) else 1.0
    return unit * np.array([rows.values(metric, loss=loss) for loss in losses_in(rows)])


@dataclass(frozen=True, eq=False)
class Cubic:
    """A cubic curve of calibration error against trace."""

    trace: NDArray[np.float64]
    """``[N]``, in ascending order"""
    weights: NDArray[np.float64]
    """of the powers 3 to 0 of the trace, as a share of its range, from its mean"""
    r2: float

    def at(self, trace: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of the curve."""
        heights: NDArray[np.float64] = _powers(trace, self.trace) @ self.weights
        return heights

    @property
    def depth(self) -> float:
        """How far the minimum, where there are points, is below the lower end."""
        height = self.at(self.trace)
        return float(min(height[0], height[-1]) - height.min())

    @property
    def best(self) -> float:
        """The measured trace at which the curve is lowest."""
        return float(self.trace[self.at(self.trace).argmin()])


def fit_cubic(trace: NDArray[np.float64], ece: NDArray[np.float64]) -> Cubic:
    """Return the least-squares cubic, whose depth is measured where there are points.

    Between two clusters of points a cubic may deviate far from both: a minimum there would be an
    artefact of the fit.

    Example:
        >>> x = np.linspace(0.0, 4.0, 9)
        >>> found = fit_cubic(x, (x - 1.0) ** 2)
        >>> found.best, round(found.depth, 6)
        (1.0, 1.0)
    """
    order = np.argsort(trace, kind="stable")
    x, y = trace[order], ece[order]
    powers = _powers(x, x)
    weights = np.linalg.lstsq(powers, y, rcond=None)[0].astype(np.float64)
    rest, total = float(((y - powers @ weights) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
    return Cubic(x, weights, 1.0 - rest / total if total > 0 else 1.0)


def _powers(x: NDArray[np.float64], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.vander((x - seen.mean()) / (float(np.ptp(seen)) or 1.0), 4)


def resampled(
    trace: NDArray[np.float64], ece: NDArray[np.float64]
) -> tuple[lab.Interval, lab.Interval, Cubic]:
    """Return depth and best trace, with percentile intervals over the networks, and the curve."""
    whole, rng = fit_cubic(trace, ece), np.random.default_rng(0)
    picks = (rng.integers(len(trace), size=len(trace)) for _ in range(N_RESAMPLES))
    fits = [fit_cubic(trace[pick], ece[pick]) for pick in picks]
    depth = _spread(whole.depth, [fit.depth for fit in fits])
    return depth, _spread(whole.best, [fit.best for fit in fits]), whole


def _spread(estimate: float, resamples: list[float]) -> lab.Interval:
    low, high = np.quantile(resamples, (0.025, 0.975))
    return lab.Interval(estimate, float(low), float(high))


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


def score_table(rows: lab.Rows) -> lab.Table:
    """Return curvature and calibration per exponent."""
    body = []
    for problem, own in by_problem(rows).items():
        columns = [(table(own, metric), digits) for _, metric, digits in _COLUMNS]
        for place, gamma in enumerate(gammas_in(own)):
            cells = [lab.spread(numbers[place], digits) for numbers, digits in columns]
            body.append((SET_NAMES[problem], f"{gamma:g}", *cells))
    return lab.Table(
        "Mean and standard deviation over seeds",
        ("data", "γ", *(head for head, _, _ in _COLUMNS)),
        tuple(body),
        "ECE with 15 bins on all test rows; beside it, ECE on the validation rows, which are few.",
    )


def charts(rows: lab.Rows) -> Iterator[Chart]:
    """Yield Fig. 2 and Fig. 3."""
    yield Chart(
        "figure-2",
        "The largest eigenvalue and the trace of the Hessian of the validation loss, and ECE, "
        "against the γ of training, as in Fig. 2: mean, smallest and largest value over the "
        "seeds.",
        [panel for p, own in by_problem(rows).items() for panel in _against_gamma(own, p)],
    )
    yield Chart(
        "figure-3",
        "ECE against the trace of the Hessian of the validation loss, one point per network, "
        "with the least-squares cubic, as in Fig. 3.",
        [_against_trace(own, p) for p, own in by_problem(rows).items()],
        columns=2,
    )


def _against_gamma(rows: lab.Rows, problem: Problem) -> Iterator[Panel]:
    name = SET_NAMES[problem]
    for metric, label in (("lambda_max", "λ_max(H_val)"), ("trace", "Tr(H_val)")):
        series = [
            Series.over_seeds(gammas_in(rows), table(rows, f"{metric}, {of}"), f"of {what}")
            for of, what in OF_LOSS.items()
        ]
        is_positive = all(np.min(s.low) > 0 for s in series if s.low is not None)
        yield Panel(name, "γ", label, series, log_y=is_positive)
    ece = Series.over_seeds(gammas_in(rows), table(rows, "ece"))
    yield Panel(name, "γ", "ECE, %", [ece])


def _against_trace(rows: lab.Rows, problem: Problem) -> Panel:
    trace, ece = table(rows, "trace, own"), table(rows, "ece")
    series = [
        Series(trace[i], ece[i], f"γ = {gamma:g}", "points")
        for i, gamma in enumerate(gammas_in(rows))
    ]
    curve = fit_cubic(trace.ravel(), ece.ravel())
    x = np.linspace(trace.min(), trace.max(), 101)
    series.append(Series(x, curve.at(x), "cubic", color=7))
    return Panel(SET_NAMES[problem], "Tr(H_val) of the training loss", "ECE, %", series)


DEEP = 0.5
"""Points of ECE by which a minimum must be below both ends; the paper gives no number."""
OF_LOSS = {"own": "the training loss", "ce": "cross-entropy"}
_FALLS = (
    'Fig. 2, on CIFAR-100: "For all architectures, λ_max(H_val) monotonically decreases with '
    'increasing γ"; not said of which loss'
)


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield the results of every set that was run."""
    for problem, own in by_problem(rows).items():
        yield _falls(own, problem, "lambda_max", "own")
        yield _monotonic(own, problem)
        yield _falls(own, problem, "lambda_max", "ce")
        for of in OF_LOSS:
            yield _falls(own, problem, "trace", of)
        yield _same_weights(own, problem)
        yield _best_gamma_inside(own, problem)
        yield _best_trace_inside(own, problem)


def finding(rows: lab.Rows) -> str:
    """Return the main result: how λ_max of the focal loss and of cross-entropy depend on γ."""
    parts = []
    for of, name in OF_LOSS.items():
        trends = [_trend(own, problem, of) for problem, own in by_problem(rows).items()]
        first, *more = [f"{verb} {where}" for verb, where in trends]
        if len({verb for verb, _ in trends}) == 1:
            more = [where for _, where in trends[1:]]
        parts.append(f"λ_max of {name} {' and '.join([first, *more])}")
    return (
        f"As the γ of training grows, {'; '.join(parts)} (both losses at the same trained "
        "weights; rank correlation ρ with its 95 % confidence interval)."
    )


def _trend(rows: lab.Rows, problem: Problem, of: str) -> tuple[str, str]:
    """Return whether λ_max falls or rises with γ, and where, with the correlation."""
    ours = lab.rank_correlation_interval(gammas_in(rows), table(rows, f"lambda_max, {of}"))
    verb = "falls" if ours.high < 0 else "rises" if ours.low > 0 else "shows no clear trend"
    number = f"ρ = {ours.estimate:.2f} [{ours.low:.2f}, {ours.high:.2f}]"
    return verb, f"on {SET_NAMES[problem]} ({number})"


def _is_papers(problem: Problem) -> bool:
    return problem not in UNPUBLISHED


def _falls(rows: lab.Rows, problem: Problem, metric: str, of: str) -> lab.ClaimResult:
    numbers, gammas = table(rows, f"{metric}, {of}"), gammas_in(rows)
    name = {"lambda_max": "λ_max(H_val)", "trace": "Tr(H_val)"}[metric]
    means = ", ".join(f"{mean:.3g}" for mean in numbers.mean(axis=1))
    is_stated = metric == "lambda_max"
    return lab.judged(
        "curvature/falls",
        lab.rank_correlation_interval(gammas, numbers),
        claim=f"{name} of {OF_LOSS[of]} falls with the γ of training: {SET_NAMES[problem]}",
        paper_value=_FALLS if is_stated else "Fig. 3 shows ECE against it; no trend is stated",
        is_papers=is_stated and _is_papers(problem),
        note=f"Means at γ = {', '.join(f'{g:g}' for g in gammas)}: {means}.",
    )


def _monotonic(rows: lab.Rows, problem: Problem) -> lab.ClaimResult:
    logs = np.log(table(rows, "lambda_max, own"))
    steps = [lab.mean_interval(step) for step in np.diff(logs, axis=0)]
    worst = max(steps, key=lambda step: step.high)
    return lab.judged(
        "curvature/every-step",
        worst,
        data=SET_NAMES[problem],
        is_papers=_is_papers(problem),
        note=f"The mean falls at {sum(s.estimate < 0 for s in steps)} of {len(steps)} steps.",
    )


def _same_weights(rows: lab.Rows, problem: Problem) -> lab.ClaimResult:
    own, plain = (table(rows, f"lambda_max, {of}")[1:] for of in OF_LOSS)
    ratio = own / plain
    return lab.judged(
        "curvature/same-weights",
        np.log(ratio).mean(axis=0),
        data=SET_NAMES[problem],
        least=ratio.min(),
        most=ratio.max(),
    )


def _best_gamma_inside(rows: lab.Rows, problem: Problem) -> lab.ClaimResult:
    ece, gammas = table(rows, "ece"), gammas_in(rows)
    best = gammas[ece.mean(axis=1).argmin()]
    return lab.judged(
        "curvature/best-gamma",
        ece[1:-1].min(axis=0) - ece[[0, -1]].min(axis=0),
        data=SET_NAMES[problem],
        best=best,
        largest=gammas[-1],
        is_papers=_is_papers(problem),
    )


def _best_trace_inside(rows: lab.Rows, problem: Problem) -> lab.ClaimResult:
    trace, ece = (table(rows, m).ravel() for m in ("trace, own", "ece"))
    depth, best, curve = resampled(trace, ece)
    return lab.judged(
        "curvature/best-trace",
        depth,
        data=SET_NAMES[problem],
        bound=DEEP,
        is_papers=_is_papers(problem),
        note=f"Lowest at Tr = {lab.show_interval(best)} of {trace.min():.3g} to "
        f"{trace.max():.3g}; the cubic explains {100 * curve.r2:.0f} % of the variance.",
    )


NAME = "curvature"
N_BINS = 15
TOLERANCE = 1e-2
"""Relative residual of the largest eigenvalue; its error is about the square."""
EFFORT: Mapping[lab.Scale, Mapping[Problem, tuple[int, int]]] = {
    "smallest": {"cifar10": (256, 10)},
    "reduced": {"cifar10": (256, 10), "fashion_mnist": (1024, 30)},
    "full": {"cifar10": (5000, 100), "fashion_mnist": (5000, 100)},
}
"""Validation examples of the Hessian, and random vectors of its trace."""


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one run per network."""
    return [
        lab.Task.of(
            NAME,
            problem=problem,
            loss=loss,
            seed=seed,
            scale=scale,
            n_examples=EFFORT[scale][problem][0],
            n_vectors=EFFORT[scale][problem][1],
        )
        for problem, losses in LOSSES[scale].items()
        for loss in losses
        for seed in range(SEEDS[scale])
    ]


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Measure one network: the Hessian of its own loss and of cross-entropy, and calibration."""
    from focalibrate_papers.train import load_dataset

    recipe = pool_recipe(task)
    found = trained(recipe, folders)
    yield from curvature_numbers(
        found.folder,
        load_dataset(recipe, data=folders.data),
        loss=task["loss"],
        n_examples=task["n_examples"],
        n_vectors=task["n_vectors"],
    )
    identity = Identity()
    for name, logits, labels in (
        ("ece", found.test_logits, found.test_labels),
        ("ece, validation", found.validation_logits, found.validation_labels),
    ):
        yield name, ece(identity.probs(logits.astype(np.float64)), labels, n_bins=N_BINS)
    yield "error", float(np.mean(found.test_logits.argmax(axis=1) != found.test_labels))


def curvature_numbers(
    folder: Path, dataset: "Dataset", *, loss: str, n_examples: int, n_vectors: int
) -> Iterator[tuple[str, float]]:
    """Yield trace and largest eigenvalue of a network's own loss, and of cross-entropy."""
    from focalibrate_papers.train import run_hessian

    for of, gamma in (("own", None), ("ce", 0.0)):
        if of == "own" or GAMMA[loss] != 0:
            hessian = run_hessian(folder, dataset=dataset, max_examples=n_examples, gamma=gamma)
            numbers = _curvature(hessian, n_vectors=n_vectors)
        for metric, value in numbers.items():
            yield f"{metric}, {of}", value


def _curvature(hessian: "HessianOperator", *, n_vectors: int) -> dict[str, float]:
    """Return trace and largest eigenvalue, with the same random vectors for every network."""
    trace = hutchinson_trace(hessian.matvec, hessian.size, n_vectors=n_vectors)
    top = lambda_max(hessian.matvec, hessian.size, tolerance=TOLERANCE)
    return {
        "trace": trace.value,
        "trace error": trace.standard_error,
        "lambda_max": top.value,
        "residual": top.residual,
    }


EXPERIMENT = lab.Experiment.of(
    __name__, tables=(score_table,), charts=(charts,), network=pool_recipe
)
