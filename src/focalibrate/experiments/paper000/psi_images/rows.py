"""The networks of `psi-images`, and its rows by problem, paradigm and exponent."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.experiment import Rows, Scale
from focalibrate.experiments.networks.pool import network_name
from focalibrate.experiments.networks.recipes import Problem

LOSS = {0: "ce", 1: "fl1", 2: "fl2", 3: "fl3"}
"""Loss of the pool by gamma."""
SEEDS: Mapping[Scale, int] = {"smallest": 2, "reduced": 3, "full": 10}
PROBLEMS: Mapping[Scale, tuple[Problem, ...]] = {
    "smallest": ("fashion_mnist",),
    "reduced": ("cifar10", "fashion_mnist"),
    "full": ("cifar10", "fashion_mnist"),
}
GAMMAS: dict[Scale, tuple[int, ...]] = {
    "smallest": (0, 1, 3),
    "reduced": (0, 1, 2, 3),
    "full": (0, 1, 2, 3),
}
SMOOTHED_GAMMAS: Mapping[Scale, tuple[int, ...]] = GAMMAS | {"reduced": (0, 1, 2)}
"""Exponents of the networks trained with smoothed labels, which only this experiment trains."""
PARADIGMS = ("Standard", "TS_FL", "LS")
WITHOUT = {"Standard": "raw", "TS_FL": "TS_FL", "LS": "raw"}
"""The name in the rows of a paradigm's probabilities without Ψ."""
WITH = {"Standard": "Ψ", "TS_FL": "TS_FL+Ψ", "LS": "Ψ"}


def paradigms(problem: Problem, scale: Scale) -> tuple[str, ...]:
    """Return the paradigms of a problem; at reduced scale CIFAR-10 has no smoothed networks."""
    return PARADIGMS[:2] if scale == "reduced" and problem == "cifar10" else PARADIGMS


def recipe_name(problem: Problem, gamma: int, *, is_smoothed: bool) -> str:
    """Return the name of a network in the rows."""
    return network_name(problem, LOSS[gamma]) + (" and LS" if is_smoothed else "")


@dataclass(frozen=True)
class Setting:
    """One curve of the paper's Fig. 5 and 6."""

    problem: Problem
    paradigm: str


@dataclass(frozen=True)
class PsiRows:
    """The rows of a run, selected by setting and gamma."""

    rows: Rows
    scale: Scale

    def gammas(self, setting: Setting) -> tuple[int, ...]:
        """Return the exponents of a setting, 0 first."""
        return (SMOOTHED_GAMMAS if setting.paradigm == "LS" else GAMMAS)[self.scale]

    @property
    def settings(self) -> list[Setting]:
        """Return the problems and paradigms that have rows."""
        return [
            Setting(problem, paradigm)
            for problem in PROBLEMS[self.scale]
            for paradigm in paradigms(problem, self.scale)
        ]

    def values(
        self, metric: str, setting: Setting, gamma: int, *, is_after: bool
    ) -> NDArray[np.float64]:
        """Return a number per seed, fractions in percent; `is_after`: with Ψ."""
        method = (WITH if is_after else WITHOUT)[setting.paradigm]
        unit = 1.0 if metric == "nll" else 100.0
        return unit * self.rows.values(self.recipe(setting, gamma), f"{metric}, {method}")

    def recipe(self, setting: Setting, gamma: int) -> str:
        """Return the name of a setting's network."""
        return recipe_name(setting.problem, gamma, is_smoothed=setting.paradigm == "LS")

    def change(self, setting: Setting, gamma: int) -> NDArray[np.float64]:
        """Return by how many points Ψ changes the ECE, per seed."""
        after = self.values("ece", setting, gamma, is_after=True)
        return after - self.values("ece", setting, gamma, is_after=False)

    def focal_ece(self, setting: Setting, *, is_after: bool) -> NDArray[np.float64]:
        """Return the ECE per seed, the mean over the exponents above 0."""
        each = [
            self.values("ece", setting, g, is_after=is_after) for g in self.gammas(setting)[1:]
        ]
        return np.asarray(np.mean(each, axis=0), dtype=np.float64)
