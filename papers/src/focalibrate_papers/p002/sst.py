"""Paper 002's rows of SST by its own protocol: Tree-LSTM, 25 epochs, ten losses."""

from typing import Literal

from focalibrate_papers import engine as lab
from focalibrate_papers.networks import SHOWN, losses_in, network_recipe, trained
from focalibrate_papers.p002.focal_calibration import (
    ERROR,
    MAIN,
    claims_of_number,
    claims_of_set,
    network_numbers,
    paper_values,
    score_tables,
    set_charts,
)
from focalibrate_papers.recipe import Recipe

NAME = "sst"
PROBLEM: Literal["sst_binary"] = "sst_binary"
LOSSES = (
    *("ce", "brier", "mmce", "fl1", "fl2", "fl3"),
    *("fls531", "fls532", "flsd532", "flsd53"),
)
NUMBERS = ("ce", "fl3", "flsd53")
"""Losses whose printed ECE is judged, if the error rate is that of the paper."""
SEEDS = 5
SHOWN_SET = "SST, 25 epochs"
"""Name of the set in claims, to distinguish it from the shorter runs of `focal-calibration`."""


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return a task for each network."""
    losses, seeds = {
        "smallest": (("ce", "fl3"), 2),
        "reduced": (("ce", "fl3", "flsd53"), 3),
        "full": (LOSSES, SEEDS),
    }[scale]
    return [
        lab.Task.of(NAME, problem=PROBLEM, loss=loss, seed=seed, is_short=scale == "smallest")
        for seed in range(seeds)
        for loss in losses
    ]


def recipe_of(task: lab.Task) -> Recipe:
    """Return how the task's network is trained: as in the paper, except at the smallest scale."""
    scale: lab.Scale = "smallest" if task["is_short"] else "full"
    return network_recipe(PROBLEM, task["loss"], seed=task["seed"], scale=scale)


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Return the scores of the test sentences before and after T."""
    found = trained(recipe_of(task), folders)
    return network_numbers(found, [found.fold])


def is_covered(rows: lab.Rows) -> bool:
    """Return whether the networks match the paper's: the error of CE is within 1 point of 12.85 %.

    The bound is the one by which `focal-calibration` counts errors as equal.
    """
    ours = rows.values("error %", loss="ce")
    paper = paper_values(PROBLEM, "ce")[MAIN[PROBLEM]]["error"]
    return rows.scale != "smallest" and bool(ours.size) and abs(ours.mean() - paper) <= ERROR.bound


def claims(rows: lab.Rows) -> tuple[lab.ClaimResult, ...]:
    """Return the comparisons of losses and the printed numbers, if the networks match."""
    results = [*claims_of_set(rows, PROBLEM, name=SHOWN_SET)]
    for loss in NUMBERS:
        results += claims_of_number(rows, PROBLEM, loss, name=SHOWN_SET)
    return lab.at_size(results, is_full=is_covered(rows))


def _trained_table(rows: lab.Rows) -> lab.Table:
    """Return which seeds of which losses are trained."""
    body = []
    for loss in LOSSES:
        seeds = sorted(rows.by_seed("ECE %", loss=loss))
        body.append(
            (SHOWN[loss], ", ".join(map(str, seeds)) or "none", f"{len(seeds)} of {SEEDS}")
        )
    note = (
        "FLS-531 and FLS-532 differ only in the last 7 of the 25 epochs: where an earlier epoch "
        "has the lowest validation error, they are the same network."
    )
    return lab.Table("Networks trained", ("loss", "seeds", "trained"), tuple(body), note)


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    parts = []
    for loss in losses_in(rows):
        ours = rows.values("ECE %", loss=loss)
        if loss in NUMBERS:
            (paper,) = paper_values(PROBLEM, loss).values()
            parts.append(f"{SHOWN[loss]} {ours.mean():.1f} (paper: {paper['ece']:.1f})")
    networks = sum(len(rows.values("ECE %", loss=loss)) for loss in LOSSES)
    error = rows.values("error %", loss="ce")
    errs = f"{error.mean():.1f} %" if error.size else "an unknown share"
    return (
        f"ECE in % before T: {', '.join(parts)}, from {networks} of the {SEEDS * len(LOSSES)} "
        f"networks; the error with CE is {errs}, in the paper 12.85 %."
    )


EXPERIMENT = lab.Experiment.of(
    __name__, tables=(score_tables, _trained_table), charts=(set_charts,), network=recipe_of
)
