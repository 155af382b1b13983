"""A network by its name."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from focalibrate._check import check_choice
from focalibrate_papers.models.mlp import MLP, Linear
from focalibrate_papers.models.resnet import RESNETS
from focalibrate_papers.models.text_cnn import TextCNN
from focalibrate_papers.models.tree_lstm import TreeLSTM

MODELS: dict[str, Callable[..., nn.Module]] = {
    "linear": Linear,
    "mlp": MLP,
    **RESNETS,
    "text_cnn": TextCNN,
    "tree_lstm": TreeLSTM,
}
"""The networks by name; call through `build`."""


def build(
    name: str,
    *,
    n_classes: int,
    in_channels: int = 3,
    image_size: int = 32,
    generator: torch.Generator | None = None,
    **size: Any,
) -> nn.Module:
    """Return the network `name`, newly initialised.

    Every network has its last linear layer in ``.last``. Images are float ``[N, channels, height,
    width]``, tables float ``[N, d]`` (`n_features`), text ``(ids, lengths)`` and trees a
    `TreeBatch`; all return logits ``[N, K]``.

    Args:
        name: a key of `MODELS`.
        n_classes: K.
        in_channels: channels of an image; not used by text and trees.
        image_size: height and width of an image; not used by text and trees.
        generator: source of the initial weights; torch's global one when None. The global one is
            then left as it was.
        size: options of that network, such as ``n_features`` and ``hidden`` of ``"mlp"``.

    Example:
        >>> build("mlp", n_classes=3, n_features=4, hidden=(8,)).last
        Linear(in_features=8, out_features=3, bias=True)
    """
    check_choice(name, MODELS, name="name")
    factory = MODELS[name]
    if n_classes < 1:
        raise ValueError(f"`n_classes` must be >= 1, got {n_classes}.")
    fixed = {"n_classes", "in_channels", "image_size"}
    options = [option for option in inspect.signature(factory).parameters if option not in fixed]
    unknown = sorted(set(size) - set(options))
    if unknown:
        offered = ", ".join(options) or "none"
        raise ValueError(f"{name!r} has no option {unknown[0]!r}; its options: {offered}.")
    arguments = {"n_classes": n_classes, "in_channels": in_channels, "image_size": image_size}
    if generator is None:
        return factory(**arguments, **size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (), generator=generator)))
        return factory(**arguments, **size)
