"""A network of a recipe, sized for its data, its optimiser, and its output for a batch."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from focalibrate_papers.datasets import Dataset
from focalibrate_papers.models import build
from focalibrate_papers.recipe import Recipe


def build_model(recipe: Recipe, dataset: Dataset) -> nn.Module:
    """Return the network, newly initialised from torch's global generator.

    Sizes that follow from the data (classes, channels, features, words) are filled in; the rest
    is the recipe's `size`.
    """
    model = build(recipe.model, **(_facts(dataset) | dict(recipe.size)))
    if dataset.kind == "image":  # a sixth faster on a CPU, with inputs in the same memory layout
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def _facts(dataset: Dataset) -> dict[str, Any]:
    facts: dict[str, Any] = {"n_classes": dataset.n_classes}
    if dataset.kind == "image":
        shape = np.asarray(dataset.train.inputs).shape
        return facts | {"in_channels": shape[3], "image_size": shape[1]}
    if dataset.kind == "tabular":
        return facts | {"n_features": np.asarray(dataset.train.inputs).shape[1]}
    return facts | {"n_words": len(dataset.words), "vectors": dataset.vectors}


def build_optimiser(
    recipe: Recipe, parameters: Iterable[nn.Parameter] | list[Tensor]
) -> torch.optim.Optimizer:
    """Return the optimiser the recipe names."""
    wanted = list(parameters)
    decay = recipe.weight_decay
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(wanted, lr=recipe.lr, momentum=recipe.momentum, weight_decay=decay)
    if recipe.optimiser == "adam":
        return torch.optim.Adam(wanted, lr=recipe.lr, weight_decay=decay)
    # Fused, a step over word vectors takes a sixth of the time.
    return torch.optim.Adagrad(wanted, lr=recipe.lr, weight_decay=decay, fused=True)


def set_lr(optimiser: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group."""
    for group in optimiser.param_groups:
        group["lr"] = lr


def forward(recipe: Recipe, model: nn.Module, inputs: Any) -> Tensor:
    """Return the logits in float32, computed in bfloat16 where the recipe says so."""
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    logits: Tensor
    if recipe.precision == "float32":
        logits = model(*arguments)
        return logits
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(*arguments)
    return logits.float()  # the loss needs more than three digits of them
