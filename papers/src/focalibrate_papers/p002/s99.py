"""How many predictions stay confident after temperature scaling."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import Identity
from focalibrate.metrics import confident_fraction
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.networks import (
    SET_NAMES,
    SHOWN,
    UNPUBLISHED,
    Problem,
    best_temperature,
    by_problem,
    difference,
    folds,
    losses_in,
    pool_recipe,
    pool_tasks,
    trained,
)

FOCAL = ("flsd53", "fl3")
TOLERANCE = 5.0
"""Points within which a printed fraction counts as reproduced."""
TESTED = 10_000
"""Test rows of CIFAR-10 and of Fashion-MNIST."""
METRICS = ("S99 %", "accuracy on S99 %", "S99 % after T", "accuracy on S99 % after T")
PAPER_VALUES: dict[str, dict[str, tuple[float, float, float, float]]] = {
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
_WORDS = {
    METRICS[0]: "fewer predictions of confidence ≥ 0.99",
    METRICS[2]: "more predictions of confidence ≥ 0.99 after T",
    METRICS[1]: "a higher accuracy where its confidence is ≥ 0.99",
}
"""What the paper claims of focal loss, to put before "than CE"."""
_SENTENCES = {
    METRICS[0]: 'Sec. 6: "We observe that |S99| for the focal loss model is much lower than for '
    'the cross-entropy or MMCE models before temperature scaling."',
    METRICS[2]: 'Sec. 6: "However, after temperature scaling, |S99| for focal loss is '
    'significantly higher than for both MMCE and cross-entropy."',
    METRICS[1]: "not stated in the text;",
}


def claims_of_set(
    rows: lab.Rows, problem: Problem, *, name: str = ""
) -> Iterator[lab.ClaimResult]:
    """Yield the comparisons of Table 6 on one set, called `name` in the claims if given."""
    for loss in FOCAL:
        for other in ("ce", "mmce"):
            for metric, below in ((METRICS[0], True), (METRICS[2], False), (METRICS[1], False)):
                ours = difference(rows, loss, other, metric)
                if ours is None:
                    continue
                note = ""
                if metric == METRICS[1]:
                    ours, note = _with_sampling_error(rows, ours, loss, other)
                than = f"has {_WORDS[metric]} than {SHOWN[other]}"
                yield lab.side_result(
                    ours,
                    claim=f"{name or SET_NAMES[problem]}: {SHOWN[loss]} {than}",
                    what=f"{SHOWN[loss]} − {SHOWN[other]}, paired by seed",
                    paper_value=_paper_words(problem, other, metric),
                    unit=f"points, {SHOWN[loss]} − {SHOWN[other]}",
                    below=below,
                    is_papers=problem not in UNPUBLISHED,
                    note=note,
                )


def _with_sampling_error(
    rows: lab.Rows, ours: lab.Interval, loss: str, other: str
) -> tuple[lab.Interval, str]:
    """Return the interval of a difference of accuracies, including the sampling error of their
    rows.

    The spread over seeds does not include it: every seed is tested on the same rows. Two hits and
    two misses are added, so that an accuracy of 100 % on few rows does not count as certain.
    """
    variance, counts = 0.0, []
    for name in (loss, other):
        n = TESTED * rows.values(METRICS[0], loss=name).mean() / 100
        p = (n * rows.values(METRICS[1], loss=name).mean() / 100 + 2) / (n + 4)
        variance += 1e4 * p * (1 - p) / (n + 4)
        counts.append(f"{n:.0f}")
    half = math.hypot((ours.high - ours.low) / 2, 1.96 * math.sqrt(variance))
    wide = lab.Interval(ours.estimate, ours.estimate - half, ours.estimate + half)
    return wide.within(-100.0, 100.0), f"Of {' and '.join(counts)} rows per network."


def _paper_words(problem: Problem, other: str, metric: str) -> str:
    if problem in UNPUBLISHED:
        return "the paper does not have this data set"
    place = METRICS.index(metric)
    pairs = ", ".join(
        f"{table['flsd53'][place]:g} against {table[other][place]:g} % ({network})"
        for network, table in PAPER_VALUES.items()
    )
    return f"{_SENTENCES[metric]} Table 6, which does not say with which γ: {pairs}"


def numbers(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield the fractions that the paper prints for ResNet-50, the network at full size."""
    for loss, values in PAPER_VALUES["ResNet-50"].items():
        for place in (0, 2):
            found = rows.values(METRICS[place], loss=loss)
            if found.size:
                yield lab.judged(
                    "s99/printed",
                    lab.mean_interval(found).within(0.0, 100.0),
                    bound=values[place],
                    tolerance=TOLERANCE,
                    claim=f"CIFAR-10: fraction of predictions of confidence ≥ 0.99 with "
                    f"{SHOWN[loss]}{', after T' if place else ''}",
                    paper_value=f"Table 6: {values[place]:g} % (ResNet-50)",
                )


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield the comparisons on every data set, then the printed fractions."""
    sets = by_problem(rows)
    for problem, own in sets.items():
        yield from claims_of_set(own, problem)
    if "cifar10" in sets:
        yield from numbers(sets["cifar10"])


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    parts = []
    for problem, own in by_problem(rows).items():
        before, after = (
            [np.mean(own.values(m, loss=loss)) for loss in ("ce", "fl3")]
            for m in (METRICS[0], METRICS[2])
        )
        parts.append(
            f"on {SET_NAMES[problem]} {before[0]:.1f} % of the rows with CE and {before[1]:.1f} "
            f"% with FL-3 before T, {after[0]:.1f} and {after[1]:.1f} % after"
        )
    return f"Predictions with a confidence of at least 0.99: {'; '.join(parts)}."


NAME = "s99"
PROBLEMS: tuple[Problem, ...] = ("cifar10", "fashion_mnist")
LOSSES = ("ce", "mmce", "fl3", "flsd53")


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one task per network."""
    return pool_tasks(NAME, scale, problems=PROBLEMS, losses=LOSSES)


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Return the confident share of the network's test rows before and after T."""
    found = trained(pool_recipe(task), folders)
    return list(confident_numbers(found.test_logits, found.test_labels))


