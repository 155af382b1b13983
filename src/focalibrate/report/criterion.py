"""The criterion over gamma and temperature, as the page's heat map shows it."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate.calibrate import CalibrationWarning, FitReport, fit_focal_temperature
from focalibrate.calibrate.fit_focal_temperature import FocalTemperatureCriterion
from focalibrate.calibrate.fit_temperature import lowest_temperature
from focalibrate.calibrate.rows import read_scores

N_GAMMAS = 23
N_TEMPERATURES = 60
MAX_TEMPERATURES = 125
"""Columns of a heat map; finer grids are thinned out."""
MAX_ROWS = 5000
"""Most rows that the map is computed from; a picture needs no more."""


@dataclass(frozen=True, eq=False)
class CriterionGrid:
    """A criterion at every gamma and temperature of a grid."""

    criterion: str
    gammas: tuple[float, ...]
    """ascending, shape ``[G]``"""
    temperatures: tuple[float, ...]
    """ascending, shape ``[M]``"""
    values: NDArray[np.float64]
    """shape ``[G, M]``; nan where not evaluated"""
    n_rows: int
    n_rows_given: int

    @classmethod
    def of_report(cls, report: FitReport | None) -> "CriterionGrid":
        """Return the grid of ``fit_focal_temperature(..., whole_grid=True).report``."""
        if report is None:
            raise ValueError("`report` must be that of a fit, got None.")
        if report.grid is None or report.gammas is None or report.temperatures is None:
            raise ValueError(
                f"`report` must hold a grid, but that of {report.method!r} by "
                f"{report.criterion!r} has none. Fit with `temperatures` and whole_grid=True."
            )
        step = -(-len(report.temperatures) // MAX_TEMPERATURES)
        keep = slice(step - 1, None, step)
        return cls(
            report.criterion,
            report.gammas,
            report.temperatures[keep],
            report.grid[:, keep],
            report.n_rows,
            report.n_rows,
        )


def criterion_grid(
    logits: Array,
    labels: Array,
    *,
    criterion: FocalTemperatureCriterion = "adaptive_ece",
    n_bins: int = 15,
    seed: int = 0,
) -> CriterionGrid:
    r"""Evaluate the criterion of focal temperature scaling on an even grid around its ridge.

    gamma runs from -0.5 to 5. The best temperature is close to linear in gamma, so that those at
    both ends, found on a coarse grid first, give the range of T.

    Args:
        logits: real array ``[N, K]``, the rows fitted on.
        labels: class indices ``[N]``.
        criterion: ``"adaptive_ece"``, ``"ece"`` or ``"nll"``.
        n_bins: bins of the binned criteria.
        seed: random seed of the sample that is taken of more than `MAX_ROWS` rows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> truth = 2 * rng.normal(size=(500, 3))
        >>> labels = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
        >>> criterion_grid(2 * truth, labels).values.shape
        (23, 60)
    """
    given = read_scores(logits, labels)
    rows, targets = given.logits, given.labels
    n = len(rows)
    if n > MAX_ROWS:
        kept = np.sort(np.random.default_rng(seed).choice(n, MAX_ROWS, replace=False))
        rows, targets = rows[kept], targets[kept]
    gammas = np.linspace(-0.5, 5.0, N_GAMMAS)
    start = lowest_temperature(given).temperature
    coarse = start * np.geomspace(0.25, 16.0, 25)

    def evaluate(
        gammas: NDArray[np.float64], temperatures: NDArray[np.float64]
    ) -> FitReport | None:
        with warnings.catch_warnings():
            # No warning: the map itself shows a minimum at its edge.
            warnings.simplefilter("ignore", CalibrationWarning)
            return fit_focal_temperature(
                rows,
                targets,
                criterion=criterion,
                n_bins=n_bins,
                gammas=gammas.tolist(),
                temperatures=temperatures.tolist(),
                whole_grid=True,
            ).report

    ends = CriterionGrid.of_report(evaluate(gammas[[0, -1]], coarse))
    reach = float(coarse[ends.values.argmin(axis=1)].max())
    temperatures = float(f"{1.7 * reach:.2g}") * np.arange(1, N_TEMPERATURES + 1) / N_TEMPERATURES
    return replace(CriterionGrid.of_report(evaluate(gammas, temperatures)), n_rows_given=n)
