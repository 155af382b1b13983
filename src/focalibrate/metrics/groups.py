"""Calibration of groups of rows: all given ones, the worst slice, positions of an answer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from focalibrate._array import Array, Floats
from focalibrate._check import check_count
from focalibrate.metrics.assessment import CalibrationVerdict, EventFinding, finding_of, verdict_of
from focalibrate.metrics.interval import NORMAL_95, Interval, record_of
from focalibrate.metrics.null import EventTest, generator, independent_residuals
from focalibrate.metrics.residuals import Residuals, cluster_sums
from focalibrate.metrics.rows import EventArguments, EventKind, read_event, read_groups, renumbered
from focalibrate.metrics.words import ALPHA, p_text, percents, points, side_of

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
        name = self.group.strip() or "(empty)"
        rows = "1 row" if self.n == 1 else f"{self.n:,} rows"
        text = f"{self.column} = {name} ({rows}): {self.verdict}"
        if self.verdict != "miscalibrated":
            return text
        text += f" ({p_text(self.p_adjusted, n_draws=self._n_allowed)}, corrected)"
        if not self.gap.excludes_zero and self.rms.estimate == 0.0:  # would be a contradiction
            return f"{text}, too high for some rows and too low for others"
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
        one = finding_of(test, event, rng, least_rows=MIN_ROWS)
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
        # of measurements, each with too few rows to be a group
        is_measured = distinct.dtype.kind in "iuf" and len(distinct) > MAX_VALUES
        if is_measured and n < ROWS_PER_VALUE * len(distinct):
            found[name] = _quarters(values)
            continue
        if distinct.dtype.kind == "f" and bool((distinct == np.rint(distinct)).all()):
            distinct = distinct.astype(np.int64)  # a table's 43.0 is 43
        found[name] = (distinct, index)
    return found


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


@dataclass(frozen=True, eq=False)
class WorstSlice:
    """The slice of rows whose probabilities are most clearly off on average."""

    description: str
    """such as "age > 41.5 and region = north\""""
    n: int
    gap: Interval
    """mean probability minus observed rate; the interval allows for the search over slices"""
    p_value: float
    """chance that the worst slice of a calibrated model is at least as far off"""
    n_slices: int
    """number of slices searched"""
    rows: NDArray[np.bool_]
    """which rows belong to it, shape ``[N]``"""
    event: EventKind
    """what the probabilities are of, see `Assessment`"""
    n_draws: int = 499

    @property
    def summary(self) -> str:
        """The finding as a sentence."""
        if self.p_value >= ALPHA:
            return (
                f"no slice stands out: the worst of {self.n_slices:,} ({self.description}) is "
                f"within chance ({p_text(self.p_value)})"
            )
        p = p_text(self.p_value, n_draws=self.n_draws)
        return (
            f"{self.description} ({self.n:,} rows): {side_of(self.gap, self.event)} by "
            f"{points(abs(self.gap.estimate))} ({p}, allowing for {self.n_slices:,} slices "
            "searched)"
        )


def worst_slice(
    probs: Array | None = None,
    labels: Array | None = None,
    columns: Mapping[str, Array] | None = None,
    *,
    min_rows: int = 50,
    n_draws: int = 499,
    seed: int | np.random.Generator = 0,
    **rows: Unpack[EventArguments],
) -> WorstSlice:
    r"""Search for the slice of rows with the clearest mean error, with an honest p-value.

    The event is that of `assess`. Slices are one condition (``region = north``, ``age > 41.5``
    at a quartile) or two on different columns. For each,
    :math:`z = \sum r / \sqrt{\sum c(1-c)}`; the largest
    :math:`|z|` is compared with the largest of the *same search* on outcomes drawn from the
    predictions, so that the p-value allows for the number of slices searched.

    Args:
        probs: probabilities ``[N, K]``, any array library, or ``[N]`` of class 1.
        labels: class indices ``[N]``.
        columns: values of each row ``[N]`` by name, numbers or text. Of a text column the
            eight most frequent values are used.
        min_rows: rows a slice must have.
        n_draws: draws for the p-value.
        seed: random seed of the draws, or a `numpy.random.Generator`.
        rows: ``confidence``, ``correct``, ``event``, ``sample_weight`` and ``copies``, as in
            `assess`.

    Returns:
        `WorstSlice`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p, region = rng.uniform(0.5, 1, size=4000), rng.choice(["north", "south"], 4000)
        >>> y = (rng.uniform(size=4000) < p - 0.15 * (region == "north")).astype(int)
        >>> worst_slice(p, y, {"region": region}).description
        'region = north'
    """
    check_count(n_draws, name="n_draws", minimum=19)
    check_count(min_rows, name="min_rows")
    if columns is None:
        raise ValueError("`columns` must name at least one column to slice by.")
    found = read_event(probs, labels, keep_all=True, **rows)
    if found.code is not None:
        raise ValueError(
            "`worst_slice` takes no `cluster`: its draws treat rows as independent. Leave it out, "
            "or use `assess_groups`."
        )
    conditions = _conditions(columns, len(found.counts))
    # Rows of one atom meet exactly the same conditions: a slice is a sum over atoms.
    met = np.stack([held for *_, held in conditions], axis=1)
    distinct, atom = np.unique(met, axis=0, return_inverse=True)
    atom, (names, matrix) = atom.reshape(-1), _slices(conditions, distinct)
    large = np.flatnonzero(matrix @ np.bincount(atom, found.counts, len(distinct)) >= min_rows)
    if not len(large):
        raise ValueError(
            f"no slice has {min_rows} rows; lower `min_rows` or pass columns with fewer values."
        )
    matrix, counted = matrix[large], np.flatnonzero(found.counts)
    kept = found.take(counted)
    order = np.argsort(kept.probability, kind="stable")
    atoms = kept.cells().binned(atom[counted][order], len(distinct))
    scale = np.sqrt(np.maximum(matrix @ atoms.variance, 1e-12))
    z = matrix @ atoms.residual / scale
    drawn = matrix @ independent_residuals(atoms, n_draws, generator(seed))
    null = np.abs(drawn / scale[:, None]).max(axis=0)
    worst = int(np.abs(z).argmax())
    reached = np.count_nonzero(null >= abs(z[worst]) - 1e-9)
    held = matrix[worst, atom] > 0
    unit = float(scale[worst] / (matrix[worst] @ atoms.weight))
    gap, half = float(z[worst]) * unit, float(np.quantile(null, 0.95)) * unit
    return WorstSlice(
        names[large[worst]],
        int(held.sum()),
        Interval(gap, max(-1.0, gap - half), min(1.0, gap + half)),
        float((1 + reached) / (1 + n_draws)),
        len(large),
        held,
        found.kind,
        n_draws,
    )


