"""The report of a fit that may change predicted classes."""

from typing import Any, TypeVar

from numpy.typing import NDArray

from focalibrate.calibrate._base import Calibrator
from focalibrate.calibrate._engine.blocks import row_blocks
from focalibrate.calibrate._input import ScoredRows
from focalibrate.calibrate.fit_report import FitReport

FoundT = TypeVar("FoundT", bound=Calibrator)


def finished(
    found: FoundT, rows: ScoredRows, return_report: bool, **report: Any
) -> FoundT | tuple[FoundT, FitReport]:
    """Return what a fit returns: the calibrator, and with `return_report` also `report_on` it."""
    return (found, report_on(found, rows, **report)) if return_report else found


def report_on(
    found: Calibrator,
    rows: ScoredRows,
    *,
    criterion: str = "nll",
    value: float,
    n_evaluations: int,
    converged: bool = True,
    at_bound: bool = False,
) -> FitReport:
    """Return the report of a fit, with how many predicted classes it changes.

    Args:
        found: the calibrator.
        rows: the rows it was fitted on.
        criterion: what was minimised, and the other arguments: see `FitReport`.
        value: the criterion at the minimum.
        n_evaluations: how often it was evaluated.
        converged: whether the tolerance was met.
        at_bound: whether the parameters are at the edge of their range.
    """
    return FitReport(
        method=found.kind,
        criterion=criterion,
        value=value,
        n_rows=rows.n_rows,
        n_classes=rows.n_classes,
        n_evaluations=n_evaluations,
        converged=converged,
        at_bound=at_bound,
        n_predictions_changed=count_changed(found, rows.logits),
    )


def count_changed(calibrator: Calibrator, logits: NDArray[Any]) -> int:
    """Return in how many rows the calibrator changes the predicted class."""
    if calibrator.keeps_argmax:
        return 0
    blocks = row_blocks(len(logits), row_bytes=2 * logits.shape[1])
    return sum(
        int((calibrator.probs(logits[b]).argmax(axis=-1) != logits[b].argmax(axis=-1)).sum())
        for b in blocks
    )
