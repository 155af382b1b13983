"""Where Ψ helps: the change of ECE against the generalisation gap."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from focalibrate.metrics import ece, error_rate, nll
from focalibrate.simulated import sample
from focalibrate.theory import recover_log_posterior
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.datasets import Dataset, Split
from focalibrate_papers.networks import folds, long_recipe, network_recipe, trained
from focalibrate_papers.p000.psi_tabular import LARGE, SMALL, tables_of
from focalibrate_papers.recipe import Recipe
from focalibrate_papers.recipes import LINE as RECIPE
from focalibrate_papers.recipes import TABLE

if TYPE_CHECKING:
    from focalibrate_papers.train import TrainedMember

GAMMAS = (1.0, 2.0, 3.0)
NEAR = 0.1
"""Test loss − training loss below which the two count as equal: the probability of the true class,
in the geometric mean, is then at most a tenth lower on test examples than on training examples."""
FITTED = 0.01
"""Training error below which a network counts as one that fits its training examples."""
N_RESAMPLES = 2000
LINE = "a line, n = "
"""How the names of the generated problems begin."""


def loss_name(gamma: float) -> str:
    """Return the name of a loss in the rows."""
    return f"FL-{gamma:g}"


def settings_of(rows: lab.Rows) -> pd.DataFrame:
    """Return a line per problem and exponent, in the order of the runs: means over its seeds.

    Of `loss_gap` (test NLL − training NLL; nan if that was not kept), `error_gap`, `train_error`,
    `ece` in percent without Ψ, its `change` by Ψ, `confidence_gap` (confidence − accuracy without
    Ψ), `n` (seeds or trials); `is_near`: the losses agree, as they do at the minimiser of the
    risk; `is_fitted`: it fits its training examples and has a much higher loss on test examples.
    """
    names = ("problem", "loss", "metric", "value")
    found = pd.DataFrame(
        [(problem_of(r.task), *reversed(r.metric.rsplit(", ", 1)), r.value) for r in rows],
        columns=names,
    )
    each = found.groupby(list(names[:3]), sort=False)["value"]
    mean, n = each.mean().unstack(), each.size().unstack()
    order = [(p, loss_name(g)) for p in found["problem"].unique() for g in GAMMAS]
    mean = mean.reindex([line for line in order if line in mean.index])
    if "train loss" not in mean:
        mean["train loss"] = np.nan
    loss_gap = mean["test loss"] - mean["train loss"]
    return pd.DataFrame(
        {
            "gamma": [float(loss.removeprefix("FL-")) for _, loss in mean.index],
            "loss_gap": loss_gap,
            "error_gap": mean["test error"] - mean["train error"],
            "train_error": mean["train error"],
            "ece": 100 * mean["ECE"],
            "change": 100 * (mean["ECE with Ψ"] - mean["ECE"]),
            "confidence_gap": mean["confidence − accuracy"],
            "n": n.reindex(mean.index)["ECE"],
            "is_under": mean["confidence − accuracy"] < 0,
            "is_helped": mean["ECE with Ψ"] < mean["ECE"],
            "is_near": loss_gap < NEAR,
            "is_fitted": (mean["train error"] < FITTED) & (loss_gap >= NEAR),
        }
    ).reset_index(level="problem")


def known_of(settings: pd.DataFrame) -> pd.DataFrame:
    """Return the settings whose training loss was kept."""
    return settings[settings.loss_gap.notna()]


def mean_changes(settings: pd.DataFrame) -> NDArray[np.float64]:
    """Return the mean change of each problem over its exponents: one independent observation."""
    return np.asarray(settings.groupby("problem", sort=False).change.mean(), dtype=np.float64)


def resampled_by_problem(
    estimate: Callable[..., float], settings: pd.DataFrame, *columns: str
) -> lab.Interval:
    """Return a number of some columns with its bootstrap interval over problems.

    Whole problems are resampled with replacement: the exponents of one problem share its data.
    """
    values = [settings[name].to_numpy() for name in columns]
    groups = sorted(settings.groupby("problem").indices.values(), key=lambda rows: rows[0])
    if len(groups) < 3:
        return lab.Interval(estimate(*values), -np.inf, np.inf)
    rng, drawn = np.random.default_rng(0), []
    for _ in range(N_RESAMPLES):
        rows = np.concatenate([groups[i] for i in rng.integers(len(groups), size=len(groups))])
        drawn.append(estimate(*(x[rows] for x in values)))
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    return lab.Interval(estimate(*values), float(low), float(high))


SMALLEST_GAP = 1e-3
"""Smaller and negative gaps are drawn at this value, because the axis is logarithmic."""


def family_of(problem: str) -> str:
    """Return the kind of problem: image networks, a line, or tables."""
    return "images" if problem in IMAGES else "line" if problem.startswith(LINE) else "tables"


def gap_chart(rows: lab.Rows) -> Chart:
    """Return the change of ECE by Ψ against the two generalisation gaps."""
    settings = settings_of(rows)

    def panel(title: str, x_label: str, settings: pd.DataFrame, gap: str) -> Panel:
        at = settings[gap].clip(lower=SMALLEST_GAP)
        family, series = settings.problem.map(family_of), []
        for color, name in ((0, "tables"), (2, "line"), (1, "images")):
            if (own := family == name).any():
                x, y = at[own].to_numpy(), settings.change[own].to_numpy()
                series.append(Series(x, y, name, "points", color=color))
        series.append(Series([at.min(), at.max()], [0.0, 0.0], style="dashed", color=6))
        if gap == "loss_gap":
            ends = [settings.change.min(), settings.change.max()]
            series.append(Series([NEAR, NEAR], ends, style="dashed", color=6))
        return Panel(title, x_label, "points of ECE, with Ψ − without", series, log_x=True)

    return Chart(
        "gap",
        "Change of ECE by Ψ (below 0: Ψ helps) against how much worse the network is on test "
        "examples than on training examples. Each point is one problem and one γ of 1 to 3, the "
        f"mean over seeds or trials. Gaps below {SMALLEST_GAP:g} are drawn at {SMALLEST_GAP:g}. "
        f"Dashed: no change, and in the left panel the bound of {NEAR:g} below which the losses "
        "count as equal.",
        [
            panel("Loss", "test loss − training loss", known_of(settings), "loss_gap"),
            panel("Error", "test error − training error", settings, "error_gap"),
        ],
        columns=2,
        size=(4.8, 3.8),
    )


def tables(rows: lab.Rows) -> Iterator[lab.Table]:
    """Yield the change by Ψ by regime, and every setting, image networks first."""
    settings = settings_of(rows)
    known = known_of(settings)
    regimes = {
        f"losses agree within {NEAR:g}": known.is_near,
        "between": ~known.is_near & ~known.is_fitted,
        f"training error below {100 * FITTED:g} %, losses differ": known.is_fitted,
    }
    body = []
    for name, holds in regimes.items():
        if len(own := known[holds]):
            counts = own.problem.nunique(), len(own), sum(own.is_helped)
            mean = lab.show_interval(lab.mean_interval(mean_changes(own)))
            body.append((name, *map(str, (*counts, sum(own.is_under))), mean))
    head = ("regime", "problems", "settings", "ECE falls in", "underconfident before")
    yield lab.Table(
        "Change of ECE by Ψ, by the network's distance from the minimiser of its risk",
        (*head, "change of ECE, points"),
        tuple(body),
        "The change is the mean over problems with its 95 % interval.",
    )
    order = np.argsort(settings.problem.map(family_of) != "images", kind="stable")
    columns = ("problem", "γ", "seeds", "loss gap", "training error, %", "error gap, points")
    yield lab.Table(
        "Every setting",
        (*columns, "ECE, %", "change by Ψ", "confidence − accuracy, points"),
        tuple(
            (
                s.problem,
                f"{s.gamma:g}",
                f"{s.n:g}",
                "–" if math.isnan(s.loss_gap) else f"{s.loss_gap:.3f}",
                f"{100 * s.train_error:.2f}",
                f"{100 * s.error_gap:.2f}",
                f"{s.ece:.2f}",
                f"{s.change:+.2f}",
                f"{100 * s.confidence_gap:+.2f}",
            )
            for s in settings.iloc[order].itertuples()
        ),
        "–: the training loss was not kept.",
    )


EXACTLY = 0.9
"""The fraction of settings that "exactly" requires."""


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield one result per question."""
    settings = settings_of(rows)
    known = known_of(settings)
    near, fitted = known[known.is_near], known[known.is_fitted]
    yield lab.judged("psi-gap/near", mean_changes(near), near=NEAR, note=_counted(near))
    yield lab.judged(
        "psi-gap/fitted",
        mean_changes(fitted),
        what="ECE with Ψ − without, mean over problems, for settings with a training error below "
        f"{100 * FITTED:g} % and a test loss at least {NEAR:g} above the training loss",
        note=_counted(fitted),
    )
    for what, own in (("loss", known), ("error", settings)):
        yield lab.judged(
            "psi-gap/further",
            resampled_by_problem(_rank_correlation, own, f"{what}_gap", "change"),
            measure=what,
            note=f"{len(own)} settings of {own.problem.nunique()} problems.",
        )
    yield lab.judged(
        "psi-gap/exactly",
        resampled_by_problem(_agreement, known, "is_near", "is_helped"),
        near=NEAR,
        n_known=len(known),
        bound=EXACTLY,
    )
    right = _agreement(known.is_under, known.is_helped)
    yield lab.judged(
        "psi-gap/sign",
        resampled_by_problem(
            lambda sign, near, helped: _agreement(sign, helped) - _agreement(near, helped),
            known,
            "is_under",
            "is_near",
            "is_helped",
        ),
        near=NEAR,
        right=right,
    )
    yield from _less_data(rows)


