"""The networks that the experiments on real data train, per scale."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from focalibrate.experiments.engine.experiment import Scale
from focalibrate.losses import LOSSES as LABELS
from focalibrate.losses import (
    MMCE_WEIGHT_IMAGES,
    MMCE_WEIGHT_TEXT,
    SMOOTHING_OF_000,
    loss_settings,
)

if TYPE_CHECKING:
    from focalibrate.train import Recipe

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


def network_recipe(problem: Problem, loss: str, *, seed: int, scale: Scale) -> "Recipe":
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


def _full(problem: Problem) -> "Recipe":
    from focalibrate.train.named import CIFAR, NEWSGROUPS, TREES

    fashion = replace(CIFAR, dataset="fashion_mnist", model="resnet20", augmentation="none")
    return {
        "cifar10": CIFAR,
        "fashion_mnist": fashion,
        "20newsgroups": NEWSGROUPS,
        "sst_binary": TREES,
    }[problem]


def _reduced(problem: Problem) -> "Recipe":
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


def _smallest(problem: Problem) -> "Recipe":
    """Return a recipe of about a second on generated examples, the same for every problem."""
    from focalibrate.train.named import LINE

    del problem
    return replace(LINE, size=(("hidden", (16,)),), epochs=4, fraction=0.1, scale=0.01)


_BASES = {"full": _full, "reduced": _reduced, "smallest": _smallest}


def long_recipe(name: str, loss: str, *, seed: int) -> "Recipe":
    """Return the recipe of one network of the long trainings, see `queue`.

    ``fashion``: ResNet-8 on all of Fashion-MNIST with augmentation, which overfits only a little.
    ``cifar10_s``: ResNet-8 on a tenth of CIFAR-10, as paper 000 has it, for a quarter of its
    epochs. ``interpolating``: ResNet-20 on a third of CIFAR-10 without augmentation, to about 0 %
    training error, the regime that papers 002 to 004 are about.
    """
    from focalibrate.train.named import CIFAR, SHORT_CIFAR

    full, few = {
        "fashion": (SHORT_CIFAR, {"dataset": "fashion_mnist", "model": "resnet8", "epochs": 15}),
        "cifar10_s": (SHORT_CIFAR, {"dataset": "cifar10_s", "model": "resnet8", "epochs": 50}),
        "interpolating": (CIFAR, _INTERPOLATING),
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
