"""What a run reports: progress, results, and a loss that became nan."""

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from focalibrate_papers.recipe import Recipe
from focalibrate_papers.train.dynamics import Dynamics, Evaluated


class NanLossError(ValueError):
    """The loss is no longer a number."""


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
