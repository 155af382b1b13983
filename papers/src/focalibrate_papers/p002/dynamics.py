"""What happens to a network's confidence while it is trained (E6)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from focalibrate.theory import phi
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.networks import (
    SET_NAMES,
    SHOWN,
    UNPUBLISHED,
    Problem,
    by_problem,
    difference,
    losses_in,
    paired,
    pool_recipe,
    pool_tasks,
    trained,
)
from focalibrate_papers.recipe import Recipe

_COMPARED = {
    "validation nll": "NLL",
    "validation nll_correct": "NLL, right predictions",
    "validation nll_incorrect": "NLL, wrong predictions",
    "validation entropy_incorrect": "entropy, wrong predictions",
    "validation p_true_correct": "p of the true class, right",
    "validation p_true_incorrect": "p of the true class, wrong",
    "validation ece": "ECE",
    "weight norm": "norm of the last layer's weights",
}
CURVES_OF_ALL = tuple(_COMPARED)
CURVES_OF_CE = (
    *CURVES_OF_ALL,
    "validation entropy_correct",
    "validation error",
    "train nll",
    "train error",
)
"""What Figure 1 also shows."""
BRIEF = (
    "validation nll_incorrect",
    "validation p_true_incorrect",
    "validation ece",
    "weight norm",
)
"""What is drawn for the data sets after the first."""
IN_FIGURE_4 = ("ce", "fl1", "fl3", "flsd53")
_END = {
    "train error": "train error",
    "test error": "test error",
    "test ece": "ECE",
    "test nll": "NLL",
    "test nll_incorrect": "NLL, wrong",
    "test entropy_incorrect": "entropy, wrong",
    "test p_true_incorrect": "p true, wrong",
    "test p_true_correct": "p true, right",
    "weight norm before the drop": "‖W‖ before the drop",
    "weight norm": "‖W‖",
    "log10 gradient norm, first look": "log10 gradient, first look",
    "log10 gradient norm, last look": "log10 gradient, last look",
}


def end_table(rows: lab.Rows) -> Iterator[lab.Table]:
    """Yield one table per data set with the figures at the end of training."""
    for problem, own in by_problem(rows).items():
        yield lab.Table(
            f"{SET_NAMES[problem]}: the end of training",
            ("loss", *_END.values()),
            tuple(
                (SHOWN[loss], *(lab.spread(own.values(m, loss=loss), 3) for m in _END))
                for loss in losses_in(own)
            ),
            "Mean ± standard deviation over the seeds; fractions and nats. Gradients are medians "
            "over training examples; all other columns are for the test examples unless they say "
            "otherwise.",
        )


def charts(rows: lab.Rows) -> Iterator[Chart]:
    """Yield the paper's four figures for the first set, and its third for the others."""
    (problem, first), *others = by_problem(rows).items()
    yield _figure_1(first, problem)
    yield _figure_2(first, problem)
    yield _figure_3(first, problem, CURVES_OF_ALL)
    for other, own in others:
        yield _figure_3(own, other, BRIEF)
    yield _figure_4(first, problem)


def _figure_1(rows: lab.Rows, problem: Problem) -> Chart:
    def panel(title: str, y_label: str, metrics: dict[str, str]) -> Panel:
        series = [Series(*rows.curve(m, loss="ce"), label) for m, label in metrics.items()]
        return Panel(title, "epoch", y_label, series)

    return Chart(
        "figure-1",
        f"Paper 002, Figure 1, here on {SET_NAMES[problem]}: a network trained with CE. Mean "
        "over the seeds, on the validation examples unless marked train.",
        [
            panel(
                "NLL",
                "nats",
                {
                    "train nll": "train",
                    "validation nll": "all",
                    "validation nll_correct": "right",
                    "validation nll_incorrect": "wrong",
                },
            ),
            panel(
                "Entropy",
                "nats",
                {"validation entropy_correct": "right", "validation entropy_incorrect": "wrong"},
            ),
            panel(
                "Error and ECE",
                "share",
                {
                    "train error": "train error",
                    "validation error": "error",
                    "validation ece": "ECE",
                },
            ),
        ],
    )


