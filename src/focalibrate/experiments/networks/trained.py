"""Trained networks that experiments share: trained once, then found by their recipe."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.experiment import Folders

if TYPE_CHECKING:
    from focalibrate.train import Recipe

CLOCK = "time.json"
COMMIT = "commit"
"""File with the commit of the code that trained a network, if that is known."""
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
    """as `focalibrate.train.Dynamics.arrays`"""
    seconds: float
    """of training, from time.json in the folder; nan if there is none"""


def is_trained(recipe: "Recipe", folders: Folders) -> bool:
    """Return whether the recipe's network is in the folder and finished."""
    folder = folders.trained / recipe.key
    return (folder / "model.pt").exists() and (folder / CLOCK).exists()


def trained(recipe: "Recipe", folders: Folders) -> Trained:
    """Return the outputs of the recipe's network, after training it if necessary.

    An interrupted training resumes at its checkpoint. Needs torch only to train.
    """
    folder = folders.trained / recipe.key
    if not is_trained(recipe, folders):
        from focalibrate.train import train

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
