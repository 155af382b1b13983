"""What a run reports: progress, results, a loss that became nan; and its folder."""

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from focalibrate._atomic import atomic_path
from focalibrate.calibrate import PosteriorRecovery
from focalibrate.engines import versions
from focalibrate.nn import FocalLoss
from focalibrate_papers.recipe import Recipe, read_recipe, write_recipe
from focalibrate_papers.train.checkpoint import CheckpointError, clear_leftovers, write_tensors
from focalibrate_papers.train.dynamics import Dynamics, Evaluated

RECIPE = "recipe.toml"
FILES = (RECIPE, "versions.json", "checkpoint.pt", "dynamics.npz", "dynamics.json")
TIME = "time.json"
RECOVERY = "recovery.json"
FINISHED = ("val.npz", "test.npz", TIME, RECOVERY, "model.pt")


@dataclass(frozen=True)
class Tick:
    """Progress of a run, for a progress bar."""

    epoch: int
    """epochs done"""
    epochs: int
    step: int
    """batches done in the current epoch"""
    steps: int
    loss: float
    """mean over the current epoch so far"""
    error: float | None = None
    """on the validation examples after the last epoch"""
    ece: float | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """The results of a finished run, which are also in its folder."""

    recipe: Recipe
    folder: Path
    model: nn.Module
    dynamics: Dynamics
    validation: Evaluated
    test: Evaluated
    seconds: float
    """time spent on steps, evaluation and checkpoints, without work lost to an interruption"""


def claim_run(out: Path, recipe: Recipe) -> None:
    """Make the folder of a run; raise if it holds a run of another recipe."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: exists and is not a folder. Name another with -o.")
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
        write_recipe(written, recipe)
    if not (out / "versions.json").exists():
        with atomic_path(out / "versions.json") as path:
            path.write_text(json.dumps(run_versions(), indent=1) + "\n")


def _check_same(out: Path, found: Recipe, recipe: Recipe) -> None:
    changed = [
        f"`{name}` is {getattr(found, name)!r} there and {value!r} now"
        for name, value in vars(recipe).items()
        if getattr(found, name) != value
    ]
    if changed:
        raise CheckpointError(
            f"{out}: holds a run of another recipe; {', '.join(changed)}. Name another folder "
            "with -o, or use the former recipe to continue."
        )


def run_versions() -> dict[str, str | int]:
    """Return the versions that a run depends on."""
    return {
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        **versions(("numpy", "scipy", "torch")),
    }


def run_recovery(recipe: Recipe) -> PosteriorRecovery | None:
    """Return the calibrator that undoes the loss of `recipe`, or None if there is none.

    There is one for a focal loss with one exponent, or with a schedule (its last exponent),
    without a penalty.
    """
    if recipe.loss != "focal" or recipe.trace_weight > 0:
        return None
    loss = FocalLoss(recipe.gamma, label_smoothing=recipe.label_smoothing)
    loss.set_epoch(recipe.epochs - 1, recipe.epochs)
    return loss.recovery() if isinstance(loss.gamma_now, float) else None


def write_results(run: Run, class_names: Sequence[str]) -> None:
    """Write dynamics, logits, time and weights, each file whole or not at all."""
    run.dynamics.save(run.folder)
    names = np.array(class_names)
    for name, seen in (("val.npz", run.validation), ("test.npz", run.test)):
        with atomic_path(run.folder / name, force=True) as path:
            np.savez(path, logits=seen.logits, labels=seen.labels, class_names=names)
    with atomic_path(run.folder / TIME, force=True) as path:
        path.write_text(json.dumps({"seconds": round(run.seconds, 1)}) + "\n")
    recovery = run_recovery(run.recipe)
    if recovery is not None:
        recovery.save(run.folder / RECOVERY)
    write_tensors(run.folder / "model.pt", run.model.state_dict())
