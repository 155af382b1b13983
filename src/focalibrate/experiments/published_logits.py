"""Temperature and focal temperature scaling on the published outputs of real models."""

from collections.abc import Iterator

from focalibrate.experiments._published_methods import FINE, measure
from focalibrate.experiments._published_page import (
    chart,
    counts,
    every_method,
    interval,
    number,
    percent,
)
from focalibrate.experiments._published_sets import SEED, SETS, generated_set, read_set
from focalibrate.experiments.experiment import (
    Conclusion,
    Experiment,
    Numbers,
    Places,
    Rows,
    Scale,
    Task,
)
from focalibrate.experiments.verdict import (
    Interval,
    Line,
    judge_above,
    judge_below,
    judge_number,
    mean_interval,
)

NAME = "published-logits"
TRAINED_GAMMA = {"cifar10_resnet50_focalrepo_aigen": 3.0}
"""Exponents of the training loss, where there is one.

That set's figures are those of paper 002's sample-wise exponent: 3 where the true class has a
probability of at least 0.2, which is nearly everywhere, and 5 below.
"""
PRINTED = (
    ("error", "Table 3", "raw error", 4.98, "%"),
    ("ECE", "Table 1", "raw ece", 1.55, "%"),
    ("AdaECE", "Table 2", "raw adaptive_ece", 1.56, "%"),
    ("MCE", "Table 12", "raw mce", 14.89, "%"),
    ("NLL", "Table 10", "raw nll", 17.55, "%"),
    ("T by ECE", "Table 1", "T_ece T", 1.1, ""),
    ("ECE after T by ECE", "Table 1", "T_ece ece", 0.95, "%"),
    ("NLL after T by ECE", "Table 11", "T_ece nll", 17.37, "%"),
    ("MCE after T by ECE", "Table 13", "T_ece mce", 26.37, "%"),
    ("T by AdaECE", "Table 2", "TS_ECE T", 1.1, ""),
    ("AdaECE after T by AdaECE", "Table 2", "TS_ECE adaptive_ece", 1.26, "%"),
)
"""What paper 002 prints of its ResNet-50 on CIFAR-10 with sample-wise exponents 5, 3."""
MARGINAL = 0.02
"""How much more log loss still counts as 003's "marginally", by our reading."""


def tasks(scale: Scale) -> list[Task]:
    """Return one task a set of logits."""
    if scale == "smallest":
        common = {"sha256": "", "n": 600, "resamples": 40}
        made: dict[str, float | None] = {"generated_overconfident": None, "generated_focal": 3.0}
        return [Task.of(NAME, set=name, gamma=gamma, **common) for name, gamma in made.items()]
    return [
        Task.of(NAME, set=name, sha256=sha256, gamma=TRAINED_GAMMA.get(name), resamples=1000)
        for name, sha256 in SETS.items()
    ]


def describe(task: Task) -> tuple[str, int]:
    """Return the set and the seed of its halves and resamples."""
    return task["set"], SEED


def run(task: Task, places: Places) -> Numbers:
    """Measure every method on one set."""
    options = {"gamma": task["gamma"], "n_resamples": task["resamples"]}
    if not task["sha256"]:
        return measure(generated_set(task["set"], n=task["n"], gamma=task["gamma"]), **options)
    one = read_set(task["set"], places.data)
    if one.checksum != task["sha256"]:
        raise ValueError(
            f"logits/{one.name}.npz: its SHA-256 must be {task['sha256']}, that of the file the "
            f"committed results are of, got {one.checksum}. Fetch the published file; for your "
            "own outputs use `focalibrate calibrate`."
        )
    return measure(one, **options)


def conclude(rows: Rows, scale: Scale) -> Conclusion:
    """Compare with paper 002's row, and judge what 003 and 000 say on these sets."""
    is_full = EXPERIMENT.is_full(scale)
    lines = (*_digits(rows, is_full), *_second_parameter(rows, is_full), _psi(rows, is_full))
    return Conclusion(lines, (counts(rows), every_method(rows)), (chart(rows),))


