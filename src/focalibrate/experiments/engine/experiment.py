"""An experiment of the papers: its runs, and what is concluded from them."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.verdict import ClaimResult
from focalibrate.report.charts import Chart

if TYPE_CHECKING:
    from focalibrate.train import Recipe

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

    def __getitem__(self, name: str) -> Any:
        return dict(self.settings)[name]

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

    run: str
    """key of the task"""
    recipe: str
    """what was run, as readers see it: the settings without the seed"""
    seed: int
    metric: str
    value: float
    at: float = float("nan")
    """position of the number on a curve, such as the epoch; nan for a number of the whole run"""


@dataclass(frozen=True)
class Rows:
    """The rows of an experiment, and the few ways to select from them."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def recipes(self) -> list[str]:
        """Return the recipes in the order in which they were run."""
        return list(dict.fromkeys(row.recipe for row in self.rows))

    def by_seed(self, recipe: str, metric: str) -> dict[int, float]:
        """Return a number of the whole run per seed; empty if there is none."""
        return {
            row.seed: row.value
            for row in self.rows
            if row.recipe == recipe and row.metric == metric and np.isnan(row.at)
        }

    def values(self, recipe: str, metric: str) -> NDArray[np.float64]:
        """Return a number of the whole run per seed, in the order of the seeds."""
        found = self.by_seed(recipe, metric)
        return np.array([found[seed] for seed in sorted(found)], dtype=np.float64)

    def curve(
        self, recipe: str, metric: str, *, seed: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the x and y values of a curve, averaged over the seeds (or of one seed)."""
        points: dict[float, list[float]] = {}
        for row in self.rows:
            fits = row.recipe == recipe and row.metric == metric and not np.isnan(row.at)
            if fits and (seed is None or row.seed == seed):
                points.setdefault(row.at, []).append(row.value)
        at = np.array(sorted(points), dtype=np.float64)
        return at, np.array([np.mean(points[a]) for a in at], dtype=np.float64)


@dataclass(frozen=True)
class Table:
    """A table of the page, ready to show."""

    title: str
    head: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
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
class Covered:
    """One aspect of the paper's runs, such as its data sets, and what was run here."""

    part: str
    paper: str
    here: str


@dataclass(frozen=True)
class Folders:
    """Folders that a run reads and writes."""

    data: Path | None
    """of the data sets; FOCALIBRATE_DATA when None"""
    trained: Path
    """of trained networks, which experiments share: one folder per recipe, named by its key"""


Numbers: TypeAlias = Iterable[tuple[str, float] | tuple[str, float, float]]
"""What a run returns: metric and value, or metric, value and position on a curve."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure or table of a paper that is reproduced.

    `tasks`, `run` and `conclude` are functions of a module, so that worker processes find them by
    the experiment's name.
    """

    name: str
    code: str
    """short name, such as ``"E2"``; the recipes of its networks begin with it (``e2-ce``)"""
    source: str
    """paper and figures"""
    title: str
    protocol: str
    """what is done, in a few sentences, in Markdown without headings"""
    smaller: Mapping[Scale, str]
    """what is smaller than in the paper and what therefore cannot be concluded; "" if nothing"""
    tasks: Callable[[Scale], Sequence[Task]]
    run: Callable[[Task, Folders], Numbers]
    describe: Callable[[Task], tuple[str, int]]
    """recipe and seed of a task, as the rows name them"""
    conclude: Callable[[Rows, Scale], Conclusion]
    network: "Callable[[Task], Recipe | None] | None" = None
    """recipe of the trained network that a task measures; None for a task without one"""
    coverage: Mapping[Scale, tuple[Covered, ...]] = field(default_factory=dict)
    """what of the paper's runs is made at a scale; empty if everything is computed"""
    changed_rules: str = ""
    """which rules were changed after the results were seen, and why"""
    packages: Sequence[str] = field(default=("numpy", "scipy"))
    """packages whose versions affect the numbers"""

    def is_full(self, scale: Scale) -> bool:
        """Return whether the run is as large as the paper's in all that the claims are about."""
        return not self.smaller[scale]
