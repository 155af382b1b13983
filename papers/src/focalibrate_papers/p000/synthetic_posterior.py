"""Networks trained on data with a known posterior, which Ψ recovers and temperature does not."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Floats
from focalibrate.calibrate import (
    Calibrator,
    Identity,
    PosteriorRecovery,
    TemperatureScaling,
    fit_temperature,
)
from focalibrate.metrics import ece, error_rate, kl_divergence
from focalibrate.simulated import MEANS, RANGE, SCALES, KnownPosterior, posterior_at, sample
from focalibrate.theory import focal_minimiser
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.datasets import Dataset, Split
from focalibrate_papers.recipes import LINE

METHODS = ("raw", "TS", "Ψ")
SHOWN = {"raw": "raw", "TS": "TS_NLL", "Ψ": "Ψ"}
METRICS = ("ERR", "KLD", "ECE")
LOSSES = {"CE": 0.0, "FL-1": 1.0, "FL-5": 5.0}
CASES = [(loss, m) for loss in LOSSES for m in METHODS if loss != "CE" or m == "raw"]
"""Losses and the methods that follow them: cross-entropy needs none."""


def table(rows: lab.Rows) -> lab.Table:
    """Return error, KLD and ECE of every size, loss and method."""
    body = []
    for n in (*sizes_in(rows), 0):
        for loss, method in CASES:
            cells = []
            for metric in METRICS:
                found = lab.mean_interval(rows.values(f"{loss} {method} {metric}", n=n))
                text = f"{found.estimate:.5f}"
                many = np.isfinite(found.low)
                cells.append(f"{text} [{found.low:.5f}, {found.high:.5f}]" if many else text)
            body.append((size_name(n), loss, SHOWN[method], *cells))
    return lab.Table(
        "Mean over seeds with 95 % interval",
        ("trained on", "loss", "scores", *METRICS),
        tuple(body),
        "n is the number of training examples. The exact minimiser is scored on one sample of "
        "test examples.",
    )


def figure_3(rows: lab.Rows) -> Chart:
    """Return densities, posterior and learned scores along the line, for the first seed."""
    x = np.linspace(*RANGE, 121)
    each = np.exp(-0.5 * ((x[:, None] - MEANS) / SCALES) ** 2) / (SCALES * np.sqrt(2 * np.pi)) / 3
    joint = [Series(x, p, f"p(x, y={'abc'[k]})", color=k) for k, p in enumerate(each.T)]
    truth = [Series(x, p, style="dashed", color=k) for k, p in enumerate(posterior_at(x).T)]
    panels = [
        Panel("(a) Densities", "x", "density", [*joint, Series(x, each.sum(1), "p(x)", color=6)]),
        Panel("(b) Posterior", "x", "p(y | x)", truth),
    ]
    n = sizes_in(rows)[-1]
    cases = sorted(CASES, key=lambda case: METHODS.index(case[1]))
    for letter, (loss, method) in zip("cdefghi", cases, strict=True):
        learned = [
            Series(*rows.curve(f"{loss} {method} class {k}", n=n, seed=0), color=k)
            for k in range(3)
        ]
        numbers = [rows.one(f"{loss} {method} {m}", n=n, seed=0) for m in METRICS]
        title = f"({letter}) {loss}, {SHOWN[method]}\n" + ", ".join(
            f"{metric} {number:.4f}" for metric, number in zip(METRICS, numbers, strict=True)
        )
        panels.append(Panel(title, "x", "score", [*learned, *truth]))
    return Chart(
        "figure-3",
        f"As Figure 3 of paper 000, for the first seed ({size_name(n)}). Solid: the network's "
        "scores; dashed: the posterior. Numbers in the titles are for this seed.",
        panels,
    )


def kld_chart(rows: lab.Rows) -> Chart:
    """Return the KLD of every size, loss and method."""
    names = [f"{loss} {SHOWN[method]}" for loss, method in CASES]
    series = []
    for n in (*sizes_in(rows), 0):
        found = [lab.mean_interval(rows.values(f"{lo} {m} KLD", n=n)) for lo, m in CASES]
        # The minimiser's KLD after Ψ is only rounding error, which a log scale cannot show.
        kept = [(name, i) for name, i in zip(names, found, strict=True) if i.estimate > 1e-9]
        middle = np.array([i.estimate for _, i in kept])
        ends = np.array([[i.low, i.high] for _, i in kept])
        ends = np.where(np.isfinite(ends), ends, middle[:, None])
        low = np.maximum(ends[:, 0], 0.2 * middle)
        series.append(
            Series([name for name, _ in kept], middle, size_name(n), "points", low, ends[:, 1])
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


FOCAL = ("FL-1", "FL-5")
BAR = 0.05
"""The fraction of the KLD added by focal loss that counts as almost zero."""


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield one result per claim."""
    sizes = sizes_in(rows)
    yield from _recovery(rows, sizes)
    largest = rows.of(n=sizes[-1])
    yield from _temperature(largest, size_name(sizes[-1]))
    yield from _raw(largest, size_name(sizes[-1]))


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    n = sizes_in(rows)[-1]
    raw, scaled, psi = (rows.values(f"FL-5 {m} KLD", n=n).mean() for m in ("raw", "TS", "Ψ"))
    floor = rows.values("CE raw KLD", n=n).mean()
    return (
        f"The KLD of FL-5 to the known posterior falls from {raw:.4f} to {scaled:.4f} by "
        f"temperature scaling and to {psi:.4f} by Ψ; that of CE is {floor:.4f} ({size_name(n)})."
    )


