"""What happens to a network's confidence while it is trained (E6)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.conclude import concluding, plainly
from focalibrate.experiments.engine.experiment import (
    Covered,
    Experiment,
    Folders,
    Numbers,
    Scale,
    Task,
)
from focalibrate.experiments.networks.pool import (
    SMALLEST,
    describe_network,
    pool_recipe,
    pool_tasks,
)
from focalibrate.experiments.networks.recipes import Problem
from focalibrate.experiments.networks.trained import trained
from focalibrate.experiments.paper002.dynamics.claims import claims, finding
from focalibrate.experiments.paper002.dynamics.figures import (
    BRIEF,
    CURVES_OF_ALL,
    CURVES_OF_CE,
    IN_FIGURE_4,
    charts,
    end_table,
)

if TYPE_CHECKING:
    from focalibrate.train import Recipe

Arrays = Mapping[str, NDArray[np.float64]]

NAME = "dynamics"
PROBLEMS: tuple[Problem, ...] = ("cifar10", "fashion_mnist")
LOSSES = ("ce", "fl1", "fl2", "fl3", "flsd53")
FIGURES = (
    "nll",
    "nll_correct",
    "nll_incorrect",
    "entropy_incorrect",
    "p_true_correct",
    "p_true_incorrect",
    "error",
    "ece",
)
RISES = ("nll", "nll_correct", "nll_incorrect", "ece")
N_POINTS = 25
"""Most points of a curve."""
LOW, HIGH = -6.0, 2.0
"""Powers of ten between which gradient norms are shown; others are counted at the ends."""


def tasks(scale: Scale) -> list[Task]:
    """Return one task per network."""
    return pool_tasks(NAME, scale, problems=PROBLEMS, losses=LOSSES)


def run(task: Task, folders: Folders) -> Numbers:
    """Return the curves of the network's training and the numbers that claims are judged by."""
    recipe = pool_recipe(task)
    seen = trained(recipe, folders).dynamics
    if task["problem"] == PROBLEMS[0]:
        return [*training_numbers(recipe, seen, loss=task["loss"])]
    return [*_whole_run(seen, drop=first_drop(recipe)), *_curves(seen, BRIEF)]


def training_numbers(recipe: "Recipe", seen: Arrays, *, loss: str) -> Numbers:
    """Yield what claims are judged by, and all that the paper's four figures show of a loss."""
    yield from _whole_run(seen, drop=first_drop(recipe))
    yield from _curves(seen, CURVES_OF_CE if loss == "ce" else CURVES_OF_ALL)
    if loss in IN_FIGURE_4:
        yield from _gradients(seen)
    if loss == "ce":
        yield from _reliability(seen)


def first_drop(recipe: "Recipe") -> int:
    """Return the first epoch, from 0, with a lower learning rate; half-way if it never falls."""
    return recipe.milestone_epochs[0] if recipe.milestone_epochs else recipe.epochs // 2


def _whole_run(seen: Arrays, *, drop: int) -> Iterator[tuple[str, float]]:
    """Yield the numbers at the end and before the drop, and the rises since the drop."""
    for figure in FIGURES:
        yield from _kept(f"test {figure}", seen[f"test_{figure}"][-1])
    yield "train error", float(seen["train_error"][-1])
    for figure in RISES:
        curve = seen[f"validation_{figure}"]
        yield from _kept(f"rise of {figure}", curve[-1] - curve[drop])
    yield "weight norm before the drop", float(seen["weight_norm"][:drop].mean())
    yield "weight norm", float(seen["weight_norm"][-1])
    looks = looked_at(seen)
    for name, epoch in (("first", looks[0]), ("last", looks[-1])):
        middle = median_of(seen["train_gradient_histogram"][epoch], seen["gradient_edges"])
        yield f"log10 gradient norm, {name} look", middle


def _kept(name: str, value: float) -> Iterator[tuple[str, float]]:
    """Yield a number unless it is nan, as the mean over no examples is."""
    if not np.isnan(value):
        yield name, float(value)


def looked_at(seen: Arrays) -> list[int]:
    """Return the epochs, from 0, at which training and test examples were evaluated."""
    return [int(e) for e in np.flatnonzero(~np.isnan(seen["test_error"]))]


def median_of(counts: NDArray[np.float64], edges: NDArray[np.float64]) -> float:
    """Return the power of ten of the median of a histogram, interpolated within its bin.

    The first edge is 0 and the last infinite; values in those bins are taken at their finite edge.
    """
    at = np.log10(np.concatenate([edges[1:2], edges[1:-1], edges[-2:-1]]))
    below = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
    place = int(np.searchsorted(below, 0.5)) - 1
    share = (0.5 - below[place]) / (below[place + 1] - below[place])
    return float(at[place] + share * (at[place + 1] - at[place]))


