"""The networks of `curvature`, its rows by problem and exponent, and the cubic curve."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.experiment import Rows, Scale
from focalibrate.experiments.engine.verdict import Interval
from focalibrate.experiments.networks.pool import network_name
from focalibrate.experiments.networks.recipes import GAMMA, Problem

LOSSES: Mapping[Scale, Mapping[Problem, tuple[str, ...]]] = {
    "smallest": {"cifar10": ("ce", "fl1", "fl3")},
    "reduced": {
        "cifar10": ("ce", "fl1", "fl2", "fl3"),
        "fashion_mnist": ("ce", "fl1", "fl2", "fl3", "fl5", "fl7"),
    },
    "full": {
        "cifar10": ("ce", "fl1", "fl2", "fl3", "fl5", "fl7"),
        "fashion_mnist": ("ce", "fl1", "fl2", "fl3", "fl5", "fl7"),
    },
}
SEEDS: Mapping[Scale, int] = {"smallest": 2, "reduced": 3, "full": 3}
N_RESAMPLES = 300


@dataclass(frozen=True)
class CurvatureRows:
    """The rows of a run, selected by problem."""

    rows: Rows
    scale: Scale

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of the scale."""
        return tuple(LOSSES[self.scale])

    def gammas(self, problem: Problem) -> NDArray[np.float64]:
        """Return the exponents of the problem's networks, in ascending order."""
        return np.array([GAMMA[loss] for loss in LOSSES[self.scale][problem]])

    def table(self, metric: str, problem: Problem) -> NDArray[np.float64]:
        """Return a number by exponent and seed, ``[gammas, seeds]``; calibration in percent."""
        losses = LOSSES[self.scale][problem]
        unit = 100.0 if metric.startswith(("ece", "error")) else 1.0
        rows = [self.rows.values(network_name(problem, loss), metric) for loss in losses]
        return unit * np.array(rows)


@dataclass(frozen=True, eq=False)
class Cubic:
    """A cubic curve of calibration error against trace."""

    trace: NDArray[np.float64]
    """``[N]``, in ascending order"""
    weights: NDArray[np.float64]
    """of the powers 3 to 0 of the trace, as a share of its range, from its mean"""
    r2: float

    def at(self, trace: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of the curve."""
        heights: NDArray[np.float64] = _powers(trace, self.trace) @ self.weights
        return heights

    @property
    def depth(self) -> float:
        """How far the minimum, where there are points, is below the lower end."""
        height = self.at(self.trace)
        return float(min(height[0], height[-1]) - height.min())

    @property
    def best(self) -> float:
        """The measured trace at which the curve is lowest."""
        return float(self.trace[self.at(self.trace).argmin()])


def fit_cubic(trace: NDArray[np.float64], ece: NDArray[np.float64]) -> Cubic:
    """Return the least-squares cubic, whose depth is measured where there are points.

    Between two clusters of points a cubic may deviate far from both: a minimum there would be an
    artefact of the fit.

    Example:
        >>> x = np.linspace(0.0, 4.0, 9)
        >>> found = fit_cubic(x, (x - 1.0) ** 2)
        >>> found.best, round(found.depth, 6)
        (1.0, 1.0)
    """
    order = np.argsort(trace, kind="stable")
    x, y = trace[order], ece[order]
    powers = _powers(x, x)
    weights = np.linalg.lstsq(powers, y, rcond=None)[0].astype(np.float64)
    rest, total = float(((y - powers @ weights) ** 2).sum()), float(((y - y.mean()) ** 2).sum())
    return Cubic(x, weights, 1.0 - rest / total if total > 0 else 1.0)


def _powers(x: NDArray[np.float64], seen: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.vander((x - seen.mean()) / (float(np.ptp(seen)) or 1.0), 4)


def resampled(
    trace: NDArray[np.float64], ece: NDArray[np.float64]
) -> tuple[Interval, Interval, Cubic]:
    """Return depth and best trace, with percentile intervals over the networks, and the curve."""
    whole, rng = fit_cubic(trace, ece), np.random.default_rng(0)
    picks = (rng.integers(len(trace), size=len(trace)) for _ in range(N_RESAMPLES))
    fits = [fit_cubic(trace[pick], ece[pick]) for pick in picks]
    depth = _spread(whole.depth, [fit.depth for fit in fits])
    return depth, _spread(whole.best, [fit.best for fit in fits]), whole


def _spread(estimate: float, resamples: list[float]) -> Interval:
    low, high = np.quantile(resamples, (0.025, 0.975))
    return Interval(estimate, float(low), float(high))
