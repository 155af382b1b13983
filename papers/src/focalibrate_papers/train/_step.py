"""One step of training: a batch in, changed weights out."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from focalibrate_papers.recipe import Recipe


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
    fused = all(weight.device.type == "cpu" for weight in wanted)
    return torch.optim.Adagrad(wanted, lr=recipe.lr, weight_decay=decay, fused=fused)


def set_lr(optimiser: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of every group."""
    for group in optimiser.param_groups:
        group["lr"] = lr


def forward(recipe: Recipe, model: nn.Module, inputs: Any, device: str) -> Tensor:
    """Return the logits in float32, computed in bfloat16 where the recipe says so."""
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    logits: Tensor
    if recipe.precision == "float32":
        logits = model(*arguments)
        return logits
    with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):
        logits = model(*arguments)
    return logits.float()  # the loss needs more than three digits of them