def _conditions(columns: Mapping[str, Array], n: int) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Return column, text and rows of every single condition."""
    found: list[tuple[str, str, NDArray[np.bool_]]] = []
    for name, values in read_groups(columns, n, argument="columns").items():
        is_number = values.dtype.kind in "iuf"
        if not is_number:
            values = values.astype(str)
        distinct, count = np.unique(values, return_counts=True)
        if is_number and len(distinct) > 8:
            for cut in np.unique(np.quantile(values, [0.25, 0.5, 0.75])):
                found.append((name, f"{name} <= {cut:g}", values <= cut))
                found.append((name, f"{name} > {cut:g}", values > cut))
            continue
        for value in distinct[np.argsort(-count, kind="stable")[:8]]:
            found.append((name, f"{name} = {value}", values == value))
    if not found:
        raise ValueError("`columns` must name at least one column to slice by.")
    return found


def _slices(
    conditions: list[tuple[str, str, NDArray[np.bool_]]], atoms: NDArray[np.bool_]
) -> tuple[list[str], Floats]:
    """Return the text of every slice and the matrix ``[slices, atoms]`` of what it holds."""
    names, parts = [text for _, text, _ in conditions], [atoms.T]
    pairs = [
        (i, j)
        for i, j in combinations(range(len(conditions)), 2)
        if conditions[i][0] != conditions[j][0]
    ]
    names += [f"{names[i]} and {names[j]}" for i, j in pairs]
    if pairs:
        first, second = np.array(pairs).T
        parts.append(atoms.T[first] & atoms.T[second])
    return names, np.concatenate(parts).astype(np.float64)


@dataclass(frozen=True, eq=False)
class PositionBias:
    """How often each position is right, and how often the model says so."""

    stated: Floats
    """mean probability of each position, over the questions that have it, ``[K]``"""
    happened: Floats
    """share of these questions whose answer is there, ``[K]``"""
    low: Floats
    high: Floats
    """95 % interval of ``stated - happened``, ``[K]``"""
    p_value: float
    """of the test that no position is favoured"""

    def summary(self, names: Sequence[str]) -> str:
        """Return the finding in one sentence."""
        gaps = self.stated - self.happened
        k = int(np.argmax(np.abs(gaps)))
        word = "more" if gaps[k] > 0 else "less"
        found = (
            f"{names[k]} gets {100 * abs(gaps[k]):.1f} points {word} than it should "
            f"({100 * self.stated[k]:.1f} % on average, right in {100 * self.happened[k]:.1f} %; "
            f"95 % CI of the difference {100 * self.low[k]:.1f} to {100 * self.high[k]:.1f})"
        )
        if self.p_value >= 0.05:
            return f"Position bias: none found (p = {self.p_value:.2g}); {found} by chance."
        return (
            f"Position bias (p = {self.p_value:.2g}): {found}. No calibrator here corrects it: "
            "ask each question with its options in several orders and average."
        )


def position_bias(
    probs: NDArray[np.floating],
    labels: NDArray[np.integer],
    *,
    cluster: NDArray[np.generic] | None = None,
) -> PositionBias:
    r"""Measure whether positions get more probability than they are right.

    For each position k the mean of :math:`r_k = p_k - 1[y = k]`; the test is Wald's of all means
    at once, with a covariance that is robust to clusters.

    Args:
        probs: probabilities of the options in the order the model saw them, ``[N, K]``; 0 where
            a question has fewer.
        labels: positions of the right options ``[N]``.
        cluster: equal values mark rows that belong together, ``[N]``.
    """
    probs = np.asarray(probs, np.float64)
    n, n_options = probs.shape
    hit = np.zeros_like(probs)
    hit[np.arange(n), labels] = 1.0
    has = (probs > 0) | (hit > 0)
    count = np.maximum(has.sum(axis=0), 1)
    gap = (probs - hit).sum(axis=0) / count
    residual = np.where(has, probs - hit - gap, 0.0) / count
    codes = np.arange(n) if cluster is None else renumbered(cluster)
    sums = np.hstack([cluster_sums(column, codes) for column in residual.T])
    covariance = sums.T @ sums * (len(sums) / max(len(sums) - 1, 1))
    half = NORMAL_95 * np.sqrt(np.diag(covariance))
    inverse = np.linalg.pinv(covariance, rcond=1e-9, hermitian=True)
    rank = min(int(np.linalg.matrix_rank(covariance, hermitian=True)), n_options - 1)
    return PositionBias(
        probs.sum(axis=0) / count,
        hit.sum(axis=0) / count,
        gap - half,
        gap + half,
        float(chdtrc(max(rank, 1), gap @ inverse @ gap)),
    )
