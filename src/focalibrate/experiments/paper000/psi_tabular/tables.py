"""Methods compared on many tables."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, wilcoxon

from focalibrate.experiments.engine.experiment import Rows, Table
from focalibrate.experiments.engine.verdict import mean_interval
from focalibrate.report.charts import Chart, Panel, Series

GAMMAS = (0.0, 1.0, 2.0, 3.0)
METRICS = ("ECE", "CW-ECE", "NLL", "Brier")
ERROR = "error"
CE = "CE"


def focal(gamma: float) -> str:
    """Return the name of the loss with this exponent."""
    return f"FL-{gamma:g}" if gamma else CE


def mapped(gamma: float) -> str:
    """Return the name of that loss followed by Ψ."""
    return f"{focal(gamma)}+Ψ"


METHODS = (CE, *(name(g) for g in GAMMAS[1:] for name in (focal, mapped)))


@dataclass(frozen=True, eq=False)
class TabularRows:
    """One number per trial and table."""

    sets: tuple[str, ...]
    values: dict[str, NDArray[np.float64]]
    """by method and metric, ``[sets, trials]``"""

    @classmethod
    def of(cls, rows: Rows) -> "TabularRows":
        """Return the numbers of the rows, which have the same trials for every table."""
        sets = tuple(rows.recipes())
        trials = len({row.at for row in rows})
        values: dict[str, NDArray[np.float64]] = {}
        for row in rows:
            table = values.setdefault(row.metric, np.full((len(sets), trials), np.nan))
            table[sets.index(row.recipe), int(row.at)] = row.value
        return cls(sets, values)

    def mean(self, method: str, metric: str) -> NDArray[np.float64]:
        """Return the mean over the trials of each table, ``[sets]``."""
        mean: NDArray[np.float64] = self.values[f"{method} {metric}"].mean(axis=1)
        return mean

    def gap(self, method: str, other: str, metric: str) -> NDArray[np.float64]:
        """Return a method's numbers − those of another in the same trial."""
        return self.values[f"{method} {metric}"] - self.values[f"{other} {metric}"]


def told_apart(gaps: NDArray[np.float64]) -> tuple[int, int, int]:
    """Return on how many tables the paired interval is below 0, includes 0, is above 0."""
    intervals = [mean_interval(gap) for gap in gaps]
    below = sum(i.high < 0 for i in intervals)
    above = sum(i.low > 0 for i in intervals)
    return below, len(intervals) - below - above, above


def counts_table(found: TabularRows) -> Table:
    """Return on how many tables each method is lower than another, per metric."""
    body = []
    for metric in METRICS:
        for gamma in GAMMAS[1:]:
            raw, fixed = focal(gamma), mapped(gamma)
            for first, second in ((raw, CE), (fixed, raw), (fixed, CE)):
                gaps = found.gap(first, second, metric)
                means = gaps.mean(axis=1)
                below, like, above = told_apart(gaps)
                p = float(wilcoxon(means, method="approx").pvalue) if means.any() else 1.0
                body.append(
                    (
                        metric,
                        f"{first} − {second}",
                        f"{int((means < 0).sum())}",
                        f"{int((means > 0).sum())}",
                        f"{below} / {like} / {above}",
                        f"{np.median(means):+.4f}",
                        f"{p:.1g}",
                    )
                )
    return Table(
        f"On how many of the {len(found.sets)} tables one is lower than the other",
        (
            "metric",
            "difference",
            "lower on",
            "higher on",
            "significantly lower / no difference / higher",
            "median",
            "Wilcoxon p",
        ),
        tuple(body),
        "Means over trials; the intervals are paired over trials, table by table. Wilcoxon's "
        "signed-rank test is over tables.",
    )


def _average_ranks(found: TabularRows, metric: str) -> NDArray[np.float64]:
    means = np.stack([found.mean(method, metric) for method in METHODS])
    ranks: NDArray[np.float64] = rankdata(means, axis=0).mean(axis=1)
    return ranks


def ranks_table(found: TabularRows) -> Table:
    """Return the average rank of each method, per metric."""
    ranks = [_average_ranks(found, metric) for metric in METRICS]
    body = tuple(
        (method, *(f"{rank[i]:.2f}" for rank in ranks)) for i, method in enumerate(METHODS)
    )
    return Table(
        "Average rank over the tables", ("method", *METRICS), body, "1 is the lowest of the seven."
    )


def means_table(found: TabularRows) -> Table:
    """Return the ECE of each method on each table."""
    means = [100 * found.mean(method, "ECE") for method in METHODS]
    error = 100 * found.mean(CE, ERROR)
    body = tuple(
        (name, *(f"{mean[i]:.2f}" for mean in means), f"{error[i]:.2f}")
        for i, name in enumerate(found.sets)
    )
    return Table(
        "ECE of each table, %", ("table", *METHODS, "error of CE"), body, "Means over trials."
    )


def ece_chart(found: TabularRows) -> Chart:
    """Draw the ECE of focal loss without and with Ψ against that of cross-entropy."""
    base = 100 * found.mean(CE, "ECE")
    panels = []
    for gamma in GAMMAS[1:]:
        drawn = [100 * found.mean(m, "ECE") for m in (focal(gamma), mapped(gamma))]
        everything = np.concatenate([base, *drawn])
        ends = [float(everything.min()), float(everything.max())]
        series = [
            Series(base, drawn[0], focal(gamma), "points"),
            Series(base, drawn[1], mapped(gamma), "points"),
            Series(ends, ends, "equal", "dashed", color=6),
        ]
        title = f"γ = {gamma:g}"
        panels.append(Panel(title, "ECE of CE, %", "ECE, %", series, log_x=True, log_y=True))
    return Chart(
        "ece",
        "ECE of focal loss without and with Ψ against that of cross-entropy, one point per table "
        "(means over trials).",
        panels,
    )


def ranks_chart(found: TabularRows) -> Chart:
    """Draw the average ranks."""

    def panel(metric: str) -> Panel:
        ranks = _average_ranks(found, metric)
        short = [m.replace("FL-", "").replace("+", "") for m in METHODS]
        kinds: Sequence[tuple[str, list[int], int]] = (
            ("cross-entropy", [0], 6),
            ("focal", [1, 3, 5], 0),
            ("focal + Ψ", [2, 4, 6], 1),
        )
        is_first = metric == METRICS[0]  # one legend is enough, and there it does not hide a bar
        series = [
            Series([short[i] for i in at], ranks[at], label * is_first, "bars", color=color)
            for label, at, color in kinds
        ]
        return Panel(metric, "exponent", "average rank", series)

    return Chart(
        "ranks",
        "Average rank over the tables; 1 is the lowest of the seven.",
        [panel(metric) for metric in METRICS],
        columns=2,
    )
