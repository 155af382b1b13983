"""What an experiment is: its runs, its rows, the rules of its verdicts, and the list of all."""

import csv
import hashlib
import json
import math
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from focalibrate._check import did_you_mean
from focalibrate_papers.charts import Chart
from focalibrate_papers.claims import CLAIMS
from focalibrate_papers.recipe import Recipe

Verdict = Literal[
    "reproduced",
    "same direction",
    "undecided",
    "opposite direction",
    "not reproduced",
    "not run at full size",
    "supported",
    "not supported",
]
VERDICTS: tuple[Verdict, ...] = (
    "reproduced",
    "same direction",
    "undecided",
    "opposite direction",
    "not reproduced",
    "not run at full size",
)
"""Verdicts on a claim of a paper."""
OWN_VERDICTS: tuple[Verdict, ...] = ("supported", "undecided", "not supported")
"""Verdicts on a question of our own, on which the paper says nothing."""
GRADES: dict[str, str] = {claim.id: claim.expected for claim in CLAIMS}
"""Grades of the errata, by the id of their claim."""


@dataclass(frozen=True)
class Interval:
    """A number and its 95 % confidence interval; both ends equal the number if it is exact."""

    estimate: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> "Interval":
        """Return an exact number."""
        return cls(float(value), float(value), float(value))

    def times(self, factor: float) -> "Interval":
        """Return the interval in another unit, such as percent."""
        return Interval(factor * self.estimate, factor * self.low, factor * self.high)

    def within(self, low: float, high: float) -> "Interval":
        """Return the interval clipped to the possible values of the number."""
        return Interval(self.estimate, max(self.low, low), min(self.high, high))


@dataclass(frozen=True)
class ClaimResult:
    """One claim: what the paper says, what we found, and the verdict by the rule."""

    claim: str
    rule: str
    """when it counts as reproduced, in words"""
    paper_value: str
    """the paper's own number or sentence, with its condition and where it is"""
    ours: Interval
    unit: str
    """how to read our number, such as ``"points of ECE, FL-3 − CE"``"""
    claimed: tuple[float, float]
    """the values of our number that agree with the claim: from, to"""
    verdict: Verdict
    note: str = ""
    is_papers: bool = True
    """whether the paper makes the claim; otherwise it is a question of our own"""
    theory: str = ""
    """id of the claim of `focalibrate theory` that is about the same sentence"""
    smaller_shows: Literal["direction", "nothing", ""] = ""
    """what a run smaller than the paper's can show of it; "" if `at_size` is not to change it"""

    @property
    def sentence(self) -> str:
        """The sentence or number of the paper, without the entries of its tables."""
        return sentence_of(self.paper_value)

    @property
    def shown(self) -> str:
        """The verdict, with the grade of the erratum if there is one."""
        grade = GRADES.get(self.theory, "")
        return (
            f"{self.verdict} ({grade})"
            if self.verdict == "not reproduced" and grade
            else (self.verdict)
        )


def sentence_of(paper_value: str) -> str:
    """Return the paper's sentence from `ClaimResult.paper_value`, which table entries may follow.

    Example:
        >>> sentence_of('Sec. 6: "It broadly is lowest"; its table: 0.95 against 1.35')
        'Sec. 6: "It broadly is lowest'
    """
    return paper_value.split('";')[0]


def show_interval(interval: Interval) -> str:
    """Return a number with its interval; without one if it is exact or of a single run."""
    text = f"{interval.estimate:.4g}"
    if interval.low == interval.high or not math.isfinite(interval.low):
        return text
    return f"{text} [{interval.low:.4g}, {interval.high:.4g}]"


def spread(values: NDArray[np.float64], digits: int = 2) -> str:
    """Return mean ± standard deviation over the seeds; a dash without any."""
    if values.size == 0:
        return "–"
    around = f" ± {values.std(ddof=1):.{digits}f}" if values.size > 1 else ""
    return f"{np.mean(values):.{digits}f}{around}"


