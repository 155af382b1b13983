"""ResNet-20 trained until it fits all its training examples: the regime the papers are about."""

from collections.abc import Iterator

import numpy as np

from focalibrate_papers import engine as lab
from focalibrate_papers.networks import (
    SHOWN,
    Problem,
    difference,
    long_recipe,
    losses_in,
    network_recipe,
    trained,
)
from focalibrate_papers.p002.dynamics import charts as training_charts
from focalibrate_papers.p002.dynamics import claims_of_set as of_training
from focalibrate_papers.p002.dynamics import end_table, training_numbers
from focalibrate_papers.p002.focal_calibration import claims_of_set as of_ece
from focalibrate_papers.p002.focal_calibration import network_numbers, score_tables, set_charts
from focalibrate_papers.p002.s99 import claims_of_set as of_confident
from focalibrate_papers.p002.s99 import confident_numbers, confident_tables
from focalibrate_papers.p003.focal_temperature import scaling_numbers
from focalibrate_papers.p004.curvature import curvature_numbers
from focalibrate_papers.recipe import Recipe

PROBLEM: Problem = "cifar10"
SHOWN_SET = "Interpolating"
"""Name of the set in claims, to distinguish it from the smaller runs of other experiments."""


def claims(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield the claims of each paper, by the rules of the experiments on smaller networks."""
    for part in (of_ece, of_training, of_confident):
        yield from part(rows, PROBLEM, name=SHOWN_SET)
    yield from _focal_temperature(rows)
    yield from _curvature(rows)


def _focal_temperature(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield paper 003's claim that the second parameter lowers the calibration error."""
    gaps: dict[int, list[float]] = {}
    for loss in losses_in(rows):
        alone = rows.by_seed("adaece, TS_ECE", loss=loss)
        for seed, both in rows.by_seed("adaece, FTS_ECE", loss=loss).items():
            gaps.setdefault(seed, []).append(100 * (both - alone[seed]))
    if gaps:
        yield lab.judged(
            "interpolation/fts-lower", [float(np.mean(gaps[seed])) for seed in sorted(gaps)]
        )


def _curvature(rows: lab.Rows) -> Iterator[lab.ClaimResult]:
    """Yield paper 004's claim about the loss of training, and our question about one loss."""
    for of, loss_name, is_papers in (
        ("own", "the training loss", True),
        ("ce", "cross-entropy", False),
    ):
        ours = difference(rows, "fl3", "ce", f"lambda_max, {of}")
        if ours is not None:
            yield lab.judged(
                "interpolation/lambda-max", ours, loss_name=loss_name, is_papers=is_papers
            )


def finding(rows: lab.Rows) -> str:
    """Return the main result in one sentence."""
    parts = []
    for loss in losses_in(rows):
        ece, after = (rows.values(m, loss=loss).mean() for m in ("ECE %", "ECE % after T"))
        seeds = rows.values("ECE %", loss=loss).size
        parts.append(
            f"{SHOWN[loss]} {ece:.1f} → {after:.1f} ({seeds} {'seed' if seeds == 1 else 'seeds'})"
        )
    fitted = [rows.values("train error %", loss=loss).max() for loss in losses_in(rows)]
    return (
        f"Networks with a training error of at most {max(fitted):.2f} %; ECE in % before → after "
        f"T: {', '.join(parts)}."
    )


NAME = "interpolation"
LOSSES = ("ce", "fl3", "flsd53", "fl5")
SEEDS = 3
N_EXAMPLES, N_VECTORS = 256, 10
"""Validation examples of the Hessian, and random vectors of its trace."""
IN_CURVATURE = ("ce", "fl3")


def tasks(scale: lab.Scale) -> list[lab.Task]:
    """Return one task per network."""
    is_small = scale == "smallest"
    return [
        lab.Task.of(NAME, loss=loss, seed=seed, is_small=is_small)
        for seed in range(2 if is_small else SEEDS)
        for loss in (LOSSES[:2] if is_small else LOSSES)
    ]


def recipe_of(task: lab.Task) -> Recipe:
    """Return how the task's network is trained."""
    if task["is_small"]:
        return network_recipe(PROBLEM, task["loss"], seed=task["seed"], scale="smallest")
    return long_recipe("interpolating", task["loss"], seed=task["seed"])


def run(task: lab.Task, folders: lab.Folders) -> lab.Numbers:
    """Measure one network in all that the smaller experiments of papers 002 to 004 measure."""
    from focalibrate_papers.train import load_dataset

    recipe, loss = recipe_of(task), task["loss"]
    found = trained(recipe, folders)
    yield from network_numbers(found, [found.fold])
    yield from training_numbers(recipe, found.dynamics, loss=loss)
    for name, value in confident_numbers(found.test_logits, found.test_labels):
        if name != "T":  # which is fitted on validation rows here
            yield name, value
    yield from scaling_numbers([found.fold], step=20 if task["is_small"] else 1)
    if loss in IN_CURVATURE:
        yield from curvature_numbers(
            found.folder,
            load_dataset(recipe, data=folders.data),
            loss=loss,
            n_examples=N_EXAMPLES,
            n_vectors=N_VECTORS,
        )


EXPERIMENT = lab.Experiment.of(
    __name__,
    tables=(score_tables, confident_tables, end_table),
    charts=(set_charts, training_charts),
    network=recipe_of,
)
