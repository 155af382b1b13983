"""The rows of `psi-gap` as settings: one problem and one exponent, over seeds or trials."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.verdict import Interval

GAMMAS = (1.0, 2.0, 3.0)
NEAR = 0.1
"""Test loss − training loss below which the two count as equal: the probability of the true class,
in the geometric mean, is then at most a tenth lower on test examples than on training examples."""
FITTED = 0.01
"""Training error below which a network counts as one that fits its training examples."""
N_RESAMPLES = 2000
LINE = "a line, n = "
"""How the names of the generated problems begin."""


@dataclass(frozen=True)
class Setting:
    """One problem (data and network) and one exponent; means over its seeds or trials."""

    problem: str
    gamma: float
    loss_gap: float
    """test NLL − training NLL; nan if the training loss was not kept"""
    error_gap: float
    """test error − training error"""
    train_error: float
    ece: float
    """in percent, without Ψ"""
    change: float
    """points of ECE, with Ψ − without"""
    confidence_gap: float
    """mean confidence − accuracy on test examples, without Ψ"""
    n: int
    """seeds or trials"""

    @property
    def is_near(self) -> bool:
        """Whether training and test loss agree, as they do at the minimiser of the risk."""
        return self.loss_gap < NEAR

    @property
    def is_fitted(self) -> bool:
        """Whether it fits its training examples and has a much higher loss on test examples."""
        return self.train_error < FITTED and self.loss_gap >= NEAR


def loss_name(gamma: float) -> str:
    """Return the name of a loss in the rows."""
    return f"FL-{gamma:g}"


def settings_of(rows: Rows) -> tuple[Setting, ...]:
    """Return every problem and exponent that has rows, in the order in which they were run."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        metric, loss = row.metric.rsplit(", ", 1)
        found.setdefault((row.recipe, loss), {}).setdefault(metric, []).append(row.value)
    return tuple(
        _setting(problem, gamma, numbers)
        for (problem, loss), numbers in found.items()
        for gamma in GAMMAS
        if loss == loss_name(gamma)
    )


def _setting(problem: str, gamma: float, numbers: dict[str, list[float]]) -> Setting:
    mean = {metric: float(np.mean(values)) for metric, values in numbers.items()}
    return Setting(
        problem=problem,
        gamma=gamma,
        loss_gap=mean["test loss"] - mean.get("train loss", np.nan),
        error_gap=mean["test error"] - mean["train error"],
        train_error=mean["train error"],
        ece=100 * mean["ECE"],
        change=100 * (mean["ECE with Ψ"] - mean["ECE"]),
        confidence_gap=mean["confidence − accuracy"],
        n=len(numbers["ECE"]),
    )


def by_problem(settings: Sequence[Setting]) -> dict[str, list[Setting]]:
    """Return the settings of each problem: one problem is one independent observation."""
    found: dict[str, list[Setting]] = {}
    for setting in settings:
        found.setdefault(setting.problem, []).append(setting)
    return found


def mean_changes(settings: Sequence[Setting]) -> NDArray[np.float64]:
    """Return the mean change of each problem, over its exponents."""
    return np.array([np.mean([s.change for s in own]) for own in by_problem(settings).values()])


def resampled_by_problem(
    estimate: Callable[[list[Setting]], float], settings: Sequence[Setting]
) -> Interval:
    """Return a number of the settings with its bootstrap interval over problems.

    Whole problems are resampled with replacement: the exponents of one problem share its data.
    """
    groups = list(by_problem(settings).values())
    if len(groups) < 3:
        return Interval(estimate(list(settings)), -np.inf, np.inf)
    rng = np.random.default_rng(0)
    drawn = [
        estimate([s for i in rng.integers(len(groups), size=len(groups)) for s in groups[i]])
        for _ in range(N_RESAMPLES)
    ]
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    return Interval(estimate(list(settings)), float(low), float(high))
