"""One run over several processes started by ``torchrun``."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from focalibrate.train.recipe import Recipe


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many."""

    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def share(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
        """Return this process's part of a batch, and whether it counts.

        If there are fewer rows than processes, some parts would be empty; such a process takes the
        first row and multiplies its loss by 0, as all must take part in the sum of gradients.
        """
        part = np.array_split(rows, self.world)[self.rank]
        return (part, True) if len(part) else (rows[:1], False)

    def sum(self, value: float) -> float:
        """Return the sum of a number over all processes."""
        if self.world == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64)
        distributed.all_reduce(tensor)
        return float(tensor)


@contextmanager
def joined_ranks(recipe: Recipe) -> Iterator[Ranks]:
    """Join the other processes if ``torchrun`` started this one; else run alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    if "mmce" in recipe.loss or recipe.trace_weight > 0:
        raise ValueError(
            f"the loss {recipe.loss!r} with trace_weight={recipe.trace_weight:g} is not a sum "
            "over examples, so it cannot be divided over processes. Start one without torchrun."
        )
    ours = not distributed.is_initialized()
    if ours:
        distributed.init_process_group("gloo")
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size())
    finally:
        if ours:
            distributed.destroy_process_group()
