"""The networks that experiments share: recipes, outputs, cross-fitting, comparisons by seed."""

import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import linregress

from focalibrate.calibrate import CalibrationWarning, TemperatureScaling, fit_temperature
from focalibrate_papers.engine import Folders, Interval, Rows, Scale, Task, mean_interval
from focalibrate_papers.recipe import Recipe
from focalibrate_papers.recipes import (
    CIFAR,
    LINE,
    MMCE_WEIGHT_IMAGES,
    MMCE_WEIGHT_TEXT,
    NEWSGROUPS,
    SHORT_CIFAR,
    SMOOTHING_OF_000,
    TREES,
    loss_settings,
)
from focalibrate_papers.recipes import LOSSES as LABELS

Problem = Literal["cifar10", "fashion_mnist", "20newsgroups", "sst_binary"]
PROBLEMS: tuple[Problem, ...] = ("cifar10", "fashion_mnist", "20newsgroups", "sst_binary")
SHOWN = {**LABELS, "ls": "LS-0.1"}
ONLY_OF_002 = ("fls531", "fls532", "flsd532")
"""Schedules and thresholds that only paper 002's appendix has."""
LOSSES = tuple(loss for loss in SHOWN if loss not in ONLY_OF_002)
"""The losses of the pool, in the order of the tables."""
GAMMA = {"ce": 0.0, "fl1": 1.0, "fl2": 2.0, "fl3": 3.0, "fl5": 5.0, "fl7": 7.0}
"""The losses that are the focal loss with one exponent."""
REDUCED_LOSSES: Mapping[Problem, tuple[str, ...]] = {
    "cifar10": ("ce", "fl1", "fl2", "fl3", "flsd53"),
    "fashion_mnist": LOSSES,
    "20newsgroups": ("ce", "fl3", "flsd53"),
    "sst_binary": ("ce", "fl3", "flsd53"),
}
"""What two cores can train; the small networks of Fashion-MNIST cover every loss."""
TEXT: tuple[Problem, ...] = ("20newsgroups", "sst_binary")


def losses_of(problem: Problem, *, scale: Scale) -> tuple[str, ...]:
    """Return the losses of a problem's networks at a scale, in the order of the tables."""
    return REDUCED_LOSSES[problem] if scale == "reduced" else LOSSES


def network_recipe(problem: Problem, loss: str, *, seed: int, scale: Scale) -> Recipe:
    """Return the recipe of one network of the pool.

    Full size is paper 002's protocol; reduced is what two cores train in minutes. The reduced
    image networks see 10,000 images without augmentation, in batches of 64 with one drop of the
    learning rate, so that within few epochs they fit their training examples and become
    overconfident.
    """
    base = _BASES[scale](problem)
    weight = MMCE_WEIGHT_TEXT if problem in TEXT else MMCE_WEIGHT_IMAGES
    fields: dict[str, Any] = loss_settings(
        loss, label_smoothing=SMOOTHING_OF_000, mmce_weight=weight
    )
    return replace(base, seed=seed, **fields)


def _full(problem: Problem) -> Recipe:
    fashion = replace(CIFAR, dataset="fashion_mnist", model="resnet20", augmentation="none")
    return {
        "cifar10": CIFAR,
        "fashion_mnist": fashion,
        "20newsgroups": NEWSGROUPS,
        "sst_binary": TREES,
    }[problem]


def _reduced(problem: Problem) -> Recipe:
    full = _full(problem)
    few: dict[Problem, dict[str, Any]] = {
        "cifar10": {
            "model": "resnet8",
            "augmentation": "none",
            "fraction": 10 / 45,
            "epochs": 24,
            "batch": 64,
            "milestones": (0.36,),
        },
        "fashion_mnist": {
            "model": "mlp",
            "size": (("hidden", (100, 100)),),
            "fraction": 1 / 6,
            "epochs": 40,
            "batch": 64,
            "lr": 0.05,
            "milestones": (0.5,),
        },
        "20newsgroups": {
            "size": (("pool_stride", 5),),
            "fraction": 0.25,
            "epochs": 20,
            "batch": 32,
        },
        "sst_binary": {"epochs": 10},
    }
    short = replace(full, **few[problem])
    return replace(short, scale=round(short.epochs / full.epochs, 4))


