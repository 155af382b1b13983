"""A column of paper 002's Table 1 and of paper 003's Table 1, on all training images."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import FocalTemperatureScaling, TemperatureScaling
from focalibrate.metrics import adaptive_ece, ece, error_rate, nll
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.networks import (
    SHOWN,
    Fold,
    Problem,
    best_temperature,
    long_recipe,
    losses_in,
    network_recipe,
    trained,
)
from focalibrate_papers.p002.focal_calibration import (
    claims_of_set,
    main_table,
    network_numbers,
    other_table,
    paper_values,
)
from focalibrate_papers.p003.focal_temperature import PAPER_VALUES as PAPER_003
from focalibrate_papers.p003.focal_temperature import SAME_NLL, scaling_numbers
from focalibrate_papers.recipe import Recipe

NAME = "full-cifar"
PROBLEM: Problem = "cifar10"
SHOWN_SET = "45,000 images"
LOSSES = ("ce", "fl3", "flsd53")
RESAMPLES = 200
ONE_SEED = "The interval is over test rows: there is one network per loss."


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one task per loss."""
    return [lab.Task.of(NAME, loss=loss, seed=0, is_small=scale == "smallest") for loss in LOSSES]


def recipe_of(task: lab.Task) -> Recipe:
    """Return how the task's network is trained."""
    if task["is_small"]:
        return network_recipe(PROBLEM, task["loss"], seed=task["seed"], scale="smallest")
    return long_recipe("column", task["loss"], seed=task["seed"])


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Measure one network, then again on resampled rows, the same for every network."""
    found = trained(recipe_of(task), folders)
    rows = found.fold
    yield from network_numbers(found, [rows])
    fits: dict[str, float] = {}
    for number in scaling_numbers([rows], step=20 if task["is_small"] else 1):
        fits[number[0]] = number[1]
        yield number
    yield from _resampled(rows, fits, n=10 if task["is_small"] else RESAMPLES)


def _resampled(rows: Fold, fits: dict[str, float], *, n: int) -> lab.Numbers:
    """Yield the numbers that are judged for each resample; T by ECE is fitted again in each.

    TS and FTS keep their parameters: their grid is too large to search again.
    """
    kept: dict[str, TemperatureScaling | FocalTemperatureScaling] = {}
    for criterion in ("ECE", "NLL"):
        kept[f"TS_{criterion}"] = TemperatureScaling(fits[f"T, TS_{criterion}"])
        kept[f"FTS_{criterion}"] = FocalTemperatureScaling(
            fits[f"gamma, FTS_{criterion}"], fits[f"T, FTS_{criterion}"]
        )
    log_probs = {name: np.asarray(fit.log_probs(rows.logits)) for name, fit in kept.items()}
    rng = np.random.default_rng(0)
    for i in range(n):
        fit, at = (rng.integers(len(y), size=len(y)) for y in (rows.fit_labels, rows.labels))
        labels = rows.labels[at]
        drawn = Fold(rows.fit_logits[fit], rows.fit_labels[fit], rows.logits[at], labels)
        scaled = best_temperature(drawn)
        raw = np.exp(np.asarray(TemperatureScaling(1.0).log_probs(rows.logits[at])))
        after = np.exp(np.asarray(scaled.log_probs(rows.logits[at])))
        numbers = {
            "ECE %": 100 * ece(raw, labels, n_bins=15),
            "ECE % after T": 100 * ece(after, labels, n_bins=15),
            "|ln T|": abs(float(np.log(scaled.temperature))),
            "error %": 100 * error_rate(raw, labels),
        }
        for name in kept:
            chosen = log_probs[name][at]
            if name.endswith("ECE"):
                numbers[f"adaece, {name}"] = adaptive_ece(np.exp(chosen), labels, n_bins=15)
            else:
                numbers[f"nll, {name}"] = nll(labels=labels, log_probs=chosen)
        for name, value in numbers.items():
            yield f"{name}, resampled", float(f"{value:.6g}"), float(i)


def over_rows(rows: lab.Rows, loss: str, against: str, metric: str) -> lab.Interval | None:
    """Return `loss` − `against` with its interval over test rows; None without both.

    Estimate ± 1.96 standard deviations of the resampled differences: a percentile interval would
    be biased, as the calibration error of a resample is too high.
    """
    (_, ours), (_, other) = (rows.curve(f"{metric}, resampled", loss=x) for x in (loss, against))
    if not ours.size or not other.size:
        return None
    gap = rows.one(metric, loss=loss) - rows.one(metric, loss=against)
    return _interval(gap, ours - other)


def _interval(estimate: float, resampled: NDArray[np.float64]) -> lab.Interval:
    half = 1.96 * float(np.std(resampled, ddof=1))
    return lab.Interval(estimate, estimate - half, estimate + half)


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield paper 002's comparisons of losses, then paper 003's of TS and FTS."""
    yield from claims_of_set(
        rows, PROBLEM, name=SHOWN_SET, gap=over_rows, paired_by="test row (one network per loss)"
    )
    losses = losses_in(rows)
    if not losses:
        return
    gaps = 100 * np.mean([_fts_less_ts(rows, loss, "adaece", "ECE") for loss in losses], axis=0)
    lower = lab.judged(
        "full-cifar/fts-lower",
        _interval(float(gaps[0]), gaps[1:]),
        note=f"{ONE_SEED}{_ties(rows, 'ECE')}",
    )
    # Resamples that never differ are a tie: FTS is TS, neither lower nor higher.
    yield replace(lower, verdict="undecided") if not gaps.any() else lower
    changes = np.array([_fts_less_ts(rows, loss, "nll", "NLL", ratio=True) for loss in losses])
    largest = 100 * changes[np.abs(changes[:, 0]).argmax()]
    yield lab.judged(
        "full-cifar/same-nll",
        _interval(abs(float(largest[0])), largest[1:]).within(0.0, np.inf),
        bound=SAME_NLL,
        note=f"{ONE_SEED}{_ties(rows, 'NLL')}",
    )


