"""Charts made of characters."""

import numpy as np
from numpy.typing import NDArray

from focalibrate.metrics import Cells
from focalibrate.metrics.corp import ReliabilityCurve

LEVELS = np.array([0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0])
"""One line is shown for each of these probabilities, of the examples nearest to it."""


def curve_chart(
    curve: ReliabilityCurve, cells: Cells, *, width: int = 40, outcome: str = "accuracy"
) -> list[str]:
    """Return one line per level of confidence: the curve and its band, averaged there.

    ``|`` is the confidence, ``o`` the accuracy, dots where the accuracy of a calibrated model
    would be. An o left of the dots says that the confidence is too high, one right of them that
    it is too low.

    Args:
        curve: of `focalibrate.metrics.corp`.
        cells: the examples that it was drawn from, in narrow cells.
        width: characters from 0 to 1.
        outcome: what the share of events is called.

    Example:
        >>> from focalibrate.metrics.corp import corp_of_cells
        >>> p, right = np.repeat([0.5, 0.9], 50), np.tile([0, 1], 50)
        >>> cells = Cells.of(p, right, bins=20)
        >>> print(*curve_chart(corp_of_cells(cells).curve, cells, width=20), sep="\\n")
        0.50        ...o...        accuracy 0.50, calibrated 0.34-0.64, 50 rows
        0.90           o     ..|.. accuracy 0.50, calibrated 0.80-0.98, 50 rows
    """
    weight = cells.weight[cells.weight > 0]
    confidence = np.clip(cells.probability[cells.weight > 0] / weight, 0.0, 1.0)
    nearest = np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, confidence)
    mass = np.bincount(nearest, weight, len(LEVELS))

    def means(values: NDArray[np.float64]) -> NDArray[np.float64]:
        sums = np.bincount(nearest, values * weight, len(LEVELS))
        return np.asarray(sums[mass > 0] / mass[mass > 0])

    def along(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        return means(np.interp(confidence, x, y))

    at = curve.band_probability
    columns = (
        means(confidence),
        along(curve.probability, curve.frequency),
        along(at, curve.band_low),
        along(at, curve.band_high),
        mass[mass > 0],
    )
    lines = []
    for level, right, low, high, n in zip(*columns, strict=True):
        line = [" "] * (width + 1)
        for place in range(round(low * width), round(high * width) + 1):
            line[place] = "."
        line[round(level * width)] = "|"
        line[round(right * width)] = "o"
        word = "row" if round(n) == 1 else "rows"
        lines.append(
            f"{level:.2f} {''.join(line)} {outcome} {right:.2f}, calibrated {low:.2f}-{high:.2f}, "
            f"{round(n):,} {word}"
        )
    return lines