def _curves(seen: Arrays, names: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    """Yield figures per epoch, counted from 1; those of training examples when evaluated."""
    n, looks = len(seen["weight_norm"]), looked_at(seen)
    shown = sorted({*range(0, n, -(-n // N_POINTS)), n - 1})
    for name in names:
        curve = seen[name.replace(" ", "_")]
        for e in looks if name.startswith("train") else shown:
            if not np.isnan(curve[e]):
                yield name, _short(curve[e]), float(e + 1)


def _gradients(seen: Arrays) -> Iterator[tuple[str, float, float]]:
    """Yield histograms over training examples of log10 of the gradient norm, at three epochs."""
    at = np.clip(np.log10(np.maximum(seen["gradient_edges"][:-1], 1e-99)), LOW, HIGH)
    place = np.rint(5 * (at - LOW)).astype(np.intp)
    looks = looked_at(seen)
    for when, epoch in zip(("early", "middle", "late"), spaced(looks, 3), strict=True):
        counts = np.bincount(place, seen["train_gradient_histogram"][epoch])
        for i, share in enumerate(counts / counts.sum()):
            yield f"gradients, {when}", _short(share), round(LOW + i / 5, 1)
        yield f"epoch of gradients, {when}", float(epoch + 1), float("nan")


def _reliability(seen: Arrays) -> Iterator[tuple[str, float, float]]:
    """Yield fraction and accuracy per confidence bin of training examples, at four epochs."""
    for i, epoch in enumerate(spaced(looked_at(seen), 4), start=1):
        count, _, correct = seen["train_reliability"][epoch]
        middle = (np.arange(count.size) + 0.5) / count.size
        for b, at in enumerate(middle):
            yield f"share of bin, look {i}", _short(count[b] / count.sum()), round(float(at), 4)
            if count[b] > 0:
                yield f"accuracy of bin, look {i}", _short(correct[b] / count[b]), round(at, 4)
        yield f"epoch of look {i}", float(epoch + 1), float("nan")


def spaced(looks: list[int], n: int) -> list[int]:
    """Return `n` of the epochs, evenly spaced from the first to the last; repeated if too few."""
    return [looks[round(i * (len(looks) - 1) / (n - 1))] for i in range(n)]


def _short(value: float) -> float:
    """Return five digits, enough for a curve."""
    return float(f"{value:.5g}")


conclude = concluding(
    NAME,
    plainly,
    claims=claims,
    tables=end_table,
    charts=charts,
    finding=finding,
)


EXPERIMENT = Experiment(
    name=NAME,
    code="E6",
    source="Paper 002, Figures 1–4 and Sections 3–4",
    title="How training makes networks overconfident, and how focal loss reduces it",
    protocol=(
        "Measured after each epoch while a network is trained: NLL, entropy and probability of "
        "the true class, separately for right and wrong predictions; error, ECE, norm of the "
        "last layer's weights, and for each training example the norm of the last layer's "
        "gradient. A rise is the value on the validation examples after the last epoch − that "
        "after the first epoch with a lower learning rate (the paper's epoch 150). Comparisons "
        "of two losses at the end use all test examples. Means over seeds; differences are "
        "paired by seed."
    ),
    smaller={
        "smallest": SMALLEST,
        "reduced": (
            "ResNet-8 on 10,000 CIFAR-10 images without augmentation, 24 epochs with one drop of "
            "the learning rate after 9, instead of ResNet-50 on 45,000 and 350 epochs with two. "
            "An MLP of two hidden layers on 9,000 images of Fashion-MNIST, 40 epochs, drop after "
            "20, which the paper does not have. Curves are for the validation examples (1,111 of "
            "CIFAR-10), the paper's are for the test examples; training and test examples are "
            "evaluated every fourth epoch. Nothing can be concluded about effects that need "
            "hundreds of epochs or a network that fits its training examples without error."
        ),
        "full": "",
    },
    tasks=tasks,
    run=run,
    describe=describe_network,
    conclude=conclude,
    network=pool_recipe,
    coverage={
        "reduced": (
            Covered("data", "CIFAR-10 (45,000 images)", "10,000 images of CIFAR-10"),
            Covered("data of ours", "–", "9,000 images of Fashion-MNIST"),
            Covered("networks", "ResNet-50", "ResNet-8; an MLP on Fashion-MNIST"),
            Covered("losses", "CE, FL-1, FL-2, FL-3", "CE, FL-1, FL-2, FL-3"),
            Covered("epochs", "350, learning rate ÷ 10 at 150 and 250", "24, ÷ 10 at 9"),
            Covered("training error at the end", "0 %", "in the table"),
            Covered("seeds", "1", "3"),
        ),
    },
    changed_rules=(
        "Rules changed after the results were seen: a claim can be undecided; what is measured "
        "on Fashion-MNIST is a question of our own, and so is its probability of right "
        "predictions, which had counted as not run at full size."
    ),
    packages=("numpy", "scipy", "torch"),
)