def mean_interval(values: Sequence[float] | NDArray[np.float64]) -> Interval:
    """Return the mean of independent runs with its 95 % t interval; infinite for one run.

    Example:
        >>> found = mean_interval([1.0, 2.0, 3.0])
        >>> round(found.low, 3), round(found.high, 3)
        (-0.484, 4.484)
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return Interval(math.nan, math.nan, math.nan)
    mean = float(x.mean())
    if x.size == 1:
        return Interval(mean, -math.inf, math.inf)
    half = float(stdtrit(x.size - 1, 0.975) * x.std(ddof=1) / math.sqrt(x.size))
    return Interval(mean, mean - half, mean + half)


def share_interval(hits: int, n: int) -> Interval:
    """Return a proportion with its Clopper-Pearson interval, which lies in [0, 1].

    Example:
        >>> found = share_interval(3, 3)
        >>> found.estimate, round(found.low, 3), found.high
        (1.0, 0.292, 1.0)
    """
    if n == 0:
        return Interval(math.nan, 0.0, 1.0)
    from scipy.stats import binomtest  # takes a second, and every worker imports this file

    found = binomtest(hits, n).proportion_ci(method="exact")
    return Interval(hits / n, float(found.low), float(found.high))


def rank_correlation_interval(
    x: Sequence[float] | NDArray[np.float64], table: NDArray[np.float64]
) -> Interval:
    r"""Return Spearman's correlation of `x` with all of a table ``[x, runs]``, and its interval.

    .. math:: \tanh\Bigl(\operatorname{artanh}\rho \pm
              1.96\sqrt{(1+\rho^2/2)/(n-3)}\Bigr)

    of Bonett and Wright (2000), n runs in all. It lies in [-1, 1] and includes ρ. A bootstrap over
    the few runs of each `x` covers too rarely: a run drawn twice makes ties.

    Example:
        >>> found = rank_correlation_interval([0.0, 1.0], np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> round(found.estimate, 3), found.low < 0.0 < found.high <= 1.0
        (0.894, True)
    """
    from scipy.stats import rankdata  # takes a second, and every worker imports this file

    n = table.size
    places, ranks = (
        rankdata(values) - (n + 1) / 2 for values in (np.repeat(x, table.shape[1]), table.ravel())
    )
    rho = _correlation(places, ranks)
    return _fisher_interval(rho, n, variance=1.0 + rho**2 / 2.0)


def correlation_interval(x: NDArray[np.float64], y: NDArray[np.float64]) -> Interval:
    """Return Pearson's correlation of two numbers of each run, with Fisher's interval.

    Example:
        >>> found = correlation_interval(np.arange(5.0), np.array([0.0, 2.0, 1.0, 3.0, 4.0]))
        >>> round(found.estimate, 3), -1.0 <= found.low < found.estimate < found.high <= 1.0
        (0.9, True)
    """
    return _fisher_interval(_correlation(x - x.mean(), y - y.mean()), x.size, variance=1.0)


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return the correlation of centred numbers; 0 if one of the two is constant."""
    norm = math.sqrt(float(np.sum(x**2) * np.sum(y**2)))
    return float(np.sum(x * y)) / norm if norm else 0.0


def _fisher_interval(rho: float, n: int, *, variance: float) -> Interval:
    if n < 4:
        return Interval(rho, -1.0, 1.0)
    inner = float(np.clip(rho, 1 / n**2 - 1, 1 - 1 / n**2))  # a perfect order is not certain
    half = 1.96 * math.sqrt(variance / (n - 3))
    low, high = (math.tanh(math.atanh(inner) + side * half) for side in (-1.0, 1.0))
    return Interval(rho, min(low, rho), max(high, rho))


def judge_below(ours: Interval, bound: float, *, covers: bool = True) -> Verdict:
    """Judge the claim that a number lies below `bound`.

    Reproduced: the whole interval is below, and the run `covers` what the claim is about (same
    direction where it is smaller). Not reproduced: the whole interval is above (opposite direction
    where the run is smaller). Undecided: the interval includes the bound, or there is no number.
    """
    if ours.high < bound:
        return "reproduced" if covers else "same direction"
    if ours.low > bound or ours.low == ours.high:
        return "not reproduced" if covers else "opposite direction"
    return "undecided"


def judge_above(ours: Interval, bound: float, *, covers: bool = True) -> Verdict:
    """Judge the claim that a number lies above `bound`, as `judge_below` does."""
    mirrored = Interval(-ours.estimate, -ours.high, -ours.low)
    return judge_below(mirrored, -bound, covers=covers)


def judge_number(ours: Interval, paper: float, *, tolerance: float) -> Verdict:
    """Judge a number that the paper prints.

    Reproduced: the whole interval is within `tolerance` of the paper's number. Not reproduced:
    the whole interval is further away. Undecided otherwise.
    """
    if max(abs(ours.low - paper), abs(ours.high - paper)) <= tolerance:
        return "reproduced"
    is_away = ours.low > paper + tolerance or ours.high < paper - tolerance
    return "not reproduced" if is_away else "undecided"


Found: TypeAlias = Interval | float | Sequence[float] | NDArray[np.floating]
"""What a claim is judged by: an interval, an exact number, or one number per independent run."""


def _interval(found: Found) -> Interval:
    if isinstance(found, Interval):
        return found
    return mean_interval(found) if np.ndim(found) else Interval.exact(found)  # type: ignore[arg-type]


def side_result(
    found: Found,
    *,
    claim: str,
    what: str,
    paper_value: str,
    unit: str,
    below: bool = True,
    bound: float = 0.0,
    covers: bool | None = None,
    is_papers: bool = True,
    note: str = "",
    theory: str = "",
) -> ClaimResult:
    """Return the result of a claim that `what` lies below (or above) a bound.

    `covers` is whether the run is large enough for the claim; None if that is so when it is as
    large as the paper's, which `at_size` decides.
    """
    ours, judge = _interval(found), judge_below if below else judge_above
    side = "below" if below else "above"
    is_exact = ours.low == ours.high
    return ClaimResult(
        claim=claim,
        rule=f"{what}: {'' if is_exact else 'the whole 95 % confidence interval '}{side} "
        f"{bound:g}",
        paper_value=paper_value,
        ours=ours,
        unit=unit,
        claimed=(-math.inf, bound) if below else (bound, math.inf),
        verdict=_own(judge(ours, bound, covers=covers is not False), is_papers=is_papers),
        note=note,
        is_papers=is_papers,
        theory=theory,
        smaller_shows="direction" if covers is None else "",
    )


def number_result(
    found: Found,
    paper: float,
    *,
    tolerance: float,
    claim: str,
    what: str,
    paper_value: str,
    unit: str,
    note: str = "",
    theory: str = "",
) -> ClaimResult:
    """Return the result of a number that the paper prints; a smaller run cannot check it."""
    ours = _interval(found)
    near = f"within {tolerance:g} of {paper:g}" if tolerance else f"equal to {paper:g}"
    is_exact = ours.low == ours.high
    return ClaimResult(
        claim=claim,
        rule=f"{what}: {'' if is_exact else 'the whole 95 % confidence interval '}{near}",
        paper_value=paper_value,
        ours=ours,
        unit=unit,
        claimed=(paper - tolerance, paper + tolerance),
        verdict=judge_number(ours, paper, tolerance=tolerance),
        note=note,
        theory=theory,
        smaller_shows="nothing",
    )


@cache
def _worded() -> dict[str, dict[str, str]]:
    with Path(__file__).with_name("judged.csv").open(encoding="utf-8", newline="") as file:
        return {row.pop("id"): row for row in csv.DictReader(file)}


def judged(name: str, found: Found, /, **given: Any) -> ClaimResult:
    """Return the result of a claim whose words, side and bound are a line of judged.csv.

    Args:
        name: its id there, such as ``"linear/slip"``.
        found: our number.
        given: what the words name in braces; and arguments of `side_result` or `number_result`
            that depend on the run. Where ``is_papers`` is False, the column ``otherwise``, if it
            is filled, is said in place of the paper's sentence.

    Example:
        >>> judged("regimes/same-class", 0).verdict
        'reproduced'
    """
    line = _worded()[name]
    own = {key: given.pop(key) for key in OF_RESULT & given.keys()}
    words: dict[str, Any] = {key: line[key].format(**given) for key in WORDED}
    words |= {"is_papers": line["asked"] != "us", "bound": float(line["bound"] or 0.0)} | own
    if not words["is_papers"] and line["otherwise"]:
        words["paper_value"] = line["otherwise"]
    if line["side"] == "equal":
        words = {"tolerance": float(line["tolerance"] or 0.0)} | words
        del words["is_papers"]
        return number_result(found, words.pop("bound"), **words)
    return side_result(found, **{"below": line["side"] == "below"} | words)


WORDED = ("claim", "what", "paper_value", "unit", "note", "theory")
"""Columns of judged.csv with words."""
OF_RESULT = {*WORDED, "is_papers", "bound", "below", "tolerance", "covers"}
"""Arguments of a result; all else that `judged` is given stands in the words."""


def at_size(results: Iterable[ClaimResult], *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Return the results of a run as large as the paper's, or of a smaller one.

    A smaller run shows at most in which direction losses differ, and nothing of a number.
    """
    weaker: dict[tuple[str, Verdict], Verdict] = {
        ("direction", "reproduced"): "same direction",
        ("direction", "not reproduced"): "opposite direction",
    }

    def judged(result: ClaimResult) -> Verdict:
        if is_full or not result.smaller_shows:
            return result.verdict
        if result.smaller_shows == "nothing":
            return _own("not run at full size", is_papers=result.is_papers)
        return weaker.get((result.smaller_shows, result.verdict), result.verdict)

    return tuple(replace(r, verdict=judged(r), smaller_shows="") for r in results)


def as_ours(result: ClaimResult, *, paper_value: str) -> ClaimResult:
    """Return a result as the answer to a question of our own, on which the paper says nothing."""
    verdict = _own(result.verdict, is_papers=False)
    return replace(result, verdict=verdict, is_papers=False, paper_value=paper_value)


def _own(verdict: Verdict, *, is_papers: bool) -> Verdict:
    if is_papers:
        return verdict
    words: dict[Verdict, Verdict] = {
        "reproduced": "supported",
        "same direction": "supported",
        "opposite direction": "not supported",
        "not reproduced": "not supported",
        "not run at full size": "undecided",
    }
    return words.get(verdict, verdict)


def _is(shown: str, verdict: str) -> bool:
    return shown == verdict or shown.startswith(f"{verdict} (")


def tally(results: Sequence[ClaimResult]) -> str:
    """Return how often each verdict was given: the paper's claims, then our own questions.

    Example:
        >>> one = side_result(Interval(-2, -3, -1), claim="", what="x", paper_value="", unit="")
        >>> tally([one])
        '1 claim of the paper: 1 reproduced.'
    """
    parts = []
    for is_papers, words, name in (
        (True, VERDICTS, "claim{} of the paper"),
        (False, OWN_VERDICTS, "question{} of our own"),
    ):
        found = [result.shown for result in results if result.is_papers == is_papers]
        known = [word for verdict in words for word in sorted(set(found)) if _is(word, verdict)]
        counts = ", ".join(f"{found.count(word)} {word}" for word in known)
        if found:
            parts.append(f"{len(found)} {name.format('s' if len(found) > 1 else '')}: {counts}.")
    return " ".join(parts)


Ground = Literal["theory", "generated data", "published outputs", "networks trained here"]
GROUNDS: tuple[Ground, ...] = get_args(Ground)
Scale = Literal["smallest", "reduced", "full"]
SCALES: tuple[Scale, ...] = ("smallest", "reduced", "full")


@dataclass(frozen=True)
class Task:
    """One run of an experiment: the settings that determine its numbers.

    Example:
        >>> task = Task.of("linear", seed=1, gamma=0.0)
        >>> task["gamma"], len(task.key)
        (0.0, 12)
    """

    experiment: str
    settings: tuple[tuple[str, Any], ...]
    """by name, sorted by name; JSON values, with lists as tuples"""

    @classmethod
    def of(cls, experiment: str, /, **settings: Any) -> "Task":
        """Return the run of `experiment` with these settings."""
        return cls(experiment, tuple((k, _frozen(settings[k])) for k in sorted(settings)))

    @cached_property
    def _by_name(self) -> dict[str, Any]:
        return dict(self.settings)

    def __getitem__(self, name: str) -> Any:
        return self._by_name[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting, or `default` if the run has none of this name."""
        return self._by_name.get(name, default)

    def has(self, settings: Mapping[str, Any]) -> bool:
        """Return whether the run has all these settings."""
        return settings.items() <= self._by_name.items()

    @property
    def seed(self) -> int:
        """Its seed; 0 if nothing is random, or if it contains the seeds of all its trials."""
        return int(self.get("seed", 0))

    @property
    def key(self) -> str:
        """Name of the run's result file: same settings, same key."""
        text = json.dumps([self.experiment, self.settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def _frozen(value: Any) -> Any:
    return tuple(_frozen(x) for x in value) if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class Row:
    """One number of one run."""

    task: Task
    metric: str
    value: float
    at: float = float("nan")
    """position of the number on a curve, such as the epoch; nan for a number of the whole run"""


Curve: TypeAlias = list[tuple[float, float]]
"""Positions and values."""


@dataclass(frozen=True)
class Rows:
    """The rows of an experiment, selected by the settings of their runs."""

    rows: tuple[Row, ...]
    scale: Scale = "full"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def _numbers(self) -> dict[Task, dict[str, Curve]]:
        """The numbers of each run, by metric."""
        found: dict[Task, dict[str, Curve]] = {}
        for row in self.rows:
            found.setdefault(row.task, {}).setdefault(row.metric, []).append((row.at, row.value))
        return found

    def _runs(self, metric: str, settings: Mapping[str, Any]) -> Iterator[tuple[Task, Curve]]:
        for task, numbers in self._numbers.items():
            if task.has(settings) and metric in numbers:
                yield task, numbers[metric]

    def of(self, **settings: Any) -> "Rows":
        """Return the rows of the runs that have these settings."""
        return Rows(tuple(r for r in self.rows if r.task.has(settings)), self.scale)

    def each(self, *names: str) -> list[Any]:
        """Return the different values of a setting in the order of the runs; tuples of several."""
        runs = [tuple(task.get(name) for name in names) for task in self._numbers]
        return list(dict.fromkeys(runs if len(names) > 1 else [run[0] for run in runs]))

    def by_seed(self, metric: str, **settings: Any) -> dict[int, float]:
        """Return a number of the whole run by ascending seed; empty if there is none."""
        found = {
            task.seed: value
            for task, numbers in self._runs(metric, settings)
            for at, value in numbers
            if math.isnan(at)
        }
        return {seed: found[seed] for seed in sorted(found)}

    def values(self, metric: str, **settings: Any) -> NDArray[np.float64]:
        """Return a number of the whole run per seed, in the order of the seeds."""
        return np.array([*self.by_seed(metric, **settings).values()], dtype=np.float64)

    def one(self, metric: str, **settings: Any) -> float:
        """Return a number of the only run that has it."""
        return float(self.values(metric, **settings)[0])

    def curve(
        self, metric: str, **settings: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the x and y values of a curve, averaged over the runs."""
        points: dict[float, list[float]] = {}
        for _, numbers in self._runs(metric, settings):
            for at, value in numbers:
                if not math.isnan(at):
                    points.setdefault(at, []).append(value)
        x = np.array(sorted(points), dtype=np.float64)
        return x, np.array([np.mean(points[at]) for at in x], dtype=np.float64)


@dataclass(frozen=True)
class Table:
    """A table of the page, ready to show."""

    title: str
    head: Sequence[str]
    body: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Conclusion:
    """What follows from the rows: verdicts, tables and charts."""

    results: tuple[ClaimResult, ...]
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    finding: str = ""
    """the main result in one sentence, with its numbers"""


@dataclass(frozen=True)
class Folders:
    """Folders that a run reads and writes."""

    data: Path | None
    """of the data sets; FOCALIBRATE_DATA when None"""
    trained: Path
    """of trained networks, which experiments share: one folder per recipe, named by its key"""


Numbers: TypeAlias = Iterable[tuple[str, float] | tuple[str, float, float]]
"""What a run returns: metric and value, or metric, value and position on a curve."""


def drawn(
    metric: str, x: NDArray[np.floating], y: NDArray[np.floating]
) -> Iterator[tuple[str, float, float]]:
    """Yield the points of a curve that is only drawn, to the digits that a figure needs."""
    for at, value in zip(x, y, strict=True):
        yield metric, float(f"{value:.6g}"), float(f"{at:.9g}")


SHARED = {
    "SMALLEST": "Generated examples on a line and a network of 16 hidden units for every data "
    "set: this only tests that the experiment runs; nothing can be concluded.",
    "HALVES_NOTE": "The validation set is small, so the temperature is fitted on a random half of "
    "the test rows (always the same) and evaluated on the other half, and vice versa; numbers "
    "after T are the mean of both. Numbers before T are computed on all test rows.",
}
"""Sentences that texts of several experiments name in braces."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or table of a paper that is reproduced: a module, and its texts in a .toml file.

    Worker processes find its functions by the experiment's name.
    """

    name: str
    code: str
    """short name, such as ``"E2"``; the recipes of its networks begin with it (``e2-ce``)"""
    source: str
    """paper and figures"""
    ground: Ground
    """what the claims are tested on"""
    title: str
    protocol: str
    """what is done, in a few sentences, in Markdown without headings"""
    smaller: Mapping[Scale, str]
    """what is smaller than in the paper and what therefore cannot be concluded, where anything"""
    coverage: Mapping[Scale, Sequence[Sequence[str]]] = field(default_factory=dict)
    """an aspect of the paper's runs, such as its data, what it is in the paper, and what here"""
    changed_rules: str = ""
    """which rules were changed after the results were seen, and why"""
    tasks: Callable[[Scale], Sequence[Task]]
    run: Callable[[Task, Folders], Numbers]
    claims: Callable[[Any], Iterable[ClaimResult]]
    """what follows from the rows, judged as if the run were as large as the paper's"""
    finding: Callable[[Any], str]
    """the main result in one sentence"""
    tables: Sequence[Callable[[Any], Table | Iterable[Table]]] = ()
    charts: Sequence[Callable[[Any], Chart | Iterable[Chart]]] = ()
    look: Callable[[Rows], Any] | None = None
    """turns the rows into what the functions above take; None for the rows themselves"""
    network: Callable[[Task], Recipe | None] | None = None
    """recipe of the trained network that a task measures; None for a task without one"""

    @classmethod
    def of(cls, module: str, **parts: Any) -> "Experiment":
        """Return the experiment of a module: its functions, `parts`, and the texts beside it."""
        own = vars(sys.modules[module])
        texts = tomllib.loads(Path(own["__file__"]).with_suffix(".toml").read_text("utf-8"))
        covered = texts.pop("coverage", ())
        coverage = dict.fromkeys(texts.pop("covered_scales", ()), covered)
        smaller = {"smallest": SHARED["SMALLEST"]} | texts.pop("smaller", {})
        return cls(
            name=own["NAME"],
            smaller={scale: text.format(**SHARED) for scale, text in smaller.items()},
            coverage=coverage,
            **{name: text.format(**SHARED) for name, text in texts.items()},
            **{name: own[name] for name in ("tasks", "run", "claims", "finding")},
            **parts,
        )

    @property
    def packages(self) -> tuple[str, ...]:
        """Packages whose versions affect the numbers."""
        is_trained = self.ground in ("generated data", "networks trained here")
        return ("numpy", "scipy", "torch") if is_trained else ("numpy", "scipy")

    def is_full(self, scale: Scale) -> bool:
        """Return whether the run is as large as the paper's in all that the claims are about."""
        return not self.smaller.get(scale)

    def rows(self, task: Task, folders: Folders) -> tuple[Row, ...]:
        """Make a run and return its rows."""
        return tuple(
            Row(task, metric, float(value), float(at[0]) if at else math.nan)
            for metric, value, *at in self.run(task, folders)
        )

    def conclude(self, rows: Rows, scale: Scale) -> Conclusion:
        """Return what follows from the rows of a run at this scale."""
        rows = Rows(rows.rows, scale)
        found = rows if self.look is None else self.look(rows)
        return Conclusion(
            at_size(self.claims(found), is_full=self.is_full(scale)),
            _each(self.tables, found),
            _each(self.charts, found),
            self.finding(found),
        )


def _each(makers: Sequence[Callable[[Any], Any]], found: Any) -> tuple[Any, ...]:
    """Return what all makers make, some one and some several."""
    made = (make(found) for make in makers)
    return tuple(x for one in made for x in ([one] if isinstance(one, (Table, Chart)) else one))


EXPERIMENTS: dict[str, str] = {
    "regimes": "p000.regimes",
    "synthetic-posterior": "p000.synthetic_posterior",
    "psi-images": "p000.psi_images",
    "psi-tabular": "p000.psi_tabular",
    "psi-gap": "p000.psi_gap",
    "focal-calibration": "p002.focal_calibration",
    "sst": "p002.sst",
    "interpolation": "p002.interpolation",
    "full-cifar": "p002.full_cifar",
    "dynamics": "p002.dynamics",
    "linear": "p002.linear",
    "s99": "p002.s99",
    "temperature-relation": "p003.temperature_relation",
    "focal-temperature": "p003.focal_temperature",
    "curvature": "p004.curvature",
    "curvature-regularised": "p004.curvature_regularised",
    "published-logits": "published_logits",
}
"""Names and modules, in the order of the papers; a module's experiment is its ``EXPERIMENT``."""


def find_experiment(name: str) -> Experiment:
    """Return the experiment with this name.

    Raises:
        ValueError: there is none; the message suggests the nearest name.
    """
    if name not in EXPERIMENTS:
        hint = did_you_mean(name, EXPERIMENTS)
        raise ValueError(
            f"there is no experiment {name!r}.{hint} There are {', '.join(EXPERIMENTS)}."
        )
    found: Experiment = import_module(f"focalibrate_papers.{EXPERIMENTS[name]}").EXPERIMENT
    return found
