"""ResNet-20 trained until it fits all its training examples: the regime the papers are about."""

from typing import TYPE_CHECKING

import numpy as np

from focalibrate.experiments.engine.conclude import concluding, plainly
from focalibrate.experiments.engine.experiment import (
    Covered,
    Experiment,
    Folders,
    Numbers,
    Scale,
    Task,
)
from focalibrate.experiments.networks.halves import Fold
from focalibrate.experiments.networks.pool import SMALLEST, network_name
from focalibrate.experiments.networks.recipes import long_recipe, network_recipe
from focalibrate.experiments.networks.trained import Trained, trained
from focalibrate.experiments.paper002.dynamics.experiment import training_numbers
from focalibrate.experiments.paper002.dynamics.figures import charts as training_charts
from focalibrate.experiments.paper002.dynamics.figures import end_table
from focalibrate.experiments.paper002.focal_calibration.scores import before_and_after
from focalibrate.experiments.paper002.focal_calibration.tables import (
    charts,
    main_table,
    other_table,
)
from focalibrate.experiments.paper002.interpolation.claims import PROBLEM, claims, finding
from focalibrate.experiments.paper002.s99.experiment import confident_numbers, confident_table
from focalibrate.experiments.paper003.focal_temperature.experiment import scaling_numbers
from focalibrate.experiments.paper004.curvature.experiment import curvature_numbers

if TYPE_CHECKING:
    from focalibrate.train import Recipe

NAME = "interpolation"
LOSSES = ("ce", "fl3", "flsd53")
SEEDS = 3
N_EXAMPLES, N_VECTORS = 256, 10
"""Validation examples of the Hessian, and random vectors of its trace."""
IN_CURVATURE = ("ce", "fl3")


def tasks(scale: Scale) -> list[Task]:
    """Return one task per network."""
    is_small = scale == "smallest"
    return [
        Task.of(NAME, loss=loss, seed=seed, is_small=is_small)
        for seed in range(2 if is_small else SEEDS)
        for loss in (LOSSES[:2] if is_small else LOSSES)
    ]


def recipe_of(task: Task) -> "Recipe":
    """Return how the task's network is trained."""
    if task["is_small"]:
        return network_recipe(PROBLEM, task["loss"], seed=task["seed"], scale="smallest")
    return long_recipe("interpolating", task["loss"], seed=task["seed"])


def describe(task: Task) -> tuple[str, int]:
    """Return recipe and seed of a task, as the rows name them."""
    return network_name(PROBLEM, task["loss"]), task["seed"]


def run(task: Task, folders: Folders) -> Numbers:
    """Measure one network in all that the smaller experiments of papers 002 to 004 measure."""
    from focalibrate.train import load_dataset

    recipe, loss = recipe_of(task), task["loss"]
    found = trained(recipe, folders)
    yield from before_and_after(found)
    yield "train error %", 100 * float(found.dynamics["train_error"][-1])
    yield from training_numbers(recipe, found.dynamics, loss=loss)
    for name, value in confident_numbers(found.test_logits, found.test_labels):
        if name != "T":  # which is fitted on validation rows here
            yield name, value
    yield from scaling_numbers([_validation_to_test(found)], step=20 if task["is_small"] else 1)
    if loss in IN_CURVATURE:
        yield from curvature_numbers(
            found.folder,
            load_dataset(recipe, data=folders.data),
            loss=loss,
            n_examples=N_EXAMPLES,
            n_vectors=N_VECTORS,
        )


def _validation_to_test(found: Trained) -> Fold:
    """Return the rows to fit on and to evaluate on, as papers 002 and 003 have them."""
    return Fold(
        found.validation_logits.astype(np.float64),
        found.validation_labels,
        found.test_logits.astype(np.float64),
        found.test_labels,
    )


conclude = concluding(
    NAME,
    plainly,
    claims=claims,
    tables=lambda rows: [
        main_table(rows, PROBLEM),
        other_table(rows, PROBLEM),
        confident_table(rows, PROBLEM),
        *end_table(rows),
    ],
    charts=lambda rows: [*charts(rows), *training_charts(rows)],
    finding=finding,
)


EXPERIMENT = Experiment(
    name=NAME,
    code="E5",
    source="Paper 002, Tables 1–13 and Figures 1–4; paper 003, Table 1; paper 004, Figure 2",
    title="Networks that fit their training examples",
    protocol=(
        "ResNet-20 on 15,000 training images of CIFAR-10, without augmentation, until the "
        "training error is about 0 %: the regime in which paper 002 explains miscalibration. "
        "Measured on each network: everything that focal-calibration, dynamics, s99, "
        "focal-temperature and curvature measure on smaller ones, judged by the same rules, "
        "which were committed before these networks were trained. T and γ are fitted on the "
        "validation rows, as in the papers, except for the confident predictions, where T is "
        "fitted on halves of the test rows. λ_max and trace are those of the loss over "
        f"{N_EXAMPLES} validation examples."
    ),
    smaller={
        "smallest": SMALLEST,
        "reduced": (
            "ResNet-20 on a third of the images without augmentation for 30 epochs in bfloat16 "
            "instead of ResNet-50 and larger with augmentation for 350; only the losses and "
            "seeds that the finding names. The test error is far higher than the "
            "paper's 5 %, so its numbers cannot be checked, only the direction in which losses "
            "differ."
        ),
        "full": "As at reduced scale: larger networks take weeks on two cores.",
    },
    tasks=tasks,
    run=run,
    describe=describe,
    conclude=conclude,
    network=recipe_of,
    coverage=dict.fromkeys(
        ("reduced", "full"),
        (
            Covered("data", "CIFAR-10 (45,000 images), CIFAR-100", "15,000 images of CIFAR-10"),
            Covered("networks", "ResNet-50, ResNet-110 and others", "ResNet-20"),
            Covered("augmentation", "shifts and flips", "none"),
            Covered("losses", "CE, Brier, MMCE, FL-1 to FL-3, FLSD-53 …", "in the finding"),
            Covered("epochs", "350, learning rate ÷ 10 at 150 and 250", "30, ÷ 10 at 15 and 26"),
            Covered("training error at the end", "about 0 %", "in the table"),
            Covered("seeds", "1", "in the finding"),
        ),
    ),
    changed_rules=(
        "While the networks were trained, claims that this experiment shares with others were "
        "reworded, and the interval of a distance was cut at 0; the first network had been "
        "evaluated by then. No claim changed sides. FLSD-53 was left out for want of time, not "
        "after a look at its numbers."
    ),
    packages=("numpy", "scipy", "torch"),
)