def _recovery(rows: lab.Rows, sizes: Sequence[int]) -> Iterator[lab.ClaimResult]:
    for n in reversed(sizes):
        for loss in FOCAL:
            raw, psi = (rows.values(f"{loss} {m} KLD", n=n) for m in ("raw", "Ψ"))
            floor = rows.values("CE raw KLD", n=n)
            yield lab.judged(
                "synthetic-posterior/removed",
                (psi - floor) / (raw - floor),
                loss=loss,
                size=size_name(n),
                raw=raw.mean(),
                psi=psi.mean(),
                floor=floor.mean(),
                bound=BAR,
            )
    moved = [
        np.abs(rows.values(f"{loss} Ψ ERR", n=n) - rows.values(f"{loss} raw ERR", n=n)).max()
        for n in sizes
        for loss in FOCAL
    ]
    yield lab.judged("synthetic-posterior/same-error", max(moved))
    for loss in FOCAL:
        found, before = (rows.values(f"{loss} {m} ECE", n=sizes[-1]) for m in ("Ψ", "raw"))
        yield lab.judged(
            "synthetic-posterior/almost-zero",
            found,
            loss=loss,
            size=size_name(sizes[-1]),
            before=before.mean(),
        )


def _temperature(rows: lab.Rows, size: str) -> Iterator[lab.ClaimResult]:
    for loss in FOCAL:
        raw, scaled, psi = (rows.values(f"{loss} {m} KLD") for m in ("raw", "TS", "Ψ"))
        yield lab.judged("synthetic-posterior/ts-closer", raw - scaled, loss=loss, size=size)
        yield lab.judged(
            "synthetic-posterior/gap-remains",
            scaled - psi,
            loss=loss,
            size=size,
            note=f"TS_NLL leaves {(scaled / raw).mean():.1%} of the KLD, Ψ "
            f"{(psi / raw).mean():.1%}. The paper gives no number for a large gap.",
        )


def _raw(rows: lab.Rows, size: str) -> Iterator[lab.ClaimResult]:
    under = {loss: rows.values(f"{loss} raw under") for loss in LOSSES}
    for low, high in (("CE", "FL-1"), ("FL-1", "FL-5")):
        yield lab.judged(
            "synthetic-posterior/less-confident",
            under[high] - under[low],
            high=high,
            low=low,
            size=size,
            note=f"The top probability is below the true one by {under[low].mean():.4f} with "
            f"{low} and by {under[high].mean():.4f} with {high}.",
        )
    for loss in FOCAL:
        gap = rows.values(f"{loss} raw ERR") - rows.values("CE raw ERR")
        yield lab.judged("synthetic-posterior/roughly-ce", gap, loss=loss, size=size)
    best = np.min([rows.values(f"{loss} raw best class") for loss in LOSSES], axis=0)
    yield lab.judged(
        "synthetic-posterior/best-class", lab.mean_interval(best).within(0.0, 1.0), size=size
    )


NAME = "synthetic-posterior"
SIZES = {"smallest": (200, 400), "reduced": (5_000, 50_000), "full": (5_000, 50_000)}
"""Numbers of training examples: that of the recipes e2-*, and a large one; the paper does not
print its own."""
SEEDS = {"smallest": 3, "reduced": 10, "full": 10}
TESTED = {"smallest": 500, "reduced": 50_000, "full": 50_000}
VALIDATED = 5_000
EXACT = "exact minimiser"
N_BINS = 10
"""Bins of the ECE, as in paper 000."""
GRID = np.linspace(*RANGE, 121)


