"""Paper 000, Appendix C: focal loss with and without Ψ, compared with cross-entropy on tables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata, wilcoxon

from focalibrate.metrics import brier_score, classwise_ece, ece, error_rate, nll
from focalibrate.theory import recover_log_posterior
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.datasets import Dataset, load
from focalibrate_papers.recipes import TABLE

if TYPE_CHECKING:
    from focalibrate_papers.train import TrainedMember

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


@dataclass(frozen=True)
class Found:
    """Numbers of each table in each trial."""

    rows: lab.Rows

    @property
    def sets(self) -> list[str]:
        """Return the tables."""
        return self.rows.each("dataset")

    def values(self, method: str, metric: str) -> NDArray[np.float64]:
        """Return the numbers ``[sets, trials]``."""
        name = f"{method} {metric}"
        return np.array([self.rows.curve(name, dataset=one)[1] for one in self.sets])

    def mean(self, method: str, metric: str) -> NDArray[np.float64]:
        """Return the mean over the trials of each table, ``[sets]``."""
        return np.asarray(self.values(method, metric).mean(axis=1))

    def gap(self, method: str, other: str, metric: str) -> NDArray[np.float64]:
        """Return a method's numbers − those of another in the same trial."""
        return self.values(method, metric) - self.values(other, metric)


def told_apart(gaps: NDArray[np.float64]) -> tuple[int, int, int]:
    """Return on how many tables the paired interval is below 0, includes 0, is above 0."""
    intervals = [lab.mean_interval(gap) for gap in gaps]
    below = sum(i.high < 0 for i in intervals)
    above = sum(i.low > 0 for i in intervals)
    return below, len(intervals) - below - above, above