def _smallest(problem: Problem) -> Recipe:
    """Return a recipe of about a second on generated examples, the same for every problem."""
    del problem
    return replace(LINE, size=(("hidden", (16,)),), epochs=4, fraction=0.1, scale=0.01)


_BASES = {"full": _full, "reduced": _reduced, "smallest": _smallest}


def long_recipe(name: str, loss: str, *, seed: int) -> Recipe:
    """Return the recipe of one network of the long trainings, see `queue`.

    ``fashion``: ResNet-8 on all of Fashion-MNIST with augmentation, which overfits only a little.
    ``cifar10_s``: ResNet-8 on a tenth of CIFAR-10, as paper 000 has it, for a quarter of its
    epochs. ``interpolating``: ResNet-20 on a third of CIFAR-10 without augmentation, to about 0 %
    training error, the regime that papers 002 to 004 are about. ``column``: ResNet-20 on all
    45,000 training images with augmentation, paper 002's protocol in a fifteenth of its epochs.
    """
    full, few = {
        "fashion": (SHORT_CIFAR, {"dataset": "fashion_mnist", "model": "resnet8", "epochs": 15}),
        "cifar10_s": (SHORT_CIFAR, {"dataset": "cifar10_s", "model": "resnet8", "epochs": 50}),
        "interpolating": (CIFAR, _INTERPOLATING),
        "column": (CIFAR, _COLUMN),
    }[name]
    fields: dict[str, Any] = {"milestones": (0.4, 0.75), **few, **loss_settings(loss)}
    scale = round(fields["epochs"] / full.epochs, 4)
    return replace(full, **fields, scale=scale, seed=seed)


_INTERPOLATING: dict[str, Any] = {
    "model": "resnet20",
    "augmentation": "none",
    "precision": "bfloat16",
    "fraction": 1 / 3,
    "epochs": 30,
    "batch": 64,
    "lr": 0.05,
    "milestones": (0.5, 0.85),
}
_COLUMN: dict[str, Any] = {
    "model": "resnet20",
    "precision": "bfloat16",
    "epochs": 24,
    "milestones": (150 / 350, 250 / 350),
}


CLOCK = "time.json"
LOOK_EVERY = 4
"""Epochs between two evaluations on all test examples."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A finished network's outputs."""

    folder: Path
    """of the run, as `focalibrate train` fills it"""
    validation_logits: NDArray[np.float32]
    validation_labels: NDArray[np.int64]
    test_logits: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    dynamics: dict[str, NDArray[np.float64]]
    """as `focalibrate_papers.train.Dynamics.arrays`"""
    seconds: float
    """of training, from time.json in the folder; nan if there is none"""

    @property
    def fold(self) -> "Fold":
        """Validation rows to fit on and test rows to evaluate on, as papers 002 and 003 do."""
        return Fold(
            self.validation_logits.astype(np.float64),
            self.validation_labels,
            self.test_logits.astype(np.float64),
            self.test_labels,
        )


def is_trained(recipe: Recipe, folders: Folders) -> bool:
    """Return whether the recipe's network is in the folder and finished."""
    folder = folders.trained / recipe.key
    return (folder / "model.pt").exists() and (folder / CLOCK).exists()


def trained(recipe: Recipe, folders: Folders) -> Trained:
    """Return the outputs of the recipe's network, after training it if necessary.

    An interrupted training resumes at its checkpoint. Needs torch only to train.
    """
    folder = folders.trained / recipe.key
    if not is_trained(recipe, folders):
        from focalibrate_papers.train import train

        train(recipe, out=folder, data=folders.data, look_every=LOOK_EVERY)
    parts = {}
    for part in ("val", "test"):
        with np.load(folder / f"{part}.npz") as found:
            parts[part] = (found["logits"], found["labels"])
    with np.load(folder / "dynamics.npz") as found:
        dynamics = {name: found[name] for name in found.files}
    return Trained(folder, *parts["val"], *parts["test"], dynamics, _seconds(folder))