def _figure_2(rows: lab.Rows, problem: Problem) -> Chart:
    panels = []
    for i in range(1, 5):
        accuracy, share = (
            rows.curve(f"{what} of bin, look {i}", loss="ce") for what in ("accuracy", "share")
        )
        epoch = rows.values(f"epoch of look {i}", loss="ce")[0]
        panels.append(
            Panel(
                f"After epoch {epoch:.0f}",
                "confidence",
                "share",
                [
                    Series([0.0, 1.0], [0.0, 1.0], style="dashed", color=6),
                    Series(*accuracy, label="accuracy", style="line and points", color=0),
                    Series(*share, label="examples", style="line", color=1),
                ],
            )
        )
    return Chart(
        "figure-2",
        f"Paper 002, Figure 2, here on {SET_NAMES[problem]}: accuracy on the training examples "
        "by confidence (15 bins), and the fraction of them in each bin, during training with CE. "
        "Mean over the seeds.",
        panels,
        columns=4,
    )


def _figure_3(rows: lab.Rows, problem: Problem, curves: Sequence[str]) -> Chart:
    panels = []
    for metric in curves:
        is_first = metric == curves[0]
        series = [
            Series(*rows.curve(metric, loss=x), SHOWN[x] * is_first) for x in losses_in(rows)
        ]
        panels.append(Panel(_COMPARED[metric], "epoch", "", series))
    return Chart(
        f"figure-3-{problem.replace('_', '-')}",
        f"Paper 002, Figure 3, here on the validation examples of {SET_NAMES[problem]}; the "
        "first panel has the legend. Mean over the seeds.",
        panels,
        columns=4,
    )


def _figure_4(rows: lab.Rows, problem: Problem) -> Chart:
    p = np.linspace(0.0, 1.0, 201)
    gammas = (0.0, 1.0, 2.0, 3.0, 7.0)
    factor = [Series(p, phi(p, gamma=g), label=f"γ = {g:g}") for g in gammas]
    panels = [Panel("Factor φ of the gradient", "p", "φ", factor)]
    losses = [x for x in losses_in(rows) if x in IN_FIGURE_4]
    panels += [_histogram(rows, losses, when) for when in ("early", "middle", "late")]
    return Chart(
        "figure-4",
        f"Paper 002, Figure 4, here on {SET_NAMES[problem]}: the factor by which focal loss "
        "changes the gradient of CE, and the distribution of the norm of the last layer's "
        "gradient over training examples. Mean over the seeds; norms beyond the ends are counted "
        "there.",
        panels,
        columns=4,
    )


def _histogram(rows: lab.Rows, losses: Sequence[str], when: str) -> Panel:
    series = [Series(*rows.curve(f"gradients, {when}", loss=x), SHOWN[x]) for x in losses]
    epoch = rows.values(f"epoch of gradients, {when}", loss=losses[0])[0]
    return Panel(f"After epoch {epoch:.0f}", "log10 of the gradient norm", "share", series)


FACTOR_TWO = 0.301
"""Decades within which gradient norms count as similar."""
CONFIDENT = 0.95
FIXED = ("fl1", "fl2", "fl3")


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield the results of every set that was run."""
    for problem, own in by_problem(rows).items():
        for result in claims_of_set(own, problem):
            words = f"{result.paper_value} (the paper says so about CIFAR-10)"
            yield lab.as_ours(result, paper_value=words) if problem in UNPUBLISHED else result


def claims_of_set(
    rows: lab.Rows, problem: Problem, *, name: str = ""
) -> Iterator[lab.ClaimResult]:
    """Yield the results of one set, called `name` in the claims if that is given."""
    for part in (_overfitting, _focal, _still_confident, _weights, _gradient_claims, _order):
        for result in part(rows):
            is_short = part is _still_confident and problem not in UNPUBLISHED
            # The probability grows with training: a shorter run says nothing about the number.
            shows = "nothing" if is_short else result.smaller_shows
            claim = f"{name or SET_NAMES[problem]}: {result.claim}"
            yield replace(result, claim=claim, smaller_shows=shows)


def _compared(
    rows: lab.Rows, name: str, metric: str, *, loss: str = "fl3", other: str = "ce"
) -> Iterator[lab.ClaimResult]:
    """Yield the result on `loss` − `other`, paired by seed, if both were trained."""
    ours = difference(rows, loss, other, metric)
    if ours is not None:
        yield lab.judged(f"dynamics/{name}", ours, loss=SHOWN[loss], other=SHOWN[other])


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    problem, rows = next(iter(by_problem(rows).items()))
    rise = {loss: rows.values("rise of nll_incorrect", loss=loss).mean() for loss in ("ce", "fl3")}
    text = (
        f"On {SET_NAMES[problem]}, after the drop of the learning rate, the NLL of wrong "
        f"predictions rises by {rise['ce']:.2f} nats with CE and by {rise['fl3']:.2f} with FL-3"
    )
    norm = difference(rows, "fl3", "ce", "weight norm before the drop")
    if norm is not None and norm.high < 0:
        text += (
            f". Before the drop the norm of the last layer's weights is lower with FL-3 than with "
            f"CE, by {-norm.estimate:.2f} [{-norm.high:.2f}, {-norm.low:.2f}]; the paper, which "
            "trains far longer, has it higher"
        )
    return f"{text}."


def _overfitting(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield Section 3's account of cross-entropy (Figure 1)."""
    for figure in ("nll", "nll_incorrect", "nll_correct", "ece"):
        values = rows.values(f"rise of {figure}", loss="ce")
        if values.size:
            yield lab.judged(f"dynamics/rise {figure}", values)