def _counted(own: pd.DataFrame) -> str:
    return (
        f"{len(own)} settings of {own.problem.nunique()} problems; the ECE falls in "
        f"{sum(own.is_helped)} of them."
    )


def _rank_correlation(gaps: NDArray[np.float64], changes: NDArray[np.float64]) -> float:
    return lab.correlation_interval(rankdata(gaps), rankdata(changes)).estimate


def _agreement(told: NDArray[np.bool_], helped: NDArray[np.bool_]) -> float:
    return float(np.mean(told == helped))


def finding(rows: lab.Rows) -> str:
    """Return the answer in one sentence."""
    known, texts = known_of(settings_of(rows)), []
    for holds in (known.is_near, known.is_fitted):
        mean = lab.mean_interval(mean_changes(known[holds]))
        texts.append(
            f"{mean.estimate:+.1f} points [{mean.low:+.1f}, {mean.high:+.1f}]"
            if holds.any()
            else "an unknown amount (there are no such settings)"
        )
    return (
        f"If training and test loss agree (within {NEAR:g}), Ψ changes the ECE by {texts[0]}; if "
        f"a network fits its training examples (error below {100 * FITTED:g} %) and has a higher "
        f"loss on test examples, by {texts[1]} (mean over problems, 95 % confidence interval)."
    )


