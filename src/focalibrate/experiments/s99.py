"""How many predictions stay confident after temperature scaling (E8)."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Identity
from focalibrate.experiments._halves import HALVES_NOTE, cross_fitted
from focalibrate.experiments._pool import (
    SET_NAMES,
    SMALLEST,
    UNPUBLISHED,
    describe_network,
    difference,
    judged,
    losses_in,
    network_name,
    pool_recipe,
    pool_tasks,
    problems_in,
    spread_text,
)
from focalibrate.experiments.experiment import (
    Conclusion,
    Experiment,
    Numbers,
    Places,
    Rows,
    Scale,
    Table,
    Task,
)
from focalibrate.experiments.networks import SHOWN, Problem
from focalibrate.experiments.trained import trained
from focalibrate.experiments.verdict import Line, judge_number, mean_interval
from focalibrate.metrics import confident_fraction
from focalibrate.report.charts import Chart, Panel, Series

NAME = "s99"
PROBLEMS: tuple[Problem, ...] = ("cifar10", "fashion_mnist")
LOSSES = ("ce", "mmce", "fl3", "flsd53")
FOCAL = ("flsd53", "fl3")
TOLERANCE = 5.0
"""Points within which a share of the paper counts as found again."""
METRICS = ("S99 %", "accuracy on S99 %", "S99 % after T", "accuracy on S99 % after T")
PAPER: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "ResNet-50": {
        "ce": (95.93, 96.72, 7.33, 99.73),
        "mmce": (92.33, 98.24, 4.21, 100.0),
        "flsd53": (46.31, 99.57, 14.27, 99.93),
    },
    "ResNet-110": {
        "ce": (97.11, 96.33, 11.5, 97.39),
        "mmce": (97.65, 96.72, 10.62, 99.83),
        "flsd53": (61.41, 99.51, 31.10, 99.68),
    },
}
"""Table 6, CIFAR-10, in the order of `METRICS`; the paper writes "Focal Loss" without a γ."""


def tasks(scale: Scale) -> list[Task]:
    """Return a task for each network."""
    return pool_tasks(NAME, scale, problems=PROBLEMS, losses=LOSSES)


def run(task: Task, places: Places) -> Numbers:
    """Return the confident share of the network's test rows before and after T."""
    found = trained(pool_recipe(task), places)
    return list(confident_numbers(found.test_logits, found.test_labels))


def confident_numbers(
    logits: NDArray[np.float32], labels: NDArray[np.int64]
) -> Iterator[tuple[str, float]]:
    """Yield S99 and its accuracy in percent; no accuracy where S99 is empty."""
    raw = np.asarray(Identity().log_probs(logits.astype(np.float64)))
    halves = cross_fitted(logits, labels)
    scaled = np.concatenate([half.log_probs() for half in halves])
    parts = (
        ("", raw, labels),
        (" after T", scaled, np.concatenate([half.labels for half in halves])),
    )
    for suffix, log_probs, y in parts:
        found = confident_fraction(np.exp(log_probs), y, threshold=0.99)
        yield f"S99 %{suffix}", 100 * found.fraction
        if found.fraction > 0:
            yield f"accuracy on S99 %{suffix}", 100 * found.accuracy
    yield "T", float(np.mean([half.temperature for half in halves]))


def conclude(rows: Rows, scale: Scale) -> Conclusion:
    """Return verdicts, Table 6 beside ours, and a picture of it."""
    is_full, problems = EXPERIMENT.is_full(scale), problems_in(rows)
    lines = [line for p in problems for line in _of_set(rows, p, is_full=is_full)]
    lines += _numbers(rows, is_full=is_full)
    tables = tuple(_table(rows, problem) for problem in problems)
    return Conclusion(tuple(lines), tables, (_chart(rows, problems),))


def _of_set(rows: Rows, problem: Problem, *, is_full: bool) -> Iterator[Line]:
    for loss in FOCAL:
        for other in ("ce", "mmce"):
            for metric, below in ((METRICS[0], True), (METRICS[2], False), (METRICS[1], False)):
                ours = difference(
                    rows, network_name(problem, loss), network_name(problem, other), metric
                )
                if ours is None:
                    continue
                than = f"has a {'lower' if below else 'higher'} {metric} than {SHOWN[other]}"
                yield judged(
                    ours,
                    claim=f"{SET_NAMES[problem]}: {SHOWN[loss]} {than}",
                    what=f"{SHOWN[loss]} less {SHOWN[other]}, paired",
                    paper=_paper_words(problem, other, METRICS.index(metric)),
                    unit="points",
                    below=below,
                    is_full=is_full and problem not in UNPUBLISHED,
                )


