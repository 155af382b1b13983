"""A linear model on noisy labels: what cross-entropy and focal loss make of its weights."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from focalibrate.datasets import Dataset
from focalibrate.datasets.synthetic import square
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
from focalibrate.experiments.verdict import Interval, Line, judge_above, mean_interval
from focalibrate.metrics import ece
from focalibrate.report.charts import Chart, Panel, Series

if TYPE_CHECKING:
    from focalibrate.train import TrainedMember

_Float = NDArray[np.float64]

NAME = "linear"
RECIPE = "gradient descent"
LOSSES = {"CE": 0.0, "FL-1": 1.0}
STEPS = {"smallest": 120, "reduced": 5_000, "full": 5_000}
STEP_SIZE = 1.0
"""Ten times that of the recipes e7-*, so that 5,000 steps go as far as 50,000 of theirs."""
EXAMPLES = {"smallest": 200, "reduced": 2_000, "full": 2_000}
SEEDS = {"smallest": 3, "reduced": 10, "full": 10}
CONFIDENT = 0.9
EDGES = np.linspace(0.5, 1.0, 11)
"""Of the histogram of the confidence of mistakes."""
N_SHOWN = 300


def tasks(scale: Scale) -> Sequence[Task]:
    """Return a run for each seed, which draws the examples and the first weights."""
    return [
        Task.of(NAME, seed=seed, n=EXAMPLES[scale], steps=STEPS[scale])
        for seed in range(SEEDS[scale])
    ]


def describe(task: Task) -> tuple[str, int]:
    """Return the one recipe there is, and the seed."""
    return RECIPE, int(task["seed"])


def run(task: Task, places: Places) -> Numbers:
    """Train both losses side by side, and look at them after ever more steps.

    A step is a step of gradient descent on all examples, so that a run of fewer epochs is the
    beginning of a longer one.
    """
    del places
    dataset = _draw(task["seed"], task["n"])
    for steps in _looks(task["steps"]):
        copies = _train(dataset, task["seed"], steps)
        weights = {}
        for loss, copy in zip(LOSSES, copies, strict=True):
            w = copy.weights["last.weight"].double().numpy()
            weights[loss] = w[1] - w[0]
            z = copy.test_logits[:, 1].astype(np.float64) - copy.test_logits[:, 0]
            for metric, value in _figures(weights[loss], z, dataset.test.labels):
                yield f"{loss} {metric}", value, float(steps)
                if steps == task["steps"]:
                    yield f"{loss} {metric}", value
        if steps == task["steps"]:
            yield from _last_look(copies, weights, dataset.test.labels)


def _looks(steps: int) -> list[int]:
    """Return the numbers of steps after which to look: each about three times the one before."""
    n_looks = round(np.log(steps / 2) / np.log(3)) + 1
    return sorted({round(float(x)) for x in np.geomspace(2, steps, n_looks)})


def _draw(seed: int, n: int) -> Dataset:
    splits = [square(n, seed=[seed, part]) for part in range(3)]
    return Dataset("square_2d", splits[0], splits[1], splits[2], 2, ("left", "right"), "tabular")


def _train(dataset: Dataset, seed: int, steps: int) -> "list[TrainedMember]":
    from dataclasses import replace

    from focalibrate.train import train_many
    from focalibrate.train.named import SQUARE

    recipe = replace(SQUARE, epochs=steps, batch=len(dataset.train), lr=STEP_SIZE, seed=seed)
    return train_many(recipe, gammas=LOSSES.values(), dataset=dataset)


def _figures(w: _Float, z: _Float, labels: NDArray[np.int64]) -> Iterator[tuple[str, float]]:
    """Return what the paper draws; `w` and `z` are those of the class 1 less those of 0."""
    confidence, is_wrong = _confidence(z), (z > 0) != (labels == 1)
    yield "weight norm", float(np.linalg.norm(w))
    yield "logit norm", float(np.abs(z).mean())
    yield "error", float(is_wrong.mean())
    yield "confidence of mistakes", float(confidence[is_wrong].mean())
    yield "share of confident mistakes", float((confidence[is_wrong] > CONFIDENT).mean())
    yield "confidence", float(confidence.mean())


def _confidence(z: _Float) -> _Float:
    confidence: _Float = 1.0 / (1.0 + np.exp(-np.abs(z)))
    return confidence


def _last_look(
    copies: "Sequence[TrainedMember]", weights: dict[str, _Float], labels: NDArray[np.int64]
) -> Numbers:
    sides = []
    for loss, copy in zip(LOSSES, copies, strict=True):
        z = copy.test_logits[:, 1].astype(np.float64) - copy.test_logits[:, 0]
        confidence, sign = _confidence(z), z > 0
        sides.append(sign)
        probs = np.where(
            sign[:, None] == [False, True], confidence[:, None], 1 - confidence[:, None]
        )
        yield f"{loss} ECE", ece(probs, labels, n_bins=15)
        yield f"{loss} w1", float(weights[loss][0])
        yield f"{loss} w2", float(weights[loss][1])
        counts = np.histogram(confidence[sign != (labels == 1)], EDGES)[0]
        for middle, count in zip((EDGES[1:] + EDGES[:-1]) / 2, counts, strict=True):
            yield f"{loss} mistakes", float(count / counts.sum()), float(middle)
    a, b = (w / np.linalg.norm(w) for w in weights.values())
    yield "angle between weights", float(np.degrees(np.arccos(np.clip(a @ b, -1.0, 1.0))))
    yield "same prediction", float((sides[0] == sides[1]).mean())


def conclude(rows: Rows, scale: Scale) -> Conclusion:
    """Judge both of the paper's sentences on the weights, and the confidence of mistakes."""
    is_full = EXPERIMENT.is_full(scale)
    lines = (*_norm_lines(rows, is_full), *_mistake_lines(rows, is_full))
    return Conclusion(lines, (_table(rows),), (_figure_5(rows), _figure_6(rows)))


