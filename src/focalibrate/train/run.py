"""What a run tells: while it is under way, in the end, and when its loss is no number."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from focalibrate.train.dynamics import Dynamics, Evaluated
from focalibrate.train.recipe import Recipe


class NanLossError(ValueError):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class Tick:
    """Where a run is, for a progress bar."""

    epoch: int
    """epochs done"""
    epochs: int
    step: int
    """batches done of the present epoch"""
    steps: int
    loss: float
    """mean over the present epoch so far"""
    error: float | None = None
    """on the validation examples after the last epoch"""
    ece: float | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """What a finished run gives; the same is in its folder."""

    recipe: Recipe
    folder: Path
    model: nn.Module
    dynamics: Dynamics
    validation: Evaluated
    test: Evaluated
    seconds: float
    """time spent on steps, evaluation and checkpoints, without work lost to an interruption"""