def _ties(rows: lab.Rows, criterion: str) -> str:
    tied = [
        SHOWN[loss]
        for loss in losses_in(rows)
        if not rows.values(f"gamma, FTS_{criterion}", loss=loss)[0]
    ]
    return f" FTS chose γ = 0, which is TS itself, for {', '.join(tied)}." if tied else ""


def _fts_less_ts(
    rows: lab.Rows, loss: str, metric: str, criterion: str, *, ratio: bool = False
) -> NDArray[np.float64]:
    """Return the difference of a metric on all test rows, followed by that of each resample."""
    both, alone = (
        np.append(
            rows.values(f"{metric}, {method}_{criterion}", loss=loss),
            rows.curve(f"{metric}, {method}_{criterion}, resampled", loss=loss)[1],
        )
        for method in ("FTS", "TS")
    )
    return (both - alone) / (alone if ratio else 1.0)


def scaling_table(rows: lab.Rows) -> lab.Table:
    """Return paper 003's Table 1, here."""

    def cells(loss: str) -> tuple[str, ...]:
        def one(metric: str) -> float:
            return float(rows.values(metric, loss=loss)[0])

        printed = PAPER_003.get(loss)
        return (
            SHOWN[loss],
            *(f"{100 * one(f'adaece, {m}'):.2f}" for m in ("raw", "TS_ECE", "FTS_ECE")),
            f"{one('T, TS_ECE'):.2f}",
            f"({one('gamma, FTS_ECE'):g}, {one('T, FTS_ECE'):.2f})",
            "–" if printed is None else f"{printed[0]:.2f}, {printed[1]:.2f}",
            *(f"{one(f'nll, {m}'):.4f}" for m in ("raw", "TS_NLL", "FTS_NLL")),
        )

    head = ("loss", "AdaECE % raw", "TS", "FTS", "T of TS", "(γ, T) of FTS")
    return lab.Table(
        "Temperature and focal temperature scaling, as Table 1 of paper 003",
        (*head, "paper: TS, FTS", "NLL raw", "TS", "FTS"),
        tuple(cells(loss) for loss in losses_in(rows)),
        "AdaECE with the fits by AdaECE, NLL with the fits by NLL. Paper: ResNet-50, where it is "
        "legible in our copy.",
    )


def tables(rows: lab.Rows) -> tuple[lab.Table, ...]:
    """Return the tables of paper 002, and of paper 003 between them."""
    return main_table(rows, PROBLEM), scaling_table(rows), other_table(rows, PROBLEM)


def charts(rows: lab.Rows) -> Iterator[Chart]:
    """Yield ECE before and after T, beside the paper's."""
    losses = losses_in(rows)
    names, series = [SHOWN[loss] for loss in losses], []
    for metric, field in (("ECE %", "ece"), ("ECE % after T", "ece_post")):
        found = [
            _interval(
                rows.one(metric, loss=x), rows.curve(f"{metric}, resampled", loss=x)[1]
            ).within(0.0, np.inf)
            for x in losses
        ]
        series.append(Series.of_intervals(names, found, metric))
        paper = [paper_values(PROBLEM, loss)["ResNet-50"][field] for loss in losses]
        series.append(Series(names, paper, f"{metric}, paper's ResNet-50", "points"))
    yield Chart(
        "ece",
        "ECE before and after T, beside the paper's ResNet-50; bars are 95 % intervals over test "
        "rows of one network per loss.",
        [Panel("CIFAR-10, 45,000 images", "", "ECE %", series)],
    )


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    parts = []
    for loss in losses_in(rows):
        before, after, temperature, error = (
            float(rows.values(m, loss=loss)[0]) for m in ("ECE %", "ECE % after T", "T", "error %")
        )
        parts.append(
            f"{SHOWN[loss]} {before:.2f} → {after:.2f} (T {temperature:.1f}, error {error:.1f} %)"
        )
    missing = [SHOWN[loss] for loss in LOSSES if loss not in losses_in(rows)]
    rest = f" Not trained yet: {', '.join(missing)}." if missing else ""
    return f"One network per loss; ECE in % before → after T: {', '.join(parts)}.{rest}"


EXPERIMENT = lab.Experiment.of(__name__, tables=(tables,), charts=(charts,), network=recipe_of)
