"""Trained networks that experiments share: trained once, found again by their recipe."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.experiment import Places

if TYPE_CHECKING:
    from focalibrate.train import Recipe

LOOK_EVERY = 4
"""Epochs between two looks at all of the test examples."""
CLOCKS = ("time.json", "seconds.json")
"""Files that tell how long training took; the second, of folders made before there was a first,
only of its last uninterrupted stretch."""


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
    """of training, as time.json of the folder says; nan where nothing does"""


def trained(recipe: "Recipe", places: Places) -> Trained:
    """Return the outputs of the recipe's network, training it first if nobody has yet.

    Interrupted, it goes on at its checkpoint. Needs torch to train, not to look up.
    """
    folder = places.trained / recipe.key
    if not (folder / "model.pt").exists() or not any((folder / name).exists() for name in CLOCKS):
        from focalibrate.train import train

        train(recipe, out=folder, data=places.data, look_every=LOOK_EVERY)
    parts = {}
    for part in ("val", "test"):
        with np.load(folder / f"{part}.npz") as found:
            parts[part] = (found["logits"], found["labels"])
    with np.load(folder / "dynamics.npz") as found:
        dynamics = {name: found[name] for name in found.files}
    return Trained(folder, *parts["val"], *parts["test"], dynamics, _seconds(folder))


def _seconds(folder: Path) -> float:
    for name in CLOCKS:
        if (folder / name).exists():
            spent = json.loads((folder / name).read_text())["seconds"]
            if spent is not None:
                return float(spent)
    return math.nan