def _difference(rows: Rows, metric: str) -> Interval:
    """Return CE less FL-1, paired by the seed."""
    ce, fl = (rows.values(RECIPE, f"{loss} {metric}") for loss in LOSSES)
    return mean_interval(ce - fl)


def _norm_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    for metric, figure in (("weight norm", "Fig. 5b"), ("logit norm", "Fig. 5a")):
        gap = _difference(rows, metric)
        yield Line(
            f"The {metric} grows larger with CE than with focal loss",
            "CE less FL-1 after the last step, by seed: the whole interval above 0",
            f"App. G, {figure}: it blows up for CE as compared to FL",
            gap,
            f"{metric}, CE less FL-1",
            judge_above(gap, 0.0, is_full=is_full),
        )
    gap = _difference(rows, "weight norm")
    mirrored = Interval(-gap.estimate, -gap.high, -gap.low)
    yield Line(
        "The weight norm is much larger for focal loss",
        "FL-1 less CE after the last step, by seed: the whole interval above 0",
        "App. G, on mistakes: much larger for FL as compared to CE",
        mirrored,
        "weight norm, FL-1 less CE",
        judge_above(mirrored, 0.0, is_full=is_full),
        "Appendix G says both; its figure and its conclusion need the first sentence, so that "
        "the second is taken for a slip (SPEC X.6).",
    )


def _mistake_lines(rows: Rows, is_full: bool) -> Iterator[Line]:
    same = mean_interval(rows.values(RECIPE, "same prediction"))
    yield Line(
        "Both losses give the same decision regions",
        "both predict the same class for more than 99 % of test points: the whole interval",
        "App. G, Fig. 6b, c: the weight vectors point the same way",
        same,
        "share of test points",
        judge_above(same, 0.99, is_full=is_full),
        f"Angle between the weights: {rows.values(RECIPE, 'angle between weights').mean():.2f}°.",
    )
    gap = _difference(rows, "confidence of mistakes")
    yield Line(
        "Mistakes are made with more confidence by CE",
        "mean confidence of misclassified test points, CE less FL-1: the whole interval above 0",
        "App. G, Fig. 6a: FL much lower",
        gap,
        "CE less FL-1",
        judge_above(gap, 0.0, is_full=is_full),
    )
    share = mean_interval(rows.values(RECIPE, "CE share of confident mistakes"))
    other = rows.values(RECIPE, "FL-1 share of confident mistakes").mean()
    yield Line(
        "CE misclassifies almost always with a confidence above 90 %",
        "more than 90 % of the misclassified test points: the whole interval",
        "App. G, Fig. 6a: almost always",
        share,
        f"of CE's mistakes; of FL-1's {other:.3f}",
        judge_above(share, 0.9, is_full=is_full),
        "With one label in ten flipped, nobody is right more than nine times in ten: confidence "
        "above 90 % nearly everywhere would be overconfidence, for which two weights leave little "
        "room. The paper does not print how far its clusters spread.",
    )


