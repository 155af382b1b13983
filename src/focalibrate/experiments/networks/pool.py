"""Networks of the pool as tasks, and two losses compared on them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from focalibrate.experiments.engine.experiment import Rows, Scale, Task
from focalibrate.experiments.engine.verdict import Interval, mean_interval
from focalibrate.experiments.networks.recipes import SHOWN, Problem, losses_of, network_recipe

if TYPE_CHECKING:
    from focalibrate.train import Recipe

SEEDS: Mapping[Scale, tuple[int, ...]] = {
    "smallest": (0, 1),
    "reduced": (0, 1, 2),
    "full": (0, 1, 2),
}
SET_NAMES: Mapping[Problem, str] = {
    "cifar10": "CIFAR-10",
    "fashion_mnist": "Fashion-MNIST",
    "20newsgroups": "20 Newsgroups",
    "sst_binary": "SST binary",
}
UNPUBLISHED: tuple[Problem, ...] = ("fashion_mnist",)
"""Problems of the pool that no paper covers: they answer questions of our own."""
TOO_FEW: tuple[Problem, ...] = ("20newsgroups",)
"""Trained on a quarter of the texts, these have a far higher error rate than paper 002's network:
their numbers are shown at reduced scale, and nothing is concluded from them."""
SMALLEST = (
    "Generated examples on a line and a network of 16 hidden units for every data set: this only "
    "tests that the experiment runs; nothing can be concluded."
)


def pool_tasks(
    experiment: str, scale: Scale, *, problems: Sequence[Problem], losses: Sequence[str]
) -> list[Task]:
    """Return a task for every network of `problems` and `losses` in the pool at this scale."""
    if scale == "smallest":
        problems, losses = problems[:1], ("ce", "fl3")
    return [
        Task.of(experiment, problem=problem, loss=loss, seed=seed, scale=scale)
        for problem in problems
        for loss in losses
        if loss in losses_of(problem, scale=scale)
        for seed in SEEDS[scale]
    ]


def pool_recipe(task: Task) -> "Recipe":
    """Return how the task's network is trained."""
    return network_recipe(task["problem"], task["loss"], seed=task["seed"], scale=task["scale"])


def describe_network(task: Task) -> tuple[str, int]:
    """Return recipe and seed of a task, as the rows name them."""
    return network_name(task["problem"], task["loss"]), task["seed"]


def network_name(problem: Problem, loss: str) -> str:
    """Return the set and the loss, such as ``"CIFAR-10 FL-3"``."""
    return f"{SET_NAMES[problem]} {SHOWN[loss]}"


def problems_in(rows: Rows) -> list[Problem]:
    """Return the problems that have rows."""
    found = rows.recipes()
    return [
        problem
        for problem in SET_NAMES
        if any(network_name(problem, loss) in found for loss in SHOWN)
    ]


def losses_in(rows: Rows, problem: Problem) -> list[str]:
    """Return the losses of a problem that have rows, in the order of the tables."""
    found = rows.recipes()
    return [loss for loss in SHOWN if network_name(problem, loss) in found]


def difference(rows: Rows, recipe: str, against: str, metric: str) -> Interval | None:
    """Return the mean over seeds of `recipe` − `against`, paired; None if there are no pairs."""
    ours, other = rows.by_seed(recipe, metric), rows.by_seed(against, metric)
    seeds = sorted(ours.keys() & other.keys())
    return mean_interval([ours[s] - other[s] for s in seeds]) if seeds else None


def spread_text(rows: Rows, recipe: str, metric: str, *, digits: int = 2) -> str:
    """Return mean ± standard deviation over the seeds; a dash without rows."""
    x = rows.values(recipe, metric)
    if x.size == 0:
        return "–"
    spread = f" ± {x.std(ddof=1):.{digits}f}" if x.size > 1 else ""
    return f"{np.mean(x):.{digits}f}{spread}"
