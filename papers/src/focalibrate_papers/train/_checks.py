"""Checks before a run begins, so that errors show in a second and not after an hour."""

import numpy as np
from torch import nn

from focalibrate._check import check_labels
from focalibrate_papers.datasets import Dataset
from focalibrate_papers.recipe import Recipe

BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def check_dataset(dataset: Dataset) -> None:
    """Raise `ValueError` unless every split has examples, with labels of at least two classes."""
    for name in ("train", "validation", "test"):
        split = getattr(dataset, name)
        if len(split) == 0:
            raise ValueError(
                f"{dataset.name}: the {name} examples are empty. Use a larger `fraction` or "
                "another data set."
            )
        if len(split.inputs) != len(split.labels):
            raise ValueError(
                f"{dataset.name}: the {name} examples must have one label each, found "
                f"{len(split.inputs)} inputs and {len(split.labels)} labels."
            )
        try:
            check_labels(split.labels, shape=(len(split),), n_classes=dataset.n_classes)
        except ValueError as error:
            raise ValueError(f"{dataset.name}, {name} examples: {error}") from error
    found = np.unique(dataset.train.labels)
    if dataset.n_classes < 2 or len(found) < 2:
        raise ValueError(
            f"{dataset.name}: training needs examples of at least 2 classes, found "
            f"{'class ' + str(found[0]) + ' only' if len(found) == 1 else len(found)}. Use a "
            "larger `fraction` or another data set."
        )


def check_batches(recipe: Recipe, model: nn.Module, *, n_train: int) -> None:
    """Raise `ValueError` if batch-norm would get a batch of one example."""
    if not any(isinstance(module, BATCH_NORM) for module in model.modules()):
        return
    full, rest = divmod(n_train, recipe.batch)
    sizes = ([recipe.batch] if full else []) + ([rest] if rest else [])
    for size in sizes:
        if size < 2:
            where = "every batch" if size == recipe.batch else f"the last batch of {n_train}"
            raise ValueError(
                f"`batch` must leave at least 2 examples to each step, as {recipe.model!r} has "
                f"batch-norm, which cannot learn from one; {where} examples has {size}. "
                f"Set batch={recipe.batch + 1}, or another `fraction`."
            )
