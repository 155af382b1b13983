"""The claims of paper 004 about a penalty on the trace, with the rules that judge them."""

import numpy as np
from numpy.typing import NDArray

from focalibrate.experiments.engine.experiment import Rows
from focalibrate.experiments.engine.forest import show_interval
from focalibrate.experiments.engine.verdict import (
    ClaimResult,
    as_ours,
    correlation_interval,
    mean_interval,
    side_result,
)

STRONG = 0.5
"""A correlation above this counts as strong; the paper gives no number."""
ECE, TRACE = "ECE", "trace of the validation loss"
_PAPER = (
    'Fig. 4: "Higher τ values resulted in lower ECE and smaller Tr(H_val), while lower τ values '
    'led to higher ECE and Tr(H_val)"'
)
_STEPS = 'Sec. 4.3: "As shown in Fig. 4, ECE consistently decreases with increasing τ"'
_CORRELATED = (
    'Sec. 4.3: "indicating a strong correlation between curvature reduction and calibration '
    'improvement"'
)


_SHORT = "The paper does not say how long it trained: does the claim hold early in training?"


def taus_of(rows: Rows) -> list[float]:
    """Return the weights τ of the trace, 0 first."""
    return sorted({row.at for row in rows})


def by_seed(rows: Rows, recipe: str, metric: str) -> NDArray[np.float64]:
    """Return a metric ``[seeds, weights]``; nan if a run diverged."""
    seeds = sorted({row.seed for row in rows})
    taus = taus_of(rows)
    found = np.full((len(seeds), len(taus)), np.nan)
    for row in rows:
        if row.recipe == recipe and row.metric == metric:
            found[seeds.index(row.seed), taus.index(row.at)] = row.value
    return found


def claims(rows: Rows, *, is_full: bool) -> tuple[ClaimResult, ...]:
    """Judge the paper by the longest runs; shorter ones answer a question of our own."""
    lengths = {recipe.split(", ")[1] for recipe in rows.recipes()}
    longest, *shorter = sorted(lengths, key=_epochs, reverse=True)
    results = _claims(_of_length(rows, longest), longest, is_full)
    for length in shorter:
        results += [
            as_ours(result, paper_value=_SHORT)
            for result in _claims(_of_length(rows, length), length, is_full)
        ]
    return tuple(results)


def _epochs(text: str) -> int:
    """Return the number in "lr 0.005, 60 epochs"."""
    return int(text.split()[-2])


def _rates(rows: Rows, length: str) -> str:
    """Return the learning rates that were run, for a claim: "lr 0.005, 60 epochs" if one."""
    recipes = rows.recipes()
    return recipes[0] if len(recipes) == 1 else f"{len(recipes)} learning rates, {length}"


def _of_length(rows: Rows, length: str) -> Rows:
    return Rows(tuple(row for row in rows if row.recipe.endswith(f", {length}")))


def _claims(rows: Rows, length: str, is_full: bool) -> list[ClaimResult]:
    """Compare the largest τ with none, and step by step, at every learning rate."""
    taus = taus_of(rows)
    results: list[ClaimResult] = []
    for metric, factor, unit in ((ECE, 100.0, "points of ECE"), (TRACE, 1.0, "Tr(H_val)")):
        results += [
            _ends(rows, recipe, metric, factor, unit, taus, is_full) for recipe in rows.recipes()
        ]
        results.append(_steps(rows, metric, factor, unit, taus, length, is_full))
    return [*results, _correlation(rows, length, is_full)]


def finding(rows: Rows) -> str:
    """Return the main result in one sentence."""
    parts: dict[int, list[str]] = {}
    for recipe in rows.recipes():
        ece, error = (100 * np.nanmean(by_seed(rows, recipe, m), axis=0) for m in (ECE, "error"))
        parts.setdefault(_epochs(recipe), []).append(
            f"{ece[0]:.1f} → {ece[-1]:.1f} (error {error[0]:.1f} → {error[-1]:.1f}, "
            f"{recipe.split(', ')[0]})"
        )
    lengths = (f"after {n} epochs {', '.join(parts[n])}" for n in sorted(parts, reverse=True))
    return f"ECE in % without the penalty → with τ = {taus_of(rows)[-1]:g}: {'; '.join(lengths)}."


def _ends(
    rows: Rows,
    recipe: str,
    metric: str,
    factor: float,
    unit: str,
    taus: list[float],
    is_full: bool,
) -> ClaimResult:
    values = factor * by_seed(rows, recipe, metric)
    error = 100.0 * by_seed(rows, recipe, "error")
    cost = mean_interval(error[:, -1] - error[:, 0])
    name = ECE if metric == ECE else "Tr(H_val)"
    return side_result(
        mean_interval(values[:, -1] - values[:, 0]),
        claim=f"{name} is lower with τ = {taus[-1]:g} than without the penalty, {recipe}",
        what="mean difference over seeds",
        paper_value=_PAPER,
        unit=f"{unit}, τ = {taus[-1]:g} − none",
        covers=is_full,
        note=f"From {values[:, 0].mean():.4g}."
        + (f" The error changes by {show_interval(cost)} points." if metric == ECE else ""),
    )


def _steps(
    rows: Rows,
    metric: str,
    factor: float,
    unit: str,
    taus: list[float],
    length: str,
    is_full: bool,
) -> ClaimResult:
    values = {recipe: factor * by_seed(rows, recipe, metric) for recipe in rows.recipes()}
    steps = [mean_interval(step) for v in values.values() for step in np.diff(v, axis=1).T]
    worst = max(steps, key=lambda step: step.estimate)
    name = ECE if metric == ECE else "Tr(H_val)"
    lowest = ", ".join(
        f"τ = {taus[int(np.argmin(v.mean(axis=0)))]:g} at {recipe}" for recipe, v in values.items()
    )
    return side_result(
        worst,
        claim=f"{name} falls with every step of τ, {_rates(rows, length)}",
        what=f"change over seeds at the worst of {len(steps)} steps",
        paper_value=_STEPS if metric == ECE else _PAPER,
        unit=f"{unit}, worst step",
        covers=is_full,
        note=f"The mean falls at {sum(s.estimate < 0 for s in steps)} of {len(steps)} steps. "
        f"Lowest with {lowest}.",
    )


def _correlation(rows: Rows, length: str, is_full: bool) -> ClaimResult:
    traces, errors = (
        np.concatenate([by_seed(rows, r, metric).ravel() for r in rows.recipes()])
        for metric in (TRACE, ECE)
    )
    return side_result(
        correlation_interval(traces, errors),
        claim=f"ECE and Tr(H_val) are strongly correlated over τ, {_rates(rows, length)}",
        what="Pearson's correlation over all networks",
        paper_value=_CORRELATED,
        unit=f"correlation over {traces.size} networks",
        below=False,
        bound=STRONG,
        covers=is_full,
    )
