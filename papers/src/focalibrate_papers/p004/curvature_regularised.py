"""Paper 004, Figure 4: cross-entropy with the trace of its Hessian as a penalty."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from focalibrate.curvature import hutchinson_trace
from focalibrate.metrics import brier_score, ece, error_rate, nll
from focalibrate.theory import recover_log_posterior
from focalibrate_papers import engine as lab
from focalibrate_papers.charts import Chart, Panel, Series
from focalibrate_papers.recipes import PENALISED

STRONG = 0.5
"""A correlation above this counts as strong; the paper gives no number."""
ECE, TRACE = "ECE", "trace of the validation loss"
_PAPER = (
    'Fig. 4: "Higher τ values resulted in lower ECE and smaller Tr(H_val), while lower τ values '
    'led to higher ECE and Tr(H_val)"'
)
_STEPS = 'Sec. 4.3: "As shown in Fig. 4, ECE consistently decreases with increasing τ"'


_SHORT = "The paper does not say how long it trained: does the claim hold early in training?"


def taus_of(rows: lab.Rows) -> list[float]:
    """Return the weights τ of the trace, 0 first."""
    return sorted({row.at for row in rows})


def by_network(rows: lab.Rows) -> dict[str, lab.Rows]:
    """Return the rows of each learning rate and length, such as "lr 0.005, 60 epochs"."""
    return {
        f"lr {lr:g}, {epochs} epochs": rows.of(lr=lr, epochs=epochs)
        for lr, epochs in rows.each("lr", "epochs")
    }


def by_seed(rows: lab.Rows, metric: str, taus: Sequence[float]) -> NDArray[np.float64]:
    """Return a metric of one network ``[seeds, weights]``; nan if a run diverged."""
    found = []
    for seed in rows.each("seed"):
        at, values = rows.curve(metric, seed=seed)
        known = dict(zip(at.tolist(), values.tolist(), strict=True))
        found.append([known.get(tau, np.nan) for tau in taus])
    return np.array(found)


def shown(rows: lab.Rows, metric: str, taus: Sequence[float]) -> NDArray[np.float64]:
    """Return the same with ECE and error in percent."""
    return by_seed(rows, metric, taus) * (100.0 if metric in (ECE, "error") else 1.0)


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Judge the paper by the longest runs; shorter ones answer a question of our own."""
    longest, *shorter = sorted(rows.each("epochs"), reverse=True)
    yield from _claims(rows.of(epochs=longest), longest)
    for epochs in shorter:
        for result in _claims(rows.of(epochs=epochs), epochs):
            yield lab.as_ours(result, paper_value=_SHORT)


def _claims(rows: lab.Rows, epochs: int) -> Iterator[lab.ClaimResult]:
    """Compare the largest τ with none, and step by step, at every learning rate."""
    taus, networks = taus_of(rows), by_network(rows)
    n = len(networks)
    where = next(iter(networks)) if n == 1 else f"{n} learning rates, {epochs} epochs"
    for metric, name, unit in ((ECE, ECE, "points of ECE"), (TRACE, "Tr(H_val)", "Tr(H_val)")):
        found = {key: shown(own, metric, taus) for key, own in networks.items()}
        for key, own in networks.items():
            error = shown(own, "error", taus)
            yield _ends(found[key], error, taus[-1], name=name, unit=unit, where=key)
        yield _steps(found, taus, name=name, unit=unit, where=where)
    yield _correlation([*networks.values()], taus, where)


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    taus, parts = taus_of(rows), dict[int, list[str]]()
    for lr, epochs in rows.each("lr", "epochs"):
        own = rows.of(lr=lr, epochs=epochs)
        ece, error = (np.nanmean(shown(own, m, taus), axis=0) for m in (ECE, "error"))
        parts.setdefault(epochs, []).append(
            f"{ece[0]:.1f} → {ece[-1]:.1f} (error {error[0]:.1f} → {error[-1]:.1f}, lr {lr:g})"
        )
    lengths = (f"after {n} epochs {', '.join(parts[n])}" for n in sorted(parts, reverse=True))
    return f"ECE in % without the penalty → with τ = {taus[-1]:g}: {'; '.join(lengths)}."


def _ends(
    values: NDArray[np.float64],
    error: NDArray[np.float64],
    tau: float,
    *,
    name: str,
    unit: str,
    where: str,
) -> lab.ClaimResult:
    cost = lab.mean_interval(error[:, -1] - error[:, 0])
    return lab.judged(
        "curvature-regularised/lower",
        values[:, -1] - values[:, 0],
        name=name,
        tau=tau,
        where=where,
        measure=unit,
        note=f"From {values[:, 0].mean():.4g}."
        + (f" The error changes by {lab.show_interval(cost)} points." if name == ECE else ""),
    )


def _steps(
    values: Mapping[str, NDArray[np.float64]],
    taus: Sequence[float],
    *,
    name: str,
    unit: str,
    where: str,
) -> lab.ClaimResult:
    steps = [lab.mean_interval(step) for v in values.values() for step in np.diff(v, axis=1).T]
    worst = max(steps, key=lambda step: step.estimate)
    lowest = ", ".join(
        f"τ = {taus[int(np.argmin(v.mean(axis=0)))]:g} at {key}" for key, v in values.items()
    )
    return lab.judged(
        "curvature-regularised/every-step",
        worst,
        name=name,
        where=where,
        n_steps=len(steps),
        measure=unit,
        paper_value=_STEPS if name == ECE else _PAPER,
        note=f"The mean falls at {sum(s.estimate < 0 for s in steps)} of {len(steps)} steps. "
        f"Lowest with {lowest}.",
    )


