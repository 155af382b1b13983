"""From rows to a conclusion, in the way that most experiments share."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from focalibrate.experiments.engine.experiment import Conclusion, Rows, Scale, Table
from focalibrate.experiments.engine.registry import find_experiment
from focalibrate.experiments.engine.verdict import ClaimResult
from focalibrate.report.charts import Chart

Found = TypeVar("Found")
_Found = TypeVar("_Found", contravariant=True)


class Claims(Protocol[_Found]):
    """Judges the rows; `is_full` if the run is as large as the paper's."""

    def __call__(self, found: _Found, /, *, is_full: bool) -> Iterable[ClaimResult]:
        """Return a result for each claim."""
        ...


def concluding(
    name: str,
    look: Callable[[Rows, Scale], Found],
    *,
    claims: Claims[Found],
    tables: Callable[[Found], Iterable[Table]],
    charts: Callable[[Found], Iterable[Chart]],
    finding: Callable[[Found], str],
) -> Callable[[Rows, Scale], Conclusion]:
    """Return the function that concludes the experiment `name`.

    Args:
        name: name of the experiment, which defines at which scale it is full.
        look: turns the rows into what the other functions take.
        claims: the verdicts.
        tables: those of the collapsed part of the page.
        charts: its figures.
        finding: the main result in one sentence.
    """

    def conclude(rows: Rows, scale: Scale) -> Conclusion:
        found, is_full = look(rows, scale), find_experiment(name).is_full(scale)
        return Conclusion(
            tuple(claims(found, is_full=is_full)),
            tuple(tables(found)),
            tuple(charts(found)),
            finding(found),
        )

    return conclude


def plainly(rows: Rows, scale: Scale) -> Rows:
    """Return the rows unchanged."""
    del scale
    return rows
