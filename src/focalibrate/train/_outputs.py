"""The folder of a run."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import nn

from focalibrate.data.atomic import atomic_path
from focalibrate.data.sets import Dataset
from focalibrate.train.checkpoint import CheckpointError, clear_leftovers, write_tensors
from focalibrate.train.dynamics import Dynamics, Evaluated
from focalibrate.train.recipe import Recipe
from focalibrate.train.toml import read_recipe, write_recipe

RECIPE = "recipe.toml"
FILES = (RECIPE, "versions.json", "checkpoint.pt", "dynamics.npz", "dynamics.json")
FINISHED = ("val.npz", "test.npz", "model.pt")


def claim_run(out: Path, recipe: Recipe) -> None:
    """Make the folder of a run, or raise where it holds a run of another recipe."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: exists and is no folder. Name another with -o.")
    out.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, *FINISHED):
        clear_leftovers(out / name)
    written = out / RECIPE
    if written.exists():
        _check_same(out, read_recipe(written), recipe)
    else:
        taken = [name for name in (*FILES[2:], *FINISHED) if (out / name).exists()]
        if taken:
            raise ValueError(
                f"{out}: holds {', '.join(taken)} of something else. Name another folder with -o."
            )
        write_recipe(recipe, written)
    if not (out / "versions.json").exists():
        with atomic_path(out / "versions.json") as path:
            path.write_text(json.dumps(versions(), indent=1) + "\n")


def _check_same(out: Path, found: Recipe, recipe: Recipe) -> None:
    changed = [
        f"`{name}` is {getattr(found, name)!r} there and {value!r} now"
        for name, value in vars(recipe).items()
        if getattr(found, name) != value
    ]
    if changed:
        raise CheckpointError(
            f"{out}: holds a run of another recipe; {', '.join(changed)}. Name another folder "
            "with -o, or take the recipe back to go on."
        )


def versions() -> dict[str, str | int]:
    """Return what a run depends on besides its recipe."""
    packages = {name: version(name) for name in ("focalibrate", "numpy", "scipy", "torch")}
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        **packages,
    }


def write_results(
    out: Path,
    dataset: Dataset,
    model: nn.Module,
    dynamics: Dynamics,
    validation: Evaluated,
    test: Evaluated,
) -> None:
    """Write dynamics, logits and weights, each file whole or not at all."""
    dynamics.save(out)
    names = np.array(dataset.class_names)
    for name, seen in (("val.npz", validation), ("test.npz", test)):
        with atomic_path(out / name, force=True) as path:
            np.savez(path, logits=seen.logits, labels=seen.labels, class_names=names)
    write_tensors(out / "model.pt", model.state_dict())