def _paper_words(problem: Problem, other: str, place: int) -> str:
    if problem in UNPUBLISHED:
        return "the paper does not have this set"
    return ", ".join(
        f"{table['flsd53'][place]:g} against {table[other][place]:g} ({network})"
        for network, table in PAPER.items()
    )


def _numbers(rows: Rows, *, is_full: bool) -> Iterator[Line]:
    """Yield the shares the paper prints for ResNet-50, the network of full size."""
    for loss, numbers in PAPER["ResNet-50"].items():
        for place in (0, 2):
            values = rows.values(network_name("cifar10", loss), METRICS[place])
            if values.size == 0:
                continue
            ours, paper = mean_interval(values), numbers[place]
            yield Line(
                claim=f"CIFAR-10: {METRICS[place]} of {SHOWN[loss]}",
                rule=(
                    f"mean over seeds within {TOLERANCE:g} points of the paper's number, or the "
                    "95 % interval holds it; at full size only"
                ),
                paper=f"{paper:g} % (ResNet-50, Tab 6)",
                ours=ours,
                unit="% of the test rows",
                standing=judge_number(ours, paper, tolerance=TOLERANCE, is_full=is_full),
            )


def _table(rows: Rows, problem: Problem) -> Table:
    has_paper = problem not in UNPUBLISHED
    head = ["loss", "T"]
    for metric in METRICS:
        head += [metric, *(f"paper, {network}" for network in PAPER if has_paper)]
    body = []
    for loss in losses_in(rows, problem):
        recipe = network_name(problem, loss)
        cells = [SHOWN[loss], spread_text(rows, recipe, "T")]
        for place, metric in enumerate(METRICS):
            cells.append(spread_text(rows, recipe, metric))
            if has_paper:
                cells += [f"{t[loss][place]:g}" if loss in t else "–" for t in PAPER.values()]
        body.append(tuple(cells))
    return Table(
        f"{SET_NAMES[problem]}: test rows with confidence of at least 0.99",
        tuple(head),
        tuple(body),
        "Mean ± standard deviation over the seeds that have such rows."
        + (
            ' The paper prints one row for "Focal Loss"; it stands beside FLSD-53, which its '
            "Section 6 is about."
            if has_paper
            else ""
        ),
    )


def _chart(rows: Rows, problems: list[Problem]) -> Chart:
    panels = []
    for problem in problems:
        losses = losses_in(rows, problem)
        series = []
        for metric in ("S99 %", "S99 % after T"):
            found = [mean_interval(rows.values(network_name(problem, x), metric)) for x in losses]
            series.append(
                Series(
                    [SHOWN[loss] for loss in losses],
                    [i.estimate for i in found],
                    label=metric,
                    style="points",
                    low=[i.low for i in found],
                    high=[i.high for i in found],
                )
            )
        panels.append(Panel(SET_NAMES[problem], "", "% of the test rows", series))
    caption = (
        "Share of the test rows predicted with a confidence of at least 0.99, before and after "
        "temperature scaling; bars are 95 % intervals over the seeds."
    )
    return Chart("s99", caption, panels, columns=2)


EXPERIMENT = Experiment(
    name=NAME,
    spec="E8",
    source="Paper 002, Table 6",
    title="Confident predictions before and after temperature scaling",
    protocol=(
        "The share of the test rows predicted with a confidence of at least 0.99, and how many of "
        "them are right, before and after temperature scaling with T of least ECE. (The paper's "
        "text has 'at least', the caption of its table 'higher than'.) "
        f"{HALVES_NOTE}"
    ),
    smaller={
        "smallest": SMALLEST,
        "reduced": (
            "CIFAR-10: ResNet-8 on 10,000 images without augmentation for 24 epochs, in place of "
            "ResNet-50 and -110 on 45,000 for 350, without MMCE. Fashion-MNIST (not in the "
            "paper): an MLP of two hidden layers on 9,000 images. Three seeds. These networks err "
            "far more often than the paper's 5 %, so fewer rows are confident whatever the loss, "
            "and the paper's shares cannot be checked, only which loss has more."
        ),
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe_network,
    conclude=conclude,
    needs_torch=True,
    needs_data=True,
    packages=("numpy", "scipy", "torch"),
)
