"""The networks of `focal-temperature`, and its rows by problem and loss."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.experiment import Rows, Scale
from focalibrate.experiments.networks.pool import TOO_FEW, network_name
from focalibrate.experiments.networks.recipes import GAMMA, Problem
from focalibrate.experiments.networks.trend import StraightLine, fit_line

PAPER_LOSSES = ("ce", "fl1", "fl2", "fl3", "fl5", "fl7", "flsd53", "adafocal")
LOSSES: Mapping[Scale, Mapping[Problem, tuple[str, ...]]] = {
    "smallest": {"cifar10": ("ce", "fl1", "fl3")},
    "reduced": {
        "cifar10": ("ce", "fl1", "fl2", "fl3", "flsd53"),
        "fashion_mnist": PAPER_LOSSES,
        "20newsgroups": ("ce", "fl3", "flsd53"),
    },
    "full": {"cifar10": PAPER_LOSSES, "fashion_mnist": PAPER_LOSSES},
}
"""The paper's losses that the pool has."""
SEEDS: Mapping[Scale, int] = {"smallest": 2, "reduced": 3, "full": 5}
FEWEST_GAMMAS = 3
"""Losses with one exponent each, for a trend over the exponents of a problem."""


@dataclass(frozen=True)
class ScalingRows:
    """The rows of a run, selected by problem and loss."""

    rows: Rows
    scale: Scale

    @property
    def losses(self) -> Mapping[Problem, tuple[str, ...]]:
        """Return the losses of each problem."""
        return LOSSES[self.scale]

    @property
    def concluded(self) -> Mapping[Problem, tuple[str, ...]]:
        """Return the losses of the problems that conclusions are drawn from."""
        return {p: own for p, own in self.losses.items() if p not in TOO_FEW}

    def values(self, metric: str, problem: Problem, loss: str) -> NDArray[np.float64]:
        """Return a number per seed, as measured."""
        return self.rows.values(network_name(problem, loss), metric)

    def gap(
        self, metric: str, problem: Problem, loss: str, *, first: str, second: str
    ) -> NDArray[np.float64]:
        """Return a metric of one method − that of another, per seed."""
        ours = self.values(f"{metric}, {first}", problem, loss)
        return ours - self.values(f"{metric}, {second}", problem, loss)

    def focal(self, problem: Problem) -> list[str]:
        """Return the problem's losses that have one exponent, 0 among them, in its order."""
        return [loss for loss in self.losses[problem] if loss in GAMMA]

    def line(
        self, problem: Problem, loss: str, *, seed: int, largest: float = np.inf
    ) -> StraightLine:
        """Return the line of the best T on the exponent of the map up to `largest`."""
        at, best = self.rows.curve(network_name(problem, loss), "best T", seed=seed)
        return fit_line(at[at <= largest], best[at <= largest])