def _table(rows: Rows) -> Table:
    metrics = (
        "weight norm",
        "logit norm",
        "error",
        "confidence",
        "confidence of mistakes",
        "share of confident mistakes",
        "ECE",
    )

    def cell(loss: str, metric: str) -> str:
        found = mean_interval(rows.values(RECIPE, f"{loss} {metric}"))
        return f"{found.estimate:.4f} [{found.low:.4f}, {found.high:.4f}]"

    at, norm = rows.curve(RECIPE, "CE weight norm")
    grown = norm[-1] / norm[-2] - 1.0
    return Table(
        "After the last step, mean over seeds with 95 % interval",
        ("loss", *metrics),
        tuple((loss, *(cell(loss, metric) for metric in metrics)) for loss in LOSSES),
        f"Weights and logits are those of the class right less those of left, as the paper's "
        f"two-parameter model has them. From step {at[-2]:,.0f} to {at[-1]:,.0f} the weight norm "
        f"of CE grows by {grown:.2%}: with flipped labels the optimum is finite.",
    )


def _spread(rows: Rows, metric: str) -> tuple[_Float, list[Interval]]:
    at, _ = rows.curve(RECIPE, metric)
    by_step = [
        mean_interval([r.value for r in rows if r.metric == metric and r.at == step])
        for step in at
    ]
    return at, by_step


def _figure_5(rows: Rows) -> Chart:
    def panel(metric: str, title: str) -> Panel:
        series = []
        for color, loss in enumerate(LOSSES):
            at, found = _spread(rows, f"{loss} {metric}")
            middle, low, high = (
                [getattr(i, n) for i in found] for n in ("estimate", "low", "high")
            )
            series.append(
                Series(at, middle, loss, "line and points", low=low, high=high, color=color)
            )
        return Panel(title, "iterations", metric, series, log_x=True)

    return Chart(
        "figure-5",
        "As Figure 5 of paper 002: norms over the iterations (here on a log scale), mean over "
        "seeds with 95 % interval. The logit norm is the mean of |w·x| over test points.",
        (
            panel("logit norm", "(a) Logits"),
            panel("weight norm", "(b) Weights"),
            panel("confidence of mistakes", "Confidence of mistakes"),
        ),
    )


def _figure_6(rows: Rows) -> Chart:
    histograms = [
        Series(*rows.curve(RECIPE, f"{loss} mistakes"), label=loss, style="line and points")
        for loss in LOSSES
    ]
    panels = [
        Panel("(a) Confidence of mistakes", "confidence", "share of mistakes", histograms),
        *(
            _regions(rows, loss, f"({letter}) {loss}")
            for letter, loss in zip("bc", LOSSES, strict=True)
        ),
    ]
    return Chart(
        "figure-6",
        "As Figure 6 of paper 002: how confident mistakes on test points are, in steps of 0.05, "
        f"mean over seeds; and the decision boundary of the first seed among {N_SHOWN} points "
        "drawn as its training points are, coloured by their label.",
        panels,
    )


def _regions(rows: Rows, loss: str, title: str) -> Panel:
    seed = min(row.seed for row in rows)
    w1, w2 = (rows.by_seed(RECIPE, f"{loss} w{i}")[seed] for i in (1, 2))
    shown = square(N_SHOWN, seed=[seed, 0])
    x = np.asarray(shown.inputs)
    points = [
        Series(x[shown.labels == side, 0], x[shown.labels == side, 1], name, "points", color=side)
        for side, name in enumerate(("left", "right"))
    ]
    # The inputs are standardised before the layer, nearly alike in both directions.
    y = np.linspace(-2.2, 2.2, 2)
    boundary = Series(-w2 / w1 * y, y, "boundary", color=7)
    return Panel(title, "x1", "x2", [*points, boundary], is_square=True)


EXPERIMENT = Experiment(
    name=NAME,
    spec="E7",
    source="Mukhoti et al. (2020), paper 002, App. G, Fig. 5-6",
    title="A linear model on noisy labels",
    protocol="Two Gaussian clusters a class on the corners of a square, 10 % of the labels truly "
    "flipped, in training and test alike; a linear model without bias, by gradient descent on "
    "all training points, by CE and by focal loss with γ = 1 from the same first weights. Each "
    "seed draws its own 2,000 training and 2,000 test points. The paper draws 50,000 iterations "
    "but prints neither the learning rate, nor the number of points, nor their spread: these are "
    "our choice. We take 5,000 steps at a learning rate of 1, which go as far as 50,000 at 0.1, "
    "until the weights no longer change.",
    smaller={
        "smallest": "200 points and 120 iterations, 3 seeds, to test the program.",
        "reduced": "",
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe,
    conclude=conclude,
    needs_torch=True,
    packages=("numpy", "scipy", "torch"),
)