def _correlation(
    networks: Sequence[lab.Rows], taus: Sequence[float], where: str
) -> lab.ClaimResult:
    traces, errors = (
        np.concatenate([by_seed(own, metric, taus).ravel() for own in networks])
        for metric in (TRACE, ECE)
    )
    return lab.judged(
        "curvature-regularised/correlated",
        lab.correlation_interval(traces, errors),
        where=where,
        size=traces.size,
        bound=STRONG,
    )


NAME = "curvature-regularised"
SEEDS = (0, 1, 2)
SHORT, LONG = 8, 60
"""Epochs of the sweep over learning rates, and of the long runs."""
TRACE_VECTORS = 10


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one run per learning rate and seed; it trains all weights τ at once.

    At full size also one long training, at the middle learning rate.
    """
    small = scale == "smallest"
    settings = {
        "dataset": "overlap_1d" if small else "cifar10",
        "taus": (0.0, 1e-4, 3e-4, 1e-3),
        "fraction": {"smallest": 0.04, "reduced": 0.2, "full": 1.0}[scale],
    }
    short = [
        lab.Task.of(NAME, lr=lr, seed=seed, epochs=2 if small else SHORT, **settings)
        for lr in ((0.005, 0.01) if small else (0.0025, 0.005, 0.01))
        for seed in (SEEDS[:2] if small else SEEDS)
    ]
    if scale != "full":
        return short
    return short + [lab.Task.of(NAME, lr=0.005, seed=s, epochs=LONG, **settings) for s in SEEDS]


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Train one copy per weight τ of the trace, which is the `at` of its numbers."""
    from focalibrate_papers.train import load_dataset, member_hessian, train_many

    settings = {name: task[name] for name in ("dataset", "lr", "seed", "epochs", "fraction")}
    recipe = replace(PENALISED, **settings)
    data = load_dataset(recipe, data=folders.data)
    for copy in train_many(recipe, trace_weights=task["taus"], dataset=data):
        tau = copy.recipe.trace_weight
        yield "training loss", float(copy.loss[-1]), tau
        if not np.isfinite(copy.test_logits).all():
            continue  # diverged, as the training loss says
        hessian = member_hessian(copy, data)
        trace = hutchinson_trace(
            hessian.matvec,
            hessian.size,
            n_vectors=TRACE_VECTORS,
            seed=task["seed"],
            block_matvec=hessian.block_matvec,
        )
        yield TRACE, trace.value, tau
        yield "its standard error", trace.standard_error, tau
        for metric, value in _measured(copy.test_logits, data.test.labels):
            yield metric, value, tau


def _measured(
    logits: NDArray[np.float32], labels: NDArray[np.int64]
) -> Iterator[tuple[str, float]]:
    log_probs = recover_log_posterior(logits.astype(np.float64), 0.0)
    probs = np.exp(log_probs)
    yield ECE, ece(probs, labels)
    yield "NLL", nll(labels=labels, log_probs=log_probs)
    yield "Brier", brier_score(probs, labels)
    yield "error", error_rate(probs, labels)


def _table(rows: lab.Rows) -> lab.Table:
    taus, body = taus_of(rows), []
    for name, own in by_network(rows).items():
        found = {m: shown(own, m, taus) for m in (ECE, "error", "NLL", "Brier", TRACE)}
        for i, tau in enumerate(taus):
            ece, error, log_loss, brier, trace = (
                lab.mean_interval(v[:, i]) for v in found.values()
            )
            cells = [lab.show_interval(ece), lab.show_interval(error), f"{log_loss.estimate:.4f}"]
            cells += [f"{brier.estimate:.4f}", lab.show_interval(trace)]
            body.append((name.removeprefix("lr "), f"{tau:g}", *cells))
    return lab.Table(
        "Test examples at the end, and the trace on the validation examples",
        ("learning rate, epochs", "τ", "ECE, %", "error, %", "NLL", "Brier", "Tr(H_val)"),
        tuple(body),
        "Means over seeds with their 95 % confidence interval. A low ECE is no achievement if "
        "the error is high: probabilities near the class frequencies are calibrated and useless.",
    )


def _figure(rows: lab.Rows) -> Chart:
    taus, networks = taus_of(rows), by_network(rows)
    at = [max(tau, taus[1] / 3) for tau in taus]  # no penalty, on a logarithmic axis
    cloud = [
        Series(
            shown(own, TRACE, taus).mean(axis=0),
            shown(own, ECE, taus).mean(axis=0),
            name,
            "line and points",
        )
        for name, own in networks.items()
    ]

    def against_tau(title: str, y_label: str, metric: str) -> Panel:
        series = [
            Series.over_seeds(at, shown(own, metric, taus).T, name)
            for name, own in networks.items()
        ]
        return Panel(title, "τ", y_label, series, log_x=True)

    return Chart(
        "figure-4",
        "First panel, as in the paper: one point per learning rate, number of epochs and τ, "
        "means over seeds, connected in the order of τ. The other panels: against τ, with bands "
        "from the lowest to the highest seed; the leftmost point is without the penalty.",
        [
            Panel("ECE against curvature", "Tr(H_val)", "ECE, %", cloud),
            against_tau("ECE", "ECE, %", ECE),
            against_tau("Curvature", "Tr(H_val)", TRACE),
            against_tau("Error", "error, %", "error"),
        ],
        columns=2,
    )


EXPERIMENT = lab.Experiment.of(__name__, tables=(_table,), charts=(_figure,))
