"""A linear model on noisy labels: its weights with cross-entropy and with focal loss."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.metrics import ece
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.datasets import Dataset
from focalibrate_papers.datasets.synthetic import square
from focalibrate_papers.recipes import SQUARE

if TYPE_CHECKING:
    from focalibrate_papers.train import TrainedMember

LOSSES = {"CE": 0.0, "FL-1": 1.0}


def claims(rows: lab.Rows) -> tuple[lab.ClaimResult, ...]:
    """Return one result per claim."""
    return (*_norms(rows), *_mistakes(rows))


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    norms, sure = (
        [rows.values(f"{loss} {metric}").mean() for loss in LOSSES]
        for metric in ("weight norm", "confidence of mistakes")
    )
    return (
        f"CE ends with larger weights than focal loss ({norms[0]:.2f} against {norms[1]:.2f}) "
        f"and is more confident in its mistakes ({sure[0]:.3f} against {sure[1]:.3f}), as the "
        "paper's figures and argument say; in one sentence of appendix G, CE and FL are swapped."
    )


def _gap(rows: lab.Rows, metric: str) -> lab.Interval:
    """Return CE − FL-1, paired by the seed."""
    ce, fl = (rows.values(f"{loss} {metric}") for loss in LOSSES)
    return lab.mean_interval(ce - fl)


def _norms(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    for metric in ("weight norm", "logit norm"):
        yield lab.judged("linear/norms", _gap(rows, metric), metric=metric)
    gap = _gap(rows, "weight norm")
    yield lab.judged("linear/slip", lab.Interval(-gap.estimate, -gap.high, -gap.low))


def _mistakes(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    angle = rows.values("angle between weights").mean()
    yield lab.judged(
        "linear/same-regions",
        lab.mean_interval(rows.values("same prediction")).within(0.0, 1.0),
        angle=angle,
    )
    yield lab.judged("linear/confident-mistakes", _gap(rows, "confidence of mistakes"))
    other = rows.values("FL-1 share of confident mistakes").mean()
    share = lab.judged(
        "linear/above-90",
        lab.mean_interval(rows.values("CE share of confident mistakes")).within(0.0, 1.0),
        other=other,
        covers=False,
    )
    yield replace(share, verdict="undecided")


NAME = "linear"
STEPS = {"smallest": 120, "reduced": 5_000, "full": 5_000}
STEP_SIZE = 1.0
"""Ten times that of the recipes e7-*, so that 5,000 steps reach as far as 50,000 of theirs."""
EXAMPLES = {"smallest": 200, "reduced": 2_000, "full": 2_000}
SEEDS = {"smallest": 3, "reduced": 10, "full": 10}
CONFIDENT = 0.9
EDGES = np.linspace(0.5, 1.0, 11)
"""Edges of the histogram of the confidence of mistakes."""
N_SHOWN = 300


def tasks(scale: lab.Scale) -> Sequence[lab.Task]:
    """Return one run per seed, which determines the examples and the initial weights."""
    return [
        lab.Task.of(NAME, seed=seed, n=EXAMPLES[scale], steps=STEPS[scale])
        for seed in range(SEEDS[scale])
    ]


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Train both losses side by side, and measure them after more and more steps.

    Each step is gradient descent on all examples, so a run of fewer epochs is the beginning of a
    longer one.
    """
    del folders
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
    """Return the numbers of steps after which to measure: each about tripled."""
    n_looks = round(np.log(steps / 2) / np.log(3)) + 1
    return sorted({round(float(x)) for x in np.geomspace(2, steps, n_looks)})


def _draw(seed: int, n: int) -> Dataset:
    splits = [square(n, seed=[seed, part]) for part in range(3)]
    return Dataset("square_2d", splits[0], splits[1], splits[2], 2, ("left", "right"), "tabular")


