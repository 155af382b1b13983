"""Temperature and focal temperature scaling on the published outputs of real models."""

from focalibrate.experiments.engine.conclude import concluding, plainly
from focalibrate.experiments.engine.experiment import (
    Experiment,
    Folders,
    Numbers,
    Scale,
    Task,
)
from focalibrate.experiments.published_logits.claims import claims, finding
from focalibrate.experiments.published_logits.figures import chart, counts, every_method
from focalibrate.experiments.published_logits.methods import measure
from focalibrate.experiments.published_logits.sets import SEED, SETS, generated_set, read_set

NAME = "published-logits"
TRAINED_GAMMA = {"cifar10_resnet50_focalrepo_aigen": 3.0}
"""Exponents of the training loss, if it is focal loss.

That set has the numbers of paper 002's sample-wise exponent: 3 if the true class has a probability
of at least 0.2, as for nearly all rows, and 5 below.
"""


def tasks(scale: Scale) -> list[Task]:
    """Return one task per set of logits."""
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


def run(task: Task, folders: Folders) -> Numbers:
    """Measure every method on one set."""
    options = {"gamma": task["gamma"], "n_resamples": task["resamples"]}
    if not task["sha256"]:
        return measure(generated_set(task["set"], n=task["n"], gamma=task["gamma"]), **options)
    one = read_set(task["set"], folders.data)
    if one.checksum != task["sha256"]:
        raise ValueError(
            f"logits/{one.name}.npz: its SHA-256 must be {task['sha256']}, that of the file "
            f"behind the committed results, got {one.checksum}. Download the published file; for "
            "your own outputs use `focalibrate calibrate`."
        )
    return measure(one, **options)


conclude = concluding(
    NAME,
    plainly,
    claims=claims,
    tables=lambda rows: [counts(rows), every_method(rows)],
    charts=lambda rows: [chart(rows)],
    finding=finding,
)


EXPERIMENT = Experiment(
    name=NAME,
    code="E13",
    source="Outputs published by others; papers 000 (Fig 4), 002 (Tables 1–3, 10–13), 003 "
    "(Table 1)",
    title="TS, FTS and Ψ on real, published logits",
    protocol=(
        "Sixteen sets of outputs of networks trained by others, with 2 to 100 classes. Each "
        "method is fitted on one part and evaluated on another: the authors' validation and test "
        "parts if there are any, else two random halves. One network has the numbers of a row of "
        "paper 002, which is compared to the last digit. These sets had been evaluated by the "
        "same fits before the rules below were written, except for temperature scaling on paper "
        "003's grid."
    ),
    smaller={
        "smallest": "Two generated sets instead of sixteen published ones: nothing can be "
        "concluded.",
        "reduced": "",
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe,
    conclude=conclude,
    changed_rules=(
        "Rules changed after the results were seen: what papers 000 and 003 say about their own "
        'networks is, for these networks, a question of our own, or at most "same direction"; a '
        "claim can be undecided."
    ),
)
