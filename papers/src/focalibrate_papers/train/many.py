"""Many small runs as one: copies of a network with stacked weights."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from focalibrate_papers.datasets import Dataset
from focalibrate_papers.recipe import Recipe
from focalibrate_papers.train._checks import check_dataset
from focalibrate_papers.train._data import load_dataset
from focalibrate_papers.train._stack import Stack


@dataclass(frozen=True, eq=False)
class TrainedMember:
    """One of the runs."""

    recipe: Recipe
    """with the seed, the exponent and the weight of the trace of this copy"""
    weights: dict[str, Tensor]
    """the network's state, for `load_state_dict`"""
    loss: NDArray[np.float64]
    """mean training loss of each epoch; nan from where the copy diverged"""
    validation_logits: NDArray[np.float32]
    test_logits: NDArray[np.float32]


def train_many(
    recipe: Recipe,
    *,
    seeds: Iterable[int] | None = None,
    gammas: Iterable[float | str] | None = None,
    trace_weights: Iterable[float] | None = None,
    dataset: Dataset | Mapping[int, Dataset] | None = None,
    data: str | Path | None = None,
) -> list[TrainedMember]:
    """Train one copy for every seed, exponent and weight of the trace, at once, in memory.

    Each copy has its own initial weights, order and loss, and ends where `train` of its recipe
    ends, to float tolerance. A step of a small network is mostly overhead of calls, not
    arithmetic; stacked, one call serves all copies. A copy that diverges does not disturb the
    others.

    Args:
        recipe: what the copies share.
        seeds: seeds of the copies; that of the recipe when None.
        gammas: exponents or names of policies; that of the recipe when None.
        trace_weights: weights of the trace of the Hessian in the loss; that of the recipe when
            None.
        dataset: examples; those of each seed, in a mapping, where each has its own split of one
            set; those that the recipe names when None.
        data: folder of data sets; the environment variable FOCALIBRATE_DATA names it when None.

    Returns:
        Copies in the order of the seeds, of the exponents within a seed, and of the weights of
        the trace within an exponent.

    Raises:
        ValueError: for networks with batch-norm or dropout, whose copies would disturb each
            other, for losses that are not a sum over examples, and for data sets that differ in
            shape.
    """
    seeds = [recipe.seed] if seeds is None else list(seeds)
    gammas = [recipe.gamma] if gammas is None else list(gammas)
    traces = [recipe.trace_weight] if trace_weights is None else list(trace_weights)
    recipes = [
        replace(recipe, seed=seed, gamma=gamma, trace_weight=trace)
        for seed, gamma, trace in product(seeds, gammas, traces)
    ]
    if not recipes:
        raise ValueError("`seeds`, `gammas` and `trace_weights` must not be empty.")
    _check_kind(recipe, recipes)
    if dataset is None:
        dataset = load_dataset(recipe, data=data)
    return _run(recipes, _by_seed(dataset, seeds))


def _run(recipes: Sequence[Recipe], datasets: Mapping[int, Dataset]) -> list[TrainedMember]:
    stack = Stack(recipes, datasets)
    losses = np.stack([stack.epoch(epoch) for epoch in range(recipes[0].epochs)])
    validation, test = stack.logits("validation"), stack.logits("test")
    return [
        TrainedMember(
            recipe,
            {name: stacked[i].detach().clone() for name, stacked in stack.weights.items()},
            losses[:, i].copy(),
            validation[i],
            test[i],
        )
        for i, recipe in enumerate(recipes)
    ]


def _by_seed(dataset: Dataset | Mapping[int, Dataset], seeds: Sequence[int]) -> dict[int, Dataset]:
    """Return the data set of each seed, all checked to be of one shape."""
    if isinstance(dataset, Dataset):
        datasets = dict.fromkeys(seeds, dataset)
    else:
        absent = [seed for seed in seeds if seed not in dataset]
        if absent:
            raise ValueError(
                f"`dataset` must have one entry per seed, but has none for {absent[0]}."
            )
        datasets = {seed: dataset[seed] for seed in seeds}
    shapes = {}
    for one in {id(d): d for d in datasets.values()}.values():
        check_dataset(one)
        if one.kind not in ("image", "tabular"):
            raise ValueError(
                f"`dataset` must be of images or a table for many copies at once, got {one.kind}. "
                "Call `train` for each seed."
            )
        shapes[np.asarray(one.train.inputs).shape, one.n_classes] = one
    if len(shapes) > 1:
        shown = " and ".join(f"{shape} of {k} classes" for shape, k in list(shapes)[:2])
        raise ValueError(
            f"`dataset` must be of one shape for all seeds, got training examples {shown}. Call "
            "`train_many` once for each shape."
        )
    return datasets


def _check_kind(recipe: Recipe, recipes: Sequence[Recipe]) -> None:
    if recipe.loss not in ("focal", "brier") or any(r.gamma == "adafocal" for r in recipes):
        raise ValueError(
            f"`loss` must be 'focal' (not adafocal) or 'brier' for many copies at once, got "
            f"{recipe.loss!r}. Call `train` for each seed."
        )
    if recipe.precision != "float32" or recipe.keep != "last":
        raise ValueError(
            "`precision` must be float32 and `keep` last for many copies at once, got "
            f"{recipe.precision} and {recipe.keep}. Call `train` for each seed."
        )