def _focal(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield how FL-3 differs from cross-entropy (Figure 3 a–f)."""
    for metric in (
        "rise of nll_incorrect",
        "test entropy_incorrect",
        "test p_true_incorrect",
        "test p_true_correct",
    ):
        yield from _compared(rows, metric, metric)


def _still_confident(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    losses = [loss for loss in losses_in(rows) if loss in ("ce", *FIXED)]
    found = {
        loss: lab.mean_interval(rows.values("test p_true_correct", loss=loss)) for loss in losses
    }
    least = min(found, key=lambda loss: found[loss].estimate)
    yield lab.judged("dynamics/still-confident", found[least], least=SHOWN[least], bound=CONFIDENT)


def _weights(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield whose last layer has the larger weights, before the drop and at the end."""
    for metric in ("weight norm before the drop", "weight norm"):
        for loss in FIXED:
            yield from _compared(rows, metric, metric, loss=loss)


def _gradient_claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield how gradient norms of training examples compare early and late (Figure 4)."""
    first, last = (
        paired(rows, "fl3", "ce", f"log10 gradient norm, {name} look")
        for name in ("first", "last")
    )
    if not first:
        return
    yield lab.judged(
        "dynamics/early-alike",
        lab.mean_interval([abs(gap) for gap in first.values()]).within(0.0, math.inf),
        bound=FACTOR_TWO,
    )
    yield lab.judged("dynamics/falls-less", [last[seed] - first[seed] for seed in first])
    yield lab.judged("dynamics/late-smaller", list(last.values()))


def _order(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield the order of calibration by the exponent (Figure 3 g)."""
    for loss, other in (("fl1", "ce"), ("fl2", "fl1"), ("fl3", "fl2"), ("fl3", "ce")):
        name = "calibrated" if other == "ce" else "order"
        yield from _compared(rows, name, "test ece", loss=loss, other=other)


Arrays = Mapping[str, NDArray[np.float64]]

NAME = "dynamics"
PROBLEMS: tuple[Problem, ...] = ("cifar10", "fashion_mnist")
LOSSES = ("ce", "fl1", "fl2", "fl3", "flsd53")
FIGURES = (
    "nll",
    "nll_correct",
    "nll_incorrect",
    "entropy_incorrect",
    "p_true_correct",
    "p_true_incorrect",
    "error",
    "ece",
)
RISES = ("nll", "nll_correct", "nll_incorrect", "ece")
N_POINTS = 25
"""Most points of a curve."""
LOW, HIGH = -6.0, 2.0
"""Powers of ten between which gradient norms are shown; others are counted at the ends."""


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one task per network."""
    return pool_tasks(NAME, scale, problems=PROBLEMS, losses=LOSSES)


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Return the curves of the network's training and the numbers that claims are judged by."""
    recipe = pool_recipe(task)
    seen = trained(recipe, folders).dynamics
    if task["problem"] == PROBLEMS[0]:
        return [*training_numbers(recipe, seen, loss=task["loss"])]
    return [*_whole_run(seen, drop=first_drop(recipe)), *_curves(seen, BRIEF)]


def training_numbers(recipe: Recipe, seen: Arrays, *, loss: str) -> lab.Numbers:
    """Yield what claims are judged by, and all that the paper's four figures show of a loss."""
    yield from _whole_run(seen, drop=first_drop(recipe))
    yield from _curves(seen, CURVES_OF_CE if loss == "ce" else CURVES_OF_ALL)
    if loss in IN_FIGURE_4:
        yield from _gradients(seen)
    if loss == "ce":
        yield from _reliability(seen)


def first_drop(recipe: Recipe) -> int:
    """Return the first epoch, from 0, with a lower learning rate; half-way if it never falls."""
    return recipe.milestone_epochs[0] if recipe.milestone_epochs else recipe.epochs // 2


def _whole_run(seen: Arrays, *, drop: int) -> Iterator[tuple[str, float]]:
    """Yield the numbers at the end and before the drop, and the rises since the drop."""
    for figure in FIGURES:
        yield from _kept(f"test {figure}", seen[f"test_{figure}"][-1])
    yield "train error", float(seen["train_error"][-1])
    for figure in RISES:
        curve = seen[f"validation_{figure}"]
        yield from _kept(f"rise of {figure}", curve[-1] - curve[drop])
    yield "weight norm before the drop", float(seen["weight_norm"][:drop].mean())
    yield "weight norm", float(seen["weight_norm"][-1])
    looks = looked_at(seen)
    for name, epoch in (("first", looks[0]), ("last", looks[-1])):
        middle = median_of(seen["train_gradient_histogram"][epoch], seen["gradient_edges"])
        yield f"log10 gradient norm, {name} look", middle


def _kept(name: str, value: float) -> Iterator[tuple[str, float]]:
    """Yield a number unless it is nan, as the mean over no examples is."""
    if not np.isnan(value):
        yield name, float(value)


def looked_at(seen: Arrays) -> list[int]:
    """Return the epochs, from 0, at which training and test examples were evaluated."""
    return [int(e) for e in np.flatnonzero(~np.isnan(seen["test_error"]))]


def median_of(counts: NDArray[np.float64], edges: NDArray[np.float64]) -> float:
    """Return the power of ten of the median of a histogram, interpolated within its bin.

    The first edge is 0 and the last infinite; values in those bins are taken at their finite edge.
    """
    at = np.log10(np.concatenate([edges[1:2], edges[1:-1], edges[-2:-1]]))
    below = np.concatenate([[0.0], np.cumsum(counts)]) / counts.sum()
    place = int(np.searchsorted(below, 0.5)) - 1
    share = (0.5 - below[place]) / (below[place + 1] - below[place])
    return float(at[place] + share * (at[place + 1] - at[place]))


def _curves(seen: Arrays, names: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    """Yield figures per epoch, counted from 1; those of training examples when evaluated."""
    n, looks = len(seen["weight_norm"]), looked_at(seen)
    shown = sorted({*range(0, n, -(-n // N_POINTS)), n - 1})
    for name in names:
        curve = seen[name.replace(" ", "_")]
        for e in looks if name.startswith("train") else shown:
            if not np.isnan(curve[e]):
                yield name, _short(curve[e]), float(e + 1)


def _gradients(seen: Arrays) -> Iterator[tuple[str, float, float]]:
    """Yield histograms over training examples of log10 of the gradient norm, at three epochs."""
    at = np.clip(np.log10(np.maximum(seen["gradient_edges"][:-1], 1e-99)), LOW, HIGH)
    place = np.rint(5 * (at - LOW)).astype(np.intp)
    looks = looked_at(seen)
    for when, epoch in zip(("early", "middle", "late"), spaced(looks, 3), strict=True):
        counts = np.bincount(place, seen["train_gradient_histogram"][epoch])
        for i, share in enumerate(counts / counts.sum()):
            yield f"gradients, {when}", _short(share), round(LOW + i / 5, 1)
        yield f"epoch of gradients, {when}", float(epoch + 1), float("nan")


def _reliability(seen: Arrays) -> Iterator[tuple[str, float, float]]:
    """Yield fraction and accuracy per confidence bin of training examples, at four epochs."""
    for i, epoch in enumerate(spaced(looked_at(seen), 4), start=1):
        count, _, correct = seen["train_reliability"][epoch]
        middle = (np.arange(count.size) + 0.5) / count.size
        for b, at in enumerate(middle):
            yield f"share of bin, look {i}", _short(count[b] / count.sum()), round(float(at), 4)
            if count[b] > 0:
                yield f"accuracy of bin, look {i}", _short(correct[b] / count[b]), round(at, 4)
        yield f"epoch of look {i}", float(epoch + 1), float("nan")


def spaced(looks: list[int], n: int) -> list[int]:
    """Return `n` of the epochs, evenly spaced from the first to the last; repeated if too few."""
    return [looks[round(i * (len(looks) - 1) / (n - 1))] for i in range(n)]


def _short(value: float) -> float:
    """Return five digits, enough for a curve."""
    return float(f"{value:.5g}")


EXPERIMENT = lab.Experiment.of(
    __name__, tables=(end_table,), charts=(charts,), network=pool_recipe
)