def _focal(rows: Rows) -> str:
    """Return the set whose training exponent is known."""
    return next(name for name in rows.recipes() if rows.values(name, "T_ece T").size)


def _digits(rows: Rows, is_full: bool) -> Iterator[Line]:
    for what, table, metric, printed, unit in PRINTED:
        value = number(rows, _focal(rows), metric) * (100 if unit else 1)
        ours = Interval.exact(round(value, 2))
        yield Line(
            claim=f"ResNet-50, CIFAR-10, sample-wise exponents 5, 3: {what}",
            rule="reproduced: equal to the last digit printed",
            paper=f"002 {table}: {printed:g}{f' {unit}' if unit else ''}",
            ours=ours,
            unit=unit,
            standing=judge_number(ours, printed, tolerance=1e-9, is_full=is_full),
            note="" if is_full else "generated logits stand in for that network",
        )


def _second_parameter(rows: Rows, is_full: bool) -> Iterator[Line]:
    note = "Nine of the sixteen sets are of CIFAR-10: fewer than sixteen independent trials."
    errors = mean_interval(_over_sets(rows, f"FTS less {FINE} adaptive_ece"))
    yield Line(
        claim="Focal temperature scaling has a lower AdaECE than temperature scaling",
        rule="reproduced: the whole 95 % interval of the mean difference over the sets is below "
        "0; same direction: the mean is",
        paper="003 §5.2, Table 1: lower ECE than temperature scaling for every training loss",
        ours=percent(errors),
        unit="% AdaECE, FTS less TS, both by AdaECE on 003's grid",
        standing=judge_below(errors, 0.0, is_full=is_full),
        note=note if is_full else "",
    )
    losses = mean_interval(_over_sets(rows, "FTS_NLL less TS_NLL nll"))
    yield Line(
        claim="Focal temperature scaling has much the same log loss as temperature scaling",
        rule=f"reproduced: the whole 95 % interval of the mean difference over the sets is below "
        f"{MARGINAL:g}; same direction: the mean is",
        paper="003 §5.2: much the same, at times a little higher",
        ours=losses,
        unit="log loss, FTS less TS, both by log loss",
        standing=judge_below(losses, MARGINAL, is_full=is_full),
        note=note if is_full else "",
    )


def _over_sets(rows: Rows, metric: str) -> list[float]:
    return [number(rows, name, metric) for name in rows.recipes()]


def _psi(rows: Rows, is_full: bool) -> Line:
    gap = percent(interval(rows, _focal(rows), "Ψ less raw adaptive_ece"))
    return Line(
        claim="Ψ does not help a large network that has not learned the focal minimiser of "
        "CIFAR-10: its calibration error rises",
        rule="reproduced: the whole paired 95 % interval of the difference is above 0; same "
        "direction: the difference is",
        paper="000 §6, Fig 4: Ψ worsens ResNet-110 trained without more on CIFAR-10",
        ours=gap,
        unit="% AdaECE, Ψ less raw",
        standing=judge_above(gap, 0.0, is_full=is_full),
        note="One ResNet-50; its loss was sample-wise, and that its exponent is 3 nearly "
        "everywhere is inferred from the row above."
        if is_full
        else "The generated logits are those of the focal minimiser: Ψ does help them.",
    )


EXPERIMENT = Experiment(
    name=NAME,
    spec="P",
    source="Outputs published by others; papers 000 (Fig 4), 002 (Tables 1–3, 10–13), 003 "
    "(Table 1)",
    title="TS, FTS and Ψ on real, published logits",
    protocol=(
        "Sixteen sets of outputs of networks nobody here trained, 2 to 100 classes. Each method "
        "is fitted on one part and judged on another: the authors' validation and test parts "
        "where there are any, else two random halves. One network's figures are those of a row of "
        "paper 002, which is compared to the digit. These sets had been judged by the same fits "
        "before the rules below were written, except for temperature scaling on paper 003's grid."
    ),
    smaller={
        "smallest": "Two generated sets instead of sixteen published ones: nothing is concluded.",
        "reduced": "",
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe,
    conclude=conclude,
    needs_data=True,
)