def confident_numbers(
    logits: NDArray[np.float32], labels: NDArray[np.int64]
) -> Iterator[tuple[str, float]]:
    """Yield S99 and its accuracy in percent; no accuracy if S99 is empty."""
    raw = np.asarray(Identity().log_probs(logits.astype(np.float64)))
    parts = folds(logits, labels)
    fits = [best_temperature(part) for part in parts]
    scaled = [fit.log_probs(part.logits) for fit, part in zip(fits, parts, strict=True)]
    y_scaled = np.concatenate([part.labels for part in parts])
    looks = (("", raw, labels), (" after T", np.concatenate(scaled), y_scaled))
    for suffix, log_probs, y in looks:
        found = confident_fraction(np.exp(log_probs), y, threshold=0.99)
        yield f"S99 %{suffix}", 100 * found.fraction
        if found.fraction > 0:
            yield f"accuracy on S99 %{suffix}", 100 * found.accuracy
    yield "T", float(np.mean([fit.temperature for fit in fits]))


def confident_tables(rows: lab.Rows) -> Iterator[lab.Table]:
    """Yield the table of each data set."""
    for problem, own in by_problem(rows).items():
        yield _confident_table(own, problem)


def _confident_table(rows: lab.Rows, problem: Problem) -> lab.Table:
    """Return the confident share and its accuracy beside the paper's Table 6."""
    has_paper = problem not in UNPUBLISHED
    head = ["loss", "T"]
    for metric in METRICS:
        head += [metric, *(f"paper, {network}" for network in PAPER_VALUES if has_paper)]
    body = []
    for loss in losses_in(rows):
        cells = [SHOWN[loss], lab.spread(rows.values("T", loss=loss))]
        for place, metric in enumerate(METRICS):
            cells.append(lab.spread(rows.values(metric, loss=loss)))
            if has_paper:
                cells += [
                    f"{t[loss][place]:g}" if loss in t else "–" for t in PAPER_VALUES.values()
                ]
        body.append(tuple(cells))
    return lab.Table(
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


def _chart(rows: lab.Rows) -> Chart:
    panels = []
    for problem, own in by_problem(rows).items():
        losses, series = losses_in(own), []
        for metric in ("S99 %", "S99 % after T"):
            found = [lab.mean_interval(own.values(metric, loss=x)) for x in losses]
            series.append(Series.of_intervals([SHOWN[loss] for loss in losses], found, metric))
        panels.append(Panel(SET_NAMES[problem], "", "% of the test rows", series))
    caption = (
        "Fraction of the test rows predicted with a confidence of at least 0.99, before and "
        "after temperature scaling; bars are 95 % confidence intervals over the seeds."
    )
    return Chart("s99", caption, panels, columns=2)


EXPERIMENT = lab.Experiment.of(
    __name__, tables=(confident_tables,), charts=(_chart,), network=pool_recipe
)
