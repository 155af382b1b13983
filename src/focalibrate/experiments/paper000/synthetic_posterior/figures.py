"""Table and figures of `focalibrate.experiments.paper000.synthetic_posterior.experiment`."""

from collections.abc import Iterable, Sequence

import numpy as np

from focalibrate.datasets.synthetic import MEANS, RANGE, SCALES, posterior_at
from focalibrate.experiments.engine.experiment import Rows, Table
from focalibrate.experiments.engine.verdict import mean_interval
from focalibrate.report.charts import Chart, Panel, Series

METHODS = ("raw", "TS", "Ψ")
SHOWN = {"raw": "raw", "TS": "TS_NLL", "Ψ": "Ψ"}
METRICS = ("ERR", "KLD", "ECE")


def table(rows: Rows, recipes: Sequence[str], losses: Iterable[str]) -> Table:
    """Return error, KLD and ECE of every size, loss and method."""
    body = []
    for recipe in recipes:
        for loss, method in _cases(losses):
            cells = []
            for metric in METRICS:
                found = mean_interval(rows.values(recipe, f"{loss} {method} {metric}"))
                text = f"{found.estimate:.5f}"
                many = np.isfinite(found.low)
                cells.append(f"{text} [{found.low:.5f}, {found.high:.5f}]" if many else text)
            body.append((recipe, loss, SHOWN[method], *cells))
    return Table(
        "Mean over seeds with 95 % interval",
        ("trained on", "loss", "scores", *METRICS),
        tuple(body),
        "n is the number of training examples. The exact minimiser is scored on one sample of "
        "test examples.",
    )


def _cases(losses: Iterable[str]) -> list[tuple[str, str]]:
    return [(loss, m) for loss in losses for m in METHODS if loss != "CE" or m == "raw"]


def figure_3(rows: Rows, recipe: str, losses: Iterable[str]) -> Chart:
    """Return densities, posterior and learned scores along the line, for the first seed."""
    x = np.linspace(*RANGE, 121)
    each = np.exp(-0.5 * ((x[:, None] - MEANS) / SCALES) ** 2) / (SCALES * np.sqrt(2 * np.pi)) / 3
    joint = [Series(x, p, f"p(x, y={'abc'[k]})", color=k) for k, p in enumerate(each.T)]
    truth = [Series(x, p, style="dashed", color=k) for k, p in enumerate(posterior_at(x).T)]
    panels = [
        Panel("(a) Densities", "x", "density", [*joint, Series(x, each.sum(1), "p(x)", color=6)]),
        Panel("(b) Posterior", "x", "p(y | x)", truth),
    ]
    cases = sorted(_cases(losses), key=lambda case: METHODS.index(case[1]))
    for letter, (loss, method) in zip("cdefghi", cases, strict=True):
        learned = [
            Series(*rows.curve(recipe, f"{loss} {method} class {k}", seed=0), color=k)
            for k in range(3)
        ]
        numbers = [rows.by_seed(recipe, f"{loss} {method} {m}")[0] for m in METRICS]
        title = f"({letter}) {loss}, {SHOWN[method]}\n" + ", ".join(
            f"{metric} {number:.4f}" for metric, number in zip(METRICS, numbers, strict=True)
        )
        panels.append(Panel(title, "x", "score", [*learned, *truth]))
    return Chart(
        "figure-3",
        f"As Figure 3 of paper 000, for the first seed ({recipe}). Solid: the network's scores; "
        "dashed: the posterior. Numbers in the titles are for this seed.",
        panels,
    )


def kld_chart(rows: Rows, recipes: Sequence[str], losses: Iterable[str]) -> Chart:
    """Return the KLD of every size, loss and method."""
    cases = _cases(losses)
    names = [f"{loss} {SHOWN[method]}" for loss, method in cases]
    series = []
    for recipe in recipes:
        found = [mean_interval(rows.values(recipe, f"{lo} {m} KLD")) for lo, m in cases]
        # The minimiser's KLD after Ψ is only rounding error, which a log scale cannot show.
        kept = [(name, i) for name, i in zip(names, found, strict=True) if i.estimate > 1e-9]
        middle = np.array([i.estimate for _, i in kept])
        ends = np.array([[i.low, i.high] for _, i in kept])
        ends = np.where(np.isfinite(ends), ends, middle[:, None])
        low = np.maximum(ends[:, 0], 0.2 * middle)
        series.append(
            Series([n for n, _ in kept], middle, recipe, "points", low=low, high=ends[:, 1])
        )
    return Chart(
        "kld",
        "KLD to the posterior, mean over seeds with 95 % interval. CE needs no Ψ: its KLD is due "
        "to the finite examples and the training, and is the best that Ψ can reach. The exact "
        "minimiser of CE, and that of focal loss after Ψ, is the posterior itself: its KLD of 0 "
        "is not drawn.",
        (Panel("KLD to the posterior", "", "KLD", series, log_y=True),),
        columns=1,
        size=(6.0, 3.4),
    )
