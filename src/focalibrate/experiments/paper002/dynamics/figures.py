"""Figures 1 to 4 of paper 002, and a table of the end of training."""

from collections.abc import Iterator, Sequence

import numpy as np

from focalibrate.experiments.engine.experiment import Rows, Table
from focalibrate.experiments.networks.pool import (
    SET_NAMES,
    losses_in,
    network_name,
    problems_in,
    spread_text,
)
from focalibrate.experiments.networks.recipes import SHOWN, Problem
from focalibrate.report.charts import Chart, Panel, Series
from focalibrate.theory import phi

_COMPARED = {
    "validation nll": "NLL",
    "validation nll_correct": "NLL, right predictions",
    "validation nll_incorrect": "NLL, wrong predictions",
    "validation entropy_incorrect": "entropy, wrong predictions",
    "validation p_true_correct": "p of the true class, right",
    "validation p_true_incorrect": "p of the true class, wrong",
    "validation ece": "ECE",
    "weight norm": "norm of the last layer's weights",
}
CURVES_OF_ALL = tuple(_COMPARED)
CURVES_OF_CE = (
    *CURVES_OF_ALL,
    "validation entropy_correct",
    "validation error",
    "train nll",
    "train error",
)
"""What Figure 1 also shows."""
BRIEF = (
    "validation nll_incorrect",
    "validation p_true_incorrect",
    "validation ece",
    "weight norm",
)
"""What is drawn for the data sets after the first."""
IN_FIGURE_4 = ("ce", "fl1", "fl3", "flsd53")
_END = {
    "train error": "train error",
    "test error": "test error",
    "test ece": "ECE",
    "test nll": "NLL",
    "test nll_incorrect": "NLL, wrong",
    "test entropy_incorrect": "entropy, wrong",
    "test p_true_incorrect": "p true, wrong",
    "test p_true_correct": "p true, right",
    "weight norm before the drop": "‖W‖ before the drop",
    "weight norm": "‖W‖",
    "log10 gradient norm, first look": "log10 gradient, first look",
    "log10 gradient norm, last look": "log10 gradient, last look",
}


def end_table(rows: Rows) -> Iterator[Table]:
    """Yield one table per data set with the figures at the end of training."""
    for problem in problems_in(rows):
        body = []
        for loss in losses_in(rows, problem):
            recipe = network_name(problem, loss)
            cells = (spread_text(rows, recipe, metric, digits=3) for metric in _END)
            body.append((SHOWN[loss], *cells))
        yield Table(
            f"{SET_NAMES[problem]}: the end of training",
            ("loss", *_END.values()),
            tuple(body),
            "Mean ± standard deviation over the seeds; fractions and nats. Gradients are medians "
            "over training examples; all other columns are for the test examples unless they say "
            "otherwise.",
        )


def charts(rows: Rows) -> Iterator[Chart]:
    """Yield the paper's four figures for the first set, and its third for the others."""
    problems = problems_in(rows)
    yield _figure_1(rows, problems[0])
    yield _figure_2(rows, problems[0])
    yield _figure_3(rows, problems[0], CURVES_OF_ALL)
    for problem in problems[1:]:
        yield _figure_3(rows, problem, BRIEF)
    yield _figure_4(rows, problems[0])


def _curve(rows: Rows, problem: Problem, loss: str, metric: str, label: str) -> Series:
    x, y = rows.curve(network_name(problem, loss), metric)
    return Series(x, y, label=label)


def _figure_1(rows: Rows, problem: Problem) -> Chart:
    def panel(title: str, y_label: str, metrics: dict[str, str]) -> Panel:
        series = [_curve(rows, problem, "ce", m, label) for m, label in metrics.items()]
        return Panel(title, "epoch", y_label, series)

    return Chart(
        "figure-1",
        f"Paper 002, Figure 1, here on {SET_NAMES[problem]}: a network trained with CE. Mean "
        "over the seeds, on the validation examples unless marked train.",
        [
            panel(
                "NLL",
                "nats",
                {
                    "train nll": "train",
                    "validation nll": "all",
                    "validation nll_correct": "right",
                    "validation nll_incorrect": "wrong",
                },
            ),
            panel(
                "Entropy",
                "nats",
                {
                    "validation entropy_correct": "right",
                    "validation entropy_incorrect": "wrong",
                },
            ),
            panel(
                "Error and ECE",
                "share",
                {
                    "train error": "train error",
                    "validation error": "error",
                    "validation ece": "ECE",
                },
            ),
        ],
    )


def _figure_2(rows: Rows, problem: Problem) -> Chart:
    recipe = network_name(problem, "ce")
    panels = []
    for i in range(1, 5):
        x, accuracy = rows.curve(recipe, f"accuracy of bin, look {i}")
        at, share = rows.curve(recipe, f"share of bin, look {i}")
        epoch = rows.values(recipe, f"epoch of look {i}")[0]
        panels.append(
            Panel(
                f"After epoch {epoch:.0f}",
                "confidence",
                "share",
                [
                    Series([0.0, 1.0], [0.0, 1.0], style="dashed", color=6),
                    Series(x, accuracy, label="accuracy", style="line and points", color=0),
                    Series(at, share, label="examples", style="line", color=1),
                ],
            )
        )
    return Chart(
        "figure-2",
        f"Paper 002, Figure 2, here on {SET_NAMES[problem]}: accuracy on the training examples "
        "by confidence (15 bins), and the fraction of them in each bin, during training with CE. "
        "Mean over the seeds.",
        panels,
        columns=4,
    )


def _figure_3(rows: Rows, problem: Problem, curves: Sequence[str]) -> Chart:
    losses = losses_in(rows, problem)
    panels = []
    for metric in curves:
        labels = {x: SHOWN[x] if metric == curves[0] else "" for x in losses}
        series = [_curve(rows, problem, x, metric, labels[x]) for x in losses]
        panels.append(Panel(_COMPARED[metric], "epoch", "", series))
    return Chart(
        f"figure-3-{problem.replace('_', '-')}",
        f"Paper 002, Figure 3, here on the validation examples of {SET_NAMES[problem]}; the "
        "first panel has the legend. Mean over the seeds.",
        panels,
        columns=4,
    )


def _figure_4(rows: Rows, problem: Problem) -> Chart:
    p = np.linspace(0.0, 1.0, 201)
    gammas = (0.0, 1.0, 2.0, 3.0, 7.0)
    factor = [Series(p, phi(p, gamma=g), label=f"γ = {g:g}") for g in gammas]
    panels = [Panel("Factor φ of the gradient", "p", "φ", factor)]
    losses = [x for x in losses_in(rows, problem) if x in IN_FIGURE_4]
    panels += [_histogram(rows, problem, losses, when) for when in ("early", "middle", "late")]
    return Chart(
        "figure-4",
        f"Paper 002, Figure 4, here on {SET_NAMES[problem]}: the factor by which focal loss "
        "changes the gradient of CE, and the distribution of the norm of the last layer's "
        "gradient over training examples. Mean over the seeds; norms beyond the ends are counted "
        "there.",
        panels,
        columns=4,
    )


def _histogram(rows: Rows, problem: Problem, losses: Sequence[str], when: str) -> Panel:
    series = [_curve(rows, problem, x, f"gradients, {when}", SHOWN[x]) for x in losses]
    epoch = rows.values(network_name(problem, losses[0]), f"epoch of gradients, {when}")[0]
    return Panel(f"After epoch {epoch:.0f}", "log10 of the gradient norm", "share", series)
