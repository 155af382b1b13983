"""Trained networks that experiments share: trained once, found again by their recipe."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from focalibrate.data import atomic_path
from focalibrate.experiments.experiment import Places

if TYPE_CHECKING:
    from focalibrate.train import Recipe

LOOK_EVERY = 4
"""Epochs between two looks at all of the test examples."""


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
    """of the last uninterrupted stretch of training"""


def trained(recipe: "Recipe", places: Places) -> Trained:
    """Return the outputs of the recipe's network, training it first if nobody has yet.

    Interrupted, it goes on at its checkpoint. Needs torch to train, not to look up.
    """
    folder = places.trained / recipe.key
    clock = folder / "seconds.json"
    if not (folder / "model.pt").exists() or not clock.exists():
        from focalibrate.train import train

        started = time.perf_counter()
        train(recipe, out=folder, directory=places.data, look_every=LOOK_EVERY)
        spent = time.perf_counter() - started
        with atomic_path(clock, force=True) as path:
            path.write_text(json.dumps({"seconds": round(spent, 1)}) + "\n")
    parts = {}
    for part in ("val", "test"):
        with np.load(folder / f"{part}.npz") as found:
            parts[part] = (found["logits"], found["labels"])
    with np.load(folder / "dynamics.npz") as found:
        dynamics = {name: found[name] for name in found.files}
    seconds = float(json.loads(clock.read_text())["seconds"])
    return Trained(folder, *parts["val"], *parts["test"], dynamics, seconds)