def counts_table(found: Found) -> lab.Table:
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
    return lab.Table(
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


def _average_ranks(found: Found, metric: str) -> NDArray[np.float64]:
    means = np.stack([found.mean(method, metric) for method in METHODS])
    ranks: NDArray[np.float64] = rankdata(means, axis=0).mean(axis=1)
    return ranks


def ranks_table(found: Found) -> lab.Table:
    """Return the average rank of each method, per metric."""
    ranks = [_average_ranks(found, metric) for metric in METRICS]
    body = tuple(
        (method, *(f"{rank[i]:.2f}" for rank in ranks)) for i, method in enumerate(METHODS)
    )
    return lab.Table(
        "Average rank over the tables", ("method", *METRICS), body, "1 is the lowest of the seven."
    )


def means_table(found: Found) -> lab.Table:
    """Return the ECE of each method on each table."""
    means = [100 * found.mean(method, "ECE") for method in METHODS]
    error = 100 * found.mean(CE, ERROR)
    body = tuple(
        (name, *(f"{mean[i]:.2f}" for mean in means), f"{error[i]:.2f}")
        for i, name in enumerate(found.sets)
    )
    return lab.Table(
        "ECE of each table, %", ("table", *METHODS, "error of CE"), body, "Means over trials."
    )


def ece_chart(found: Found) -> Chart:
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


def ranks_chart(found: Found) -> Chart:
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


MARGIN = 1.0
"""An ECE of at most one point more counts as comparable; the paper gives no number."""


def claims(found: Found) -> list[lab.ClaimResult]:
    """Return one result per claim."""
    results = [r for gamma in GAMMAS[1:] for r in _of_ece(found, gamma)]
    results += [_of_metric(found, metric) for metric in METRICS[1:]]
    return [*results, _same_error(found)]


def finding(found: Found) -> str:
    """Return the main result in one sentence."""
    gamma = GAMMAS[-1]
    raw, psi, plain = (
        100 * found.mean(name, "ECE").mean() for name in (focal(gamma), mapped(gamma), CE)
    )
    return (
        f"Mean ECE over {len(found.sets)} tables: {plain:.1f} % with CE, {raw:.1f} % with "
        f"{focal(gamma)} and {psi:.1f} % with {focal(gamma)} and Ψ."
    )


def _share(holds: NDArray[np.bool_]) -> lab.Interval:
    return lab.share_interval(int(holds.sum()), len(holds))


def _of_ece(found: Found, gamma: float) -> Iterator[lab.ClaimResult]:
    n, raw, fixed = len(found.sets), focal(gamma), mapped(gamma)
    is_higher = found.mean(raw, "ECE") > found.mean(CE, "ECE")
    yield lab.judged(
        "psi-tabular/higher", _share(is_higher), raw=raw, n=n, note=_by_size(found, is_higher)
    )
    is_lower = found.mean(fixed, "ECE") < found.mean(raw, "ECE")
    yield lab.judged(
        "psi-tabular/lower", _share(is_lower), raw=raw, n=n, note=_by_size(found, is_lower)
    )
    gap = 100 * found.gap(fixed, CE, "ECE")
    better, like, worse = told_apart(gap)
    yield lab.judged(
        "psi-tabular/near-ce",
        gap.mean(axis=1),
        fixed=fixed,
        margin=MARGIN,
        better=better,
        like=like,
        worse=worse,
        bound=MARGIN,
    )


def _of_metric(found: Found, metric: str) -> lab.ClaimResult:
    """Judge the effect of Ψ on another metric, over all exponents together."""
    gaps = [found.gap(mapped(g), focal(g), metric).mean(axis=1) for g in GAMMAS[1:]]
    is_lower = np.mean(gaps, axis=0) < 0
    return lab.judged(
        "psi-tabular/metric",
        _share(is_lower),
        metric=metric,
        unit=f"of {len(found.sets)} tables",
        note=_by_size(found, is_lower),
    )


def _by_size(found: Found, holds: NDArray[np.bool_]) -> str:
    """Return on how many small and large tables something holds, if there are both."""
    is_large = np.array([name in LARGE for name in found.sets])
    if not is_large.any():
        return ""
    return (
        f"{int(holds[~is_large].sum())} of the {int((~is_large).sum())} tables with fewer than "
        f"2,000 rows, {int(holds[is_large].sum())} of the {int(is_large.sum())} larger ones."
    )


def _same_error(found: Found) -> lab.ClaimResult:
    gaps = [found.gap(mapped(g), focal(g), ERROR) for g in GAMMAS[1:]]
    return lab.judged("psi-tabular/same-error", float(np.abs(gaps).max()), covers=True)


NAME = "psi-tabular"
SMALL = (
    *("zoo", "lymph", "sk_iris", "tae", "sk_wine", "autos", "sonar", "glass", "heart_statlog"),
    *("vertebral3", "ecoli", "primary_tumor", "ionosphere", "libras", "dermatology"),
    *("arrhythmia", "keel_led7digit", "sk_breast_cancer", "balance_scale", "soybean"),
    *("credit_a", "diabetes", "vehicle", "anneal", "tic_tac_toe", "vowel", "credit_g"),
    *("banknote", "cmc", "yeast", "winequality_red", "car", "sk_digits"),
)
"""Tables of fewer than 2,000 rows."""
LARGE = (
    *("keel_titanic", "segment", "dna", "splice", "kr_vs_kp", "hypothyroid", "sick", "abalone3"),
    *("spambase", "winequality_white", "waveform5000", "keel_banana", "phoneme", "page_blocks"),
    *("keel_texture", "optdigits", "satellite", "keel_marketing", "keel_twonorm", "keel_ring"),
    *("mushroom", "pendigits", "mammography", "nursery", "keel_magic", "letter"),
)
"""The others, except shuttle, which alone would take a quarter of the time."""
N_BINS = 10
"""As paper 000 has it."""


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one run per table; it trains all trials and exponents at once."""
    if scale == "smallest":
        few = {"trials": 2, "epochs": 3, "fraction": 0.04}
        return [lab.Task.of(NAME, dataset=name, **few) for name in ("overlap_1d", "square_2d")]
    sets, trials = (SMALL, 5) if scale == "reduced" else (SMALL + LARGE, 10)
    return [lab.Task.of(NAME, dataset=d, trials=trials, epochs=100, fraction=1.0) for d in sets]


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Train one copy per trial and exponent; `at` of the numbers is the trial."""
    from focalibrate_papers.train import train_many

    recipe = replace(
        TABLE, dataset=task["dataset"], epochs=task["epochs"], fraction=task["fraction"]
    )
    for own in tables_of(task, task["dataset"], folders):
        for copy in train_many(recipe, seeds=own, gammas=GAMMAS, dataset=own):
            yield from _measured(copy, own[copy.recipe.seed].test.labels)


def tables_of(task: lab.Task, name: str, folders: lab.Folders) -> Iterator[dict[int, Dataset]]:
    """Yield a table's splits by trial, those with equally many columns together.

    If a category is missing in the training part of a split, the split has one column less.
    """
    found: dict[int, dict[int, Dataset]] = {}
    for trial in range(task["trials"]):
        data = load(name, data=folders.data, seed=trial, fraction=task["fraction"])
        width = np.asarray(data.train.inputs).shape[1]
        found.setdefault(width, {})[trial] = data
    yield from (found[width] for width in sorted(found))


def _measured(
    copy: "TrainedMember", labels: NDArray[np.int64]
) -> Iterator[tuple[str, float, float]]:
    gamma, trial = float(copy.recipe.gamma), float(copy.recipe.seed)
    logits = copy.test_logits.astype(np.float64)
    names = {focal(gamma): 0.0} | ({mapped(gamma): gamma} if gamma else {})
    for name, exponent in names.items():
        log_probs = recover_log_posterior(logits, exponent)
        probs = np.exp(log_probs)
        found = {
            "ECE": ece(probs, labels, n_bins=N_BINS),
            "CW-ECE": classwise_ece(probs, labels, n_bins=N_BINS),
            "NLL": nll(labels=labels, log_probs=log_probs),
            "Brier": brier_score(probs, labels),
            ERROR: error_rate(probs, labels),
        }
        for metric, value in found.items():
            yield f"{name} {metric}", float(f"{value:.7g}"), trial


EXPERIMENT = lab.Experiment.of(
    __name__,
    tables=(counts_table, ranks_table, means_table),
    charts=(ece_chart, ranks_chart),
    look=Found,
)