def _seconds(folder: Path) -> float:
    spent = json.loads((folder / CLOCK).read_text())["seconds"]
    return math.nan if spent is None else float(spent)


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


def pool_recipe(task: Task) -> Recipe:
    """Return how the task's network is trained."""
    return network_recipe(task["problem"], task["loss"], seed=task["seed"], scale=task["scale"])


def by_problem(rows: Rows) -> dict[Problem, Rows]:
    """Return the rows of each problem in the order of the tables; CIFAR-10 if none is named."""
    found = rows.each("problem")
    if found == [None]:
        return {"cifar10": rows}
    return {problem: rows.of(problem=problem) for problem in SET_NAMES if problem in found}


def losses_in(rows: Rows) -> list[str]:
    """Return the losses that have rows, in the order of the tables."""
    found = rows.each("loss")
    return [loss for loss in SHOWN if loss in found]


def difference(rows: Rows, loss: str, against: str, metric: str) -> Interval | None:
    """Return the mean over seeds of `loss` − `against`, paired; None if there are no pairs."""
    gaps = paired(rows, loss, against, metric)
    return mean_interval([*gaps.values()]) if gaps else None


def paired(rows: Rows, loss: str, against: str, metric: str) -> dict[int, float]:
    """Return `loss` − `against` for each seed that both have."""
    ours, other = (rows.by_seed(metric, loss=name) for name in (loss, against))
    return {seed: ours[seed] - other[seed] for seed in ours if seed in other}


SPLIT_SEED = 0
"""Random seed of the halves, the same for all networks of a problem."""


def halves(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row numbers of two random halves of `n` rows, each in ascending order."""
    order = np.random.default_rng(SPLIT_SEED).permutation(n)
    return np.sort(order[: n // 2]), np.sort(order[n // 2 :])


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit on and rows to evaluate on."""

    fit_logits: NDArray[np.float64]
    fit_labels: NDArray[np.int64]
    logits: NDArray[np.float64]
    labels: NDArray[np.int64]


def folds(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> tuple[Fold, Fold]:
    """Return the two ways to fit on a random half of the rows and evaluate on the other.

    Numbers are averaged over the two. The rows are not pooled: a half that is easy by chance makes
    the other overconfident and itself underconfident, and in a calibration error over all rows the
    two would cancel.
    """
    z = np.asarray(logits, dtype=np.float64)
    first, second = ((z[part], labels[part]) for part in halves(len(labels)))
    return Fold(*first, *second), Fold(*second, *first)


@contextmanager
def quiet() -> Iterator[None]:
    """Fit without warnings of a minimum at the edge of the grid, which the rows show."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        yield


def best_temperature(
    part: Fold, criterion: Literal["ece", "adaptive_ece"] = "ece"
) -> TemperatureScaling:
    """Return the temperature that minimises `criterion` on paper 002's grid, with 15 bins.

    The grid is 0.1 to 10 by 0.1.
    """
    with quiet():
        found = fit_temperature(part.fit_logits, part.fit_labels, criterion=criterion)
    return TemperatureScaling(found.temperature)


@dataclass(frozen=True)
class StraightLine:
    """A straight line through points, by least squares."""

    slope: float
    intercept: float
    r2: float
    """share of the variance the line explains"""
    n_points: int


def fit_line(x: NDArray[np.float64], y: NDArray[np.float64]) -> StraightLine:
    """Return the least-squares line of `y` on `x`; nan for fewer than 3 points."""
    if len(x) < 3:
        return StraightLine(math.nan, math.nan, math.nan, len(x))
    found = linregress(x, y)
    r2 = float(found.rvalue) ** 2 if np.ptp(y) > 0 else 1.0
    return StraightLine(float(found.slope), float(found.intercept), r2, len(x))


def mean_of_known(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the mean of the values that are not nan; nan if there are none."""
    x = np.asarray(values, dtype=np.float64)
    known = x[~np.isnan(x)]
    return float(known.mean()) if known.size else math.nan
