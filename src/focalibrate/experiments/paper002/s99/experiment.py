"""How many predictions stay confident after temperature scaling."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Identity
from focalibrate.experiments.engine.conclude import concluding, plainly
from focalibrate.experiments.engine.experiment import (
    Covered,
    Experiment,
    Folders,
    Numbers,
    Rows,
    Scale,
    Table,
    Task,
)
from focalibrate.experiments.engine.verdict import mean_interval
from focalibrate.experiments.networks.halves import HALVES_NOTE, cross_fitted
from focalibrate.experiments.networks.pool import (
    SET_NAMES,
    SMALLEST,
    UNPUBLISHED,
    describe_network,
    losses_in,
    network_name,
    pool_recipe,
    pool_tasks,
    problems_in,
    spread_text,
)
from focalibrate.experiments.networks.recipes import SHOWN, Problem
from focalibrate.experiments.networks.trained import trained
from focalibrate.experiments.paper002.s99.claims import (
    METRICS,
    PAPER_VALUES,
    claims,
    finding,
)
from focalibrate.metrics import confident_fraction
from focalibrate.report.charts import Chart, Panel, Series

NAME = "s99"
PROBLEMS: tuple[Problem, ...] = ("cifar10", "fashion_mnist")
LOSSES = ("ce", "mmce", "fl3", "flsd53")


def tasks(scale: Scale) -> list[Task]:
    """Return one task per network."""
    return pool_tasks(NAME, scale, problems=PROBLEMS, losses=LOSSES)


def run(task: Task, folders: Folders) -> Numbers:
    """Return the confident share of the network's test rows before and after T."""
    found = trained(pool_recipe(task), folders)
    return list(confident_numbers(found.test_logits, found.test_labels))


def confident_numbers(
    logits: NDArray[np.float32], labels: NDArray[np.int64]
) -> Iterator[tuple[str, float]]:
    """Yield S99 and its accuracy in percent; no accuracy if S99 is empty."""
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


def confident_table(rows: Rows, problem: Problem) -> Table:
    """Return the confident share and its accuracy beside the paper's Table 6."""
    has_paper = problem not in UNPUBLISHED
    head = ["loss", "T"]
    for metric in METRICS:
        head += [metric, *(f"paper, {network}" for network in PAPER_VALUES if has_paper)]
    body = []
    for loss in losses_in(rows, problem):
        recipe = network_name(problem, loss)
        cells = [SHOWN[loss], spread_text(rows, recipe, "T")]
        for place, metric in enumerate(METRICS):
            cells.append(spread_text(rows, recipe, metric))
            if has_paper:
                cells += [
                    f"{t[loss][place]:g}" if loss in t else "–" for t in PAPER_VALUES.values()
                ]
        body.append(tuple(cells))
    return Table(
        f"{SET_NAMES[problem]}: test rows with confidence of at least 0.99",
        tuple(head),
        tuple(body),
        "Mean ± standard deviation over the seeds that have such rows."
        + (
            ' The paper prints one row for "Focal Loss"; it is shown beside FLSD-53, which its '
            "Section 6 is about."
            if has_paper
            else ""
        ),
    )


def _chart(rows: Rows) -> Chart:
    panels = []
    for problem in problems_in(rows):
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
        "Fraction of the test rows predicted with a confidence of at least 0.99, before and "
        "after temperature scaling; bars are 95 % confidence intervals over the seeds."
    )
    return Chart("s99", caption, panels, columns=2)


conclude = concluding(
    NAME,
    plainly,
    claims=claims,
    tables=lambda rows: [confident_table(rows, problem) for problem in problems_in(rows)],
    charts=lambda rows: [_chart(rows)],
    finding=finding,
)


EXPERIMENT = Experiment(
    name=NAME,
    code="E8",
    source="Paper 002, Table 6",
    title="Confident predictions before and after temperature scaling",
    protocol=(
        "The fraction of the test rows predicted with a confidence of at least 0.99, and how "
        "many of them are right, before and after temperature scaling with the T that minimises "
        "ECE. (The paper's text says 'at least', the caption of its table 'higher than'.) "
        f"{HALVES_NOTE}"
    ),
    smaller={
        "smallest": SMALLEST,
        "reduced": (
            "CIFAR-10: ResNet-8 on 10,000 images without augmentation for 24 epochs, instead of "
            "ResNet-50 and -110 on 45,000 for 350, without MMCE. Fashion-MNIST (not in the "
            "paper): an MLP of two hidden layers on 9,000 images. Three seeds. These networks "
            "have a far higher error rate than the paper's 5 %, so fewer rows are confident with "
            "any loss, and the paper's fractions cannot be checked, only which loss has more."
        ),
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe_network,
    conclude=conclude,
    network=pool_recipe,
    coverage={
        "reduced": (
            Covered("data", "CIFAR-10 (45,000 images)", "10,000 images of CIFAR-10"),
            Covered("data of ours", "–", "9,000 images of Fashion-MNIST"),
            Covered("networks", "ResNet-50, ResNet-110", "ResNet-8; an MLP on Fashion-MNIST"),
            Covered("losses", "CE, MMCE, focal", "CE, FL-3, FLSD-53; MMCE on Fashion-MNIST"),
            Covered("epochs", "350", "24; 40 on Fashion-MNIST"),
            Covered("seeds", "1", "3"),
        ),
    },
    changed_rules=(
        "Rules changed after the results were seen: intervals of accuracies on few confident "
        "rows include the sampling error of those rows; a claim can be undecided; Fashion-MNIST "
        "is a question of our own."
    ),
    packages=("numpy", "scipy", "torch"),
)
