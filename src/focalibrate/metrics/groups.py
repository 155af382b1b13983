"""Calibration of groups of rows, with p-values corrected for the number of groups."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from focalibrate._array import Array
from focalibrate.metrics.assessment import (
    CalibrationVerdict,
    EventFinding,
    EventTest,
    verdict_of,
)
from focalibrate.metrics.interval import record_of
from focalibrate.metrics.null import generator
from focalibrate.metrics.residuals import Residuals
from focalibrate.metrics.rows import EventArguments, EventKind, read_event, read_groups
from focalibrate.metrics.words import p_text, percents, points, side_of

MAX_VALUES, ROWS_PER_VALUE = 8, 100
"""A column of numbers with more distinct values, and fewer rows per value, is cut at quartiles."""
MIN_ROWS = 20
"""Smaller groups are not tested."""


@dataclass(frozen=True, kw_only=True)
class GroupAssessment(EventFinding):
    """The assessment of one group; its p-value is of the group by itself."""

    column: str
    group: str
    p_adjusted: float = math.nan
    """the p-value corrected for the number of groups looked at (Holm); the detectable error is
    without correction"""

    @property
    def verdict(self) -> CalibrationVerdict:
        """The finding in a few words, by the corrected p-value."""
        return verdict_of(self.p_adjusted, self.detectable)

    @property
    def summary(self) -> str:
        """The finding as a sentence."""
        text = f"{self.column} = {self.group} ({self.n:,} rows): {self.verdict}"
        if self.verdict != "miscalibrated":
            return text
        text += f" ({p_text(self.p_adjusted, n_draws=self._n_allowed)}, corrected)"
        if not self.gap.excludes_zero:
            return f"{text}, typically off by {points(self.rms.estimate)}"
        mean, rate = percents(self.mean_probability, self.observed_rate)
        side = side_of(self.gap, self.event)
        if self.event == "top label":
            return f"{text}, {side} by {points(abs(self.gap.estimate))}"
        return f"{text}, {side}: {mean} on average, {rate} happen"

    @property
    def _n_allowed(self) -> int:
        """Number of draws below which the corrected p-value cannot be told from 0."""
        is_least = self.p_value * (self.n_draws + 1) <= 1.0 + 1e-9
        return round(1.0 / self.p_adjusted) - 1 if is_least else self.n_draws

    def to_dict(self) -> dict[str, Any]:
        """Return everything by name, for JSON; a number that is not defined is None."""
        record = record_of(self)
        del record["n_draws"]
        return record | {"verdict": self.verdict, "summary": self.summary}


def assess_groups(
    probs: Array | None = None,
    labels: Array | None = None,
    groups: Array | Mapping[str, Array] | None = None,
    *,
    seed: int | np.random.Generator = 0,
    **rows: Unpack[EventArguments],
) -> tuple[GroupAssessment, ...]:
    r"""Assess every group of rows, with p-values corrected for how many groups there are.

    The event is that of `assess`. Each group is tested as by `assess`, without the test of all
    classes. Holm's correction keeps the chance that any
    calibrated group is called miscalibrated at 5 %: the smallest of :math:`G` p-values is
    multiplied by :math:`G`, the next by :math:`G - 1`, and so on, never decreasing. Groups
    of fewer than 20 rows are listed but not tested.

    Args:
        probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        groups: which group each row belongs to, ``[N]`` of numbers or text; or several
            such columns by name. Numbers with many distinct values are cut at their quartiles.
        seed: random seed of the draws, or a `numpy.random.Generator`.
        rows: ``confidence``, ``correct``, ``event``, ``sample_weight``, ``copies`` and
            ``cluster``, as in `assess`.

    Returns:
        One `GroupAssessment` per group, by column and then by name.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p, group = rng.uniform(size=4000), np.repeat(["a", "b"], 2000)
        >>> y = (rng.uniform(size=4000) < np.where(group == "b", p**2, p)).astype(int)
        >>> [found.verdict for found in assess_groups(p, y, group)]
        ['no evidence of miscalibration', 'miscalibrated']

    References:
        Holm (1979), *A simple sequentially rejective multiple test procedure*.
    """
    if groups is None:
        raise ValueError("`groups` must say which group each row belongs to.")
    given = read_event(probs, labels, keep_all=True, **rows)
    columns = _columns(groups, len(given.outcome))
    members = [
        (name, str(value), np.flatnonzero((index == i) & given.counts))
        for name, (values, index) in columns.items()
        for i, value in enumerate(values)
    ]
    cells = [(column, group, given.take(at).cells()) for column, group, at in members if len(at)]
    return assess_members(cells, event=given.kind, rng=generator(seed))


def assess_members(
    members: Sequence[tuple[str, str, Residuals]], *, event: EventKind, rng: np.random.Generator
) -> tuple[GroupAssessment, ...]:
    """Assess groups, each given by its column, its name and its rows in order of probability."""
    n_tested = sum(fine.rows.sum() >= MIN_ROWS for *_, fine in members)
    n_draws = int(min(19_999, max(1999, 40 * n_tested - 1)))  # for p-values below 0.05 / groups
    found = []
    for column, group, fine in members:
        test = EventTest.of(fine, event, n_draws=n_draws, rng=rng)
        one = test.finding(event, rng, least_rows=MIN_ROWS)
        found.append(GroupAssessment(column=column, group=group, **vars(one)))
    adjusted = holm([one.p_value for one in found])
    return tuple(replace(one, p_adjusted=p) for one, p in zip(found, adjusted, strict=True))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's corrected p-values; nan, a test that was not made, stays nan.

    Example:
        >>> holm([0.01, 0.04, 0.03, float("nan")])
        [0.03, 0.06, 0.06, nan]
    """
    p = np.asarray(p_values, dtype=np.float64)
    made = np.flatnonzero(~np.isnan(p))
    order = made[np.argsort(p[made], kind="stable")]
    adjusted = p.copy()
    factor = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factor * p[order]))
    return [round(float(x), 12) for x in adjusted]


def _columns(
    groups: Array | Mapping[str, Array], n: int
) -> dict[str, tuple[NDArray[Any], NDArray[np.intp]]]:
    found = {}
    for name, values in read_groups(groups, n).items():
        if values.dtype == object:
            values = values.astype(str)
        distinct, index = np.unique(values, return_inverse=True)
        if _is_measured(distinct, n):
            found[name] = _quarters(values)
            continue
        if distinct.dtype.kind == "f" and bool((distinct == np.rint(distinct)).all()):
            distinct = distinct.astype(np.int64)  # a table's 43.0 is 43
        found[name] = (distinct, index)
    return found


def _is_measured(distinct: NDArray[Any], n: int) -> bool:
    """Return whether a column is of measurements, each with too few rows to be a group."""
    return (
        distinct.dtype.kind in "iuf"
        and len(distinct) > MAX_VALUES
        and n < ROWS_PER_VALUE * len(distinct)
    )


def _quarters(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return ranges with about a quarter of the rows each, as text, and the range of each row."""
    is_missing = np.isnan(values.astype(np.float64))
    known = values[~is_missing]
    cuts = np.unique(np.quantile(known, [0.25, 0.5, 0.75]))
    ends = [*(f"<= {cut:g}" for cut in cuts[:1])]
    ends += [f"{a:g} to {b:g}" for a, b in pairwise(cuts)]
    ends += [f"> {cuts[-1]:g}", "missing"]
    index = np.where(is_missing, len(ends) - 1, np.searchsorted(cuts, values))
    used, index = np.unique(index, return_inverse=True)
    return np.array(ends)[used], index
