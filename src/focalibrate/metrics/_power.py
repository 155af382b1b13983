"""The smallest calibration error that the multi-scale test would reveal."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from focalibrate._array import Floats
from focalibrate.metrics._cells import Cells, EventBins
from focalibrate.metrics._null import finest, finest_variance, scale_statistic

POWER = 0.8
DRAWS = 250


def detectable_rms(
    cells: Cells, views: Sequence[EventBins], drawn: Sequence[Floats], critical: float
) -> float:
    r"""Return the root-mean-square error that the test would reject with probability .8.

    Two kinds of error are tried, a temperature (:math:`c(1-c)\operatorname{logit} c`) and a
    shift of the log-odds (:math:`c(1-c)`), both to first order; the result is for the one that is
    harder to find. nan if no error can be found, as when every prediction is certain.

    Args:
        cells: cells of the predictions.
        views: the ways the test looks at them.
        drawn: for each view the residual sums of calibrated draws in the finest bins.
        critical: value of the statistic that 5 % of calibrated draws exceed.
    """
    p = cells.mean
    log_odds = np.log(np.clip(p, 1e-12, 1.0)) - np.log(np.clip(1.0 - p, 1e-12, 1.0))
    slope = p * (1.0 - p)
    variances = [finest_variance(view, cells) for view in views]
    noise = [sums[:, :DRAWS] for sums in drawn]
    found = []
    for shape in (slope * log_odds, slope):
        rms = math.sqrt(float(cells.weight @ shape**2 / cells.weight.sum()))
        if rms <= 1e-9:
            continue
        moves = [finest(view, cells.weight * shape / rms) for view in views]

        def is_found(size: float, moves: Sequence[Floats] = moves) -> bool:
            statistic = np.max(
                [
                    scale_statistic(sums + size * move[:, None], variance)
                    for sums, move, variance in zip(noise, moves, variances, strict=True)
                ],
                axis=0,
            )
            return float(np.mean(statistic >= critical)) >= POWER

        found.append(_smallest(is_found))
    return max(found, default=math.nan)


def _smallest(is_found: Callable[[float], bool]) -> float:
    low, high = 1e-6, 1.0
    if not is_found(high):
        return 1.0
    for _ in range(12):  # geometric: to 0.4 % of the result
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high