def _less_data(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield the result for few and for many examples of the same problem, if both were run."""
    sizes = sorted(n for n in rows.each("line") if n is not None)
    if len(sizes) < 2:
        return
    few, many = (
        100
        * np.mean(
            [
                rows.curve(f"ECE with Ψ, {loss_name(g)}", line=n)[1]
                - rows.curve(f"ECE, {loss_name(g)}", line=n)[1]
                for g in GAMMAS
            ],
            axis=0,
        )
        for n in (sizes[0], sizes[-1])
    )
    yield lab.judged(
        "psi-gap/less-data",
        few - many,
        smallest=sizes[0],
        largest=sizes[-1],
        few=few.mean(),
        many=many.mean(),
    )


NAME = "psi-gap"
N_BINS = 10
"""As paper 000 has it."""
NETWORKS: Mapping[str, str] = {
    "fashion": "Fashion-MNIST, ResNet-8 with augmentation",
    "cifar10_s": "a tenth of CIFAR-10, ResNet-8 with augmentation",
    "interpolating": "a third of CIFAR-10, ResNet-20 without augmentation",
}
"""Networks of the queue of long trainings, by the name of their recipe."""
POOL = "CIFAR-10, 10,000 images, ResNet-8 without augmentation"
MLP = "Fashion-MNIST, 9,000 images, MLP"
IMAGES = (*NETWORKS.values(), POOL, MLP)
N_LARGE = 3
"""How many tables of 2,000 or more rows are used at reduced scale, the smallest first."""
SIZES = (200, 1_000, 5_000, 50_000)
"""Numbers of training examples on the line: from few enough to overfit to enough not to."""
STEPS = 500_000
"""Examples seen in training on the line: the number of epochs is this divided by their number."""


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return a run per table, per size of the line, and per network of images."""
    if scale == "smallest":
        few = {"trials": 2, "epochs": 3, "fraction": 0.04}
        return [
            *(lab.Task.of(NAME, table=name, **few) for name in ("overlap_1d", "square_2d")),
            *(lab.Task.of(NAME, line=n, trials=2, tested=500, epochs=5) for n in (100, 200)),
        ]
    trials, seeds = {"reduced": (3, 3), "full": (10, 10)}[scale]
    pool = "reduced" if scale == "reduced" else "full"
    return [
        *(
            lab.Task.of(NAME, table=name, trials=trials, epochs=100, fraction=1.0)
            for name in (*SMALL, *(LARGE[:N_LARGE] if scale == "reduced" else LARGE))
        ),
        *(
            lab.Task.of(NAME, line=n, trials=trials, tested=50_000, epochs=max(STEPS // n, 25))
            for n in SIZES
        ),
        lab.Task.of(NAME, mlp=pool, trials=seeds),
        *(
            lab.Task.of(NAME, network=name, gamma=gamma, seed=seed)
            for name in NETWORKS
            for gamma in GAMMAS
            for seed in range(seeds)
        ),
        *(
            lab.Task.of(NAME, pool=pool, gamma=gamma, seed=seed)
            for gamma in GAMMAS
            for seed in range(seeds)
        ),
    ]


def problem_of(task: lab.Task) -> str:
    """Return the problem in words."""
    if task.get("line"):
        return f"{LINE}{task['line']}"
    network = NETWORKS.get(task.get("network"), POOL)
    return str(task.get("table", MLP if task.get("mlp") else network))


def network_of(task: lab.Task) -> Recipe | None:
    """Return the recipe of a task that measures one trained network."""
    if task.get("gamma") is None:
        return None
    loss = f"fl{task['gamma']:g}"
    if task.get("network"):
        return long_recipe(task["network"], loss, seed=task.seed)
    return network_recipe("cifar10", loss, seed=task.seed, scale=task["pool"])


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Measure one network, or train and measure all copies of a table, line or MLP."""
    recipe = network_of(task)
    if recipe is not None:
        return _of_network(recipe, folders)
    if task.get("table"):
        return _of_table(task, folders)
    return _of_mlp(task, folders) if task.get("mlp") else _of_line(task)


def _of_network(recipe: Recipe, folders: lab.Folders) -> Iterator[tuple[str, float]]:
    found = trained(recipe, folders)
    gamma, seen = float(recipe.gamma), found.dynamics
    loss = loss_name(gamma)
    yield f"train loss, {loss}", float(seen["train_nll"][-1])
    yield f"train error, {loss}", float(seen["train_error"][-1])
    yield from _tested(found.test_logits, found.test_labels, gamma, in_halves=True)


def _tested(
    logits: NDArray[np.float32], labels: NDArray[np.int64], gamma: float, *, in_halves: bool
) -> Iterator[tuple[str, float]]:
    """Yield loss, error, and ECE without and with Ψ on test examples.

    ECE in halves is the mean over the two halves, as in `psi-images`.
    """
    loss, z = loss_name(gamma), logits.astype(np.float64)
    raw, mapped = (np.exp(recover_log_posterior(z, g)) for g in (0.0, gamma))
    yield f"test loss, {loss}", nll(labels=labels, log_probs=recover_log_posterior(z, 0.0))
    yield f"test error, {loss}", error_rate(raw, labels)
    hits = float(np.mean(raw.argmax(axis=1) == labels))
    yield f"confidence − accuracy, {loss}", float(raw.max(axis=1).mean()) - hits
    for name, probs in (("ECE", raw), ("ECE with Ψ", mapped)):
        parts = [(part.logits, part.labels) for part in folds(probs, labels)]
        whole = [(probs, labels)]
        each = [ece(p, y, n_bins=N_BINS) for p, y in (parts if in_halves else whole)]
        yield f"{name}, {loss}", float(np.mean(each))


def _of_table(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    recipe = replace(
        TABLE, dataset=task["table"], epochs=task["epochs"], fraction=task["fraction"]
    )
    for data in tables_of(task, task["table"], folders):
        yield from _of_copies(recipe, data)


def _of_line(task: lab.Task) -> lab.Numbers:
    def split(n: int, seed: list[int]) -> Split:
        found = sample(n, seed=seed)
        return Split(found.x[:, None].astype(np.float32), found.labels)

    recipe = replace(RECIPE, epochs=task["epochs"])
    if task["line"] > 5_000:  # as in `synthetic-posterior`
        recipe = replace(recipe, batch=512, milestones=(0.6, 0.85))
    names = ("a", "b", "c")
    data = {}
    for trial in range(task["trials"]):
        train, test = split(task["line"], [trial, 0]), split(task["tested"], [trial, 2])
        data[trial] = Dataset("overlap_1d", train, train, test, 3, names, "tabular")
    yield from _of_copies(recipe, data)


def _of_mlp(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    from focalibrate_papers.train import load_dataset

    recipe = network_recipe("fashion_mnist", "fl1", seed=0, scale=task["mlp"])
    data = load_dataset(recipe, data=folders.data)
    yield from _of_copies(recipe, dict.fromkeys(range(task["trials"]), data), in_halves=True)


def _of_copies(
    recipe: Recipe, data: Mapping[int, Dataset], *, in_halves: bool = False
) -> Iterator[tuple[str, float, float]]:
    """Train one copy per trial and exponent; `at` of the numbers is the trial."""
    from focalibrate_papers.train import train_many

    # The training examples are passed as validation examples, which are not used here.
    own = {trial: replace(one, validation=one.train) for trial, one in data.items()}
    for copy in train_many(recipe, seeds=own, gammas=GAMMAS, dataset=own):
        trial = copy.recipe.seed
        for name, value in _measured(copy, own[trial], in_halves=in_halves):
            yield name, float(f"{value:.7g}"), float(trial)


def _measured(
    copy: "TrainedMember", data: Dataset, *, in_halves: bool
) -> Iterator[tuple[str, float]]:
    gamma = float(copy.recipe.gamma)
    log_probs = recover_log_posterior(copy.validation_logits.astype(np.float64), 0.0)
    yield f"train loss, {loss_name(gamma)}", nll(labels=data.train.labels, log_probs=log_probs)
    yield (f"train error, {loss_name(gamma)}", error_rate(np.exp(log_probs), data.train.labels))
    yield from _tested(copy.test_logits, data.test.labels, gamma, in_halves=in_halves)


EXPERIMENT = lab.Experiment.of(__name__, tables=(tables,), charts=(gap_chart,), network=network_of)