def _train(dataset: Dataset, seed: int, steps: int) -> "list[TrainedMember]":
    from dataclasses import replace

    from focalibrate_papers.train import train_many

    recipe = replace(SQUARE, epochs=steps, batch=len(dataset.train), lr=STEP_SIZE, seed=seed)
    return train_many(recipe, gammas=LOSSES.values(), dataset=dataset)


def _figures(w: Floats, z: Floats, labels: NDArray[np.int64]) -> Iterator[tuple[str, float]]:
    """Return what the paper draws; `w` and `z` are those of class 1 − those of class 0."""
    confidence, is_wrong = _confidence(z), (z > 0) != (labels == 1)
    yield "weight norm", float(np.linalg.norm(w))
    yield "logit norm", float(np.abs(z).mean())
    yield "error", float(is_wrong.mean())
    yield "confidence of mistakes", float(confidence[is_wrong].mean())
    yield "share of confident mistakes", float((confidence[is_wrong] > CONFIDENT).mean())
    yield "confidence", float(confidence.mean())


def _confidence(z: Floats) -> Floats:
    confidence: Floats = 1.0 / (1.0 + np.exp(-np.abs(z)))
    return confidence


def _last_look(
    copies: "Sequence[TrainedMember]", weights: dict[str, Floats], labels: NDArray[np.int64]
) -> lab.Numbers:
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


def _table(rows: lab.Rows) -> lab.Table:
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
        found = lab.mean_interval(rows.values(f"{loss} {metric}"))
        return f"{found.estimate:.4f} [{found.low:.4f}, {found.high:.4f}]"

    at, norm = rows.curve("CE weight norm")
    grown = norm[-1] / norm[-2] - 1.0
    return lab.Table(
        "After the last step, mean over seeds with 95 % interval",
        ("loss", *metrics),
        tuple((loss, *(cell(loss, metric) for metric in metrics)) for loss in LOSSES),
        "Weights and logits are those of the right class − those of the left class, as in the "
        f"paper's two-parameter model. From step {at[-2]:,.0f} to {at[-1]:,.0f} the weight norm "
        f"of CE grows by {grown:.2%}: with flipped labels the optimum is finite.",
    )


def _figure_5(rows: lab.Rows) -> Chart:
    def panel(metric: str, title: str) -> Panel:
        series = []
        for color, loss in enumerate(LOSSES):
            at, _ = rows.curve(f"{loss} {metric}")
            table = [rows.curve(f"{loss} {metric}", seed=seed)[1] for seed in rows.each("seed")]
            found = [lab.mean_interval(values) for values in np.transpose(table)]
            look: dict[str, Any] = {"style": "line and points", "color": color}
            series.append(Series.of_intervals(at, found, loss, **look))
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


def _figure_6(rows: lab.Rows) -> Chart:
    histograms = [
        Series(*rows.curve(f"{loss} mistakes"), label=loss, style="line and points")
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
        "As Figure 6 of paper 002: histogram of the confidence of mistakes on test points, in "
        "steps of 0.05, mean over seeds; and the decision boundary of the first seed with "
        f"{N_SHOWN} points from the distribution of its training points, coloured by their label.",
        panels,
    )


def _regions(rows: lab.Rows, loss: str, title: str) -> Panel:
    seed = min(rows.each("seed"))
    w1, w2 = (rows.one(f"{loss} w{i}", seed=seed) for i in (1, 2))
    shown = square(N_SHOWN, seed=[seed, 0])
    x = np.asarray(shown.inputs)
    points = [
        Series(x[shown.labels == side, 0], x[shown.labels == side, 1], name, "points", color=side)
        for side, name in enumerate(("left", "right"))
    ]
    # The inputs are standardised before the layer, nearly the same in both directions.
    y = np.linspace(-2.2, 2.2, 2)
    boundary = Series(-w2 / w1 * y, y, "boundary", color=7)
    return Panel(title, "x1", "x2", [*points, boundary], is_square=True)


EXPERIMENT = lab.Experiment.of(__name__, tables=(_table,), charts=(_figure_5, _figure_6))