def tasks(scale: lab.Scale) -> Sequence[lab.Task]:
    """Return a run for each size and seed, which draws examples and first weights."""
    found = [
        lab.Task.of(NAME, n=n, seed=seed, tested=TESTED[scale], short=scale == "smallest")
        for n in SIZES[scale]
        for seed in range(SEEDS[scale])
    ]
    return [*found, lab.Task.of(NAME, n=0, seed=0, tested=TESTED[scale], short=False)]


def size_name(n: int) -> str:
    """Return how the networks of `n` examples are called; 0 is the exact minimiser."""
    return f"n={n}" if n else EXACT


def sizes_in(rows: lab.Rows) -> list[int]:
    """Return the numbers of training examples, in ascending order, without the minimiser."""
    return sorted(n for n in rows.each("n") if n)


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Train with each loss, and compare raw scores, TS_NLL and Ψ with the known posterior."""
    del folders
    seed, n = task["seed"], task["n"]
    validation, test = sample(VALIDATED, seed=[seed, 1]), sample(task["tested"], seed=[seed, 2])
    outputs = _trained(task, validation, test) if n else _minimisers(validation, test)
    for loss, (validation_logits, logits) in outputs.items():
        found = fit_temperature(validation_logits, validation.labels)
        methods: dict[str, Calibrator] = {"raw": Identity(), "TS": found}
        methods["Ψ"] = PosteriorRecovery(LOSSES[loss])
        if isinstance(found, TemperatureScaling):
            yield f"{loss} T", found.temperature
        for method, calibrator in methods.items():
            probs = calibrator.probs(logits.astype(np.float64))
            for metric, value in _figures(probs[: len(test.x)], test):
                yield f"{loss} {method} {metric}", value
            if seed == 0 and len(probs) > len(test.x):
                yield from _curves(f"{loss} {method}", probs[len(test.x) :])


def _figures(probs: Floats, test: KnownPosterior) -> Iterator[tuple[str, float]]:
    yield "ERR", error_rate(probs, test.labels)
    yield "KLD", kl_divergence(test.posterior, probs)
    yield "ECE", ece(probs, test.labels, n_bins=N_BINS)
    yield "under", float((test.posterior.max(axis=-1) - probs.max(axis=-1)).mean())
    is_best = probs.argmax(axis=-1) == test.posterior.argmax(axis=-1)
    yield "best class", float(is_best.mean())


def _curves(name: str, probs: Floats) -> lab.Numbers:
    for k, column in enumerate(probs.T):
        yield from lab.drawn(f"{name} class {k}", GRID, column)


def _trained(
    task: lab.Task, validation: KnownPosterior, test: KnownPosterior
) -> dict[str, tuple[NDArray[np.floating], NDArray[np.floating]]]:
    """Return validation and test logits, then a grid's, of one network per loss."""
    from dataclasses import replace

    from focalibrate_papers.train import train_many

    recipe = replace(LINE, seed=task["seed"])
    if task["short"]:
        recipe = replace(recipe, epochs=5, scale=0.05)
    elif task["n"] > 5_000:
        recipe = replace(recipe, epochs=25, batch=512, milestones=(0.6, 0.85))
    training = sample(task["n"], seed=[task["seed"], 0])
    seen = KnownPosterior(
        np.concatenate([test.x, GRID]),
        np.concatenate([test.labels, np.zeros(len(GRID), dtype=np.int64)]),
        np.concatenate([test.posterior, posterior_at(GRID)]),
    )
    splits = [
        Split(part.x[:, None].astype(np.float32), part.labels)
        for part in (training, validation, seen)
    ]
    dataset = Dataset("overlap_1d", splits[0], splits[1], splits[2], 3, ("a", "b", "c"), "tabular")
    copies = train_many(recipe, gammas=LOSSES.values(), dataset=dataset)
    return {
        loss: (copy.validation_logits, copy.test_logits)
        for loss, copy in zip(LOSSES, copies, strict=True)
    }


def _minimisers(
    validation: KnownPosterior, test: KnownPosterior
) -> dict[str, tuple[NDArray[np.floating], NDArray[np.floating]]]:
    """Return the log-scores of the exact minimiser of each loss."""

    def best(problem: KnownPosterior, gamma: float) -> Floats:
        return np.log(focal_minimiser(problem.posterior, gamma))

    return {loss: (best(validation, g), best(test, g)) for loss, g in LOSSES.items()}


EXPERIMENT = lab.Experiment.of(__name__, tables=(table,), charts=(figure_3, kld_chart))
