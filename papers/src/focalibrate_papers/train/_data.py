"""The data set of a recipe."""

from pathlib import Path

from focalibrate_papers.datasets import Dataset, load
from focalibrate_papers.recipe import Recipe

DATA_SEED = 0
"""The split is the same for every seed of a recipe: seeds affect only weights and order."""


def load_dataset(recipe: Recipe, *, data: str | Path | None = None) -> Dataset:
    """Return the examples that `recipe` names, from the folder of data sets `data`."""
    return load(recipe.dataset, data=data, seed=DATA_SEED, fraction=recipe.fraction)
