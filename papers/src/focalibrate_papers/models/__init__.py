"""The networks of the papers, in plain torch, for small images, tables, text and trees."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

from focalibrate._check import check_choice
from focalibrate_papers.models.mlp import MLP, Linear
from focalibrate_papers.models.resnet import RESNETS, ResNet
from focalibrate_papers.models.text_cnn import TextCNN
from focalibrate_papers.models.tree_lstm import TreeBatch, TreeLSTM

__all__ = ["MLP", "MODELS", "Linear", "ResNet", "TextCNN", "TreeBatch", "TreeLSTM", "build"]

MODELS: dict[str, Callable[..., nn.Module]] = {
    "linear": Linear,
    "mlp": MLP,
    **RESNETS,
    "text_cnn": TextCNN,
    "tree_lstm": TreeLSTM,
}
"""The networks by name; call through `build`."""


IMAGES = {"in_channels", "image_size"}


def build(name: str, *, n_classes: int, **size: Any) -> nn.Module:
    """Return the network `name`, newly initialised from torch's global generator.

    Every network has its last linear layer in ``.last``. Images are float ``[N, channels, height,
    width]``, tables float ``[N, d]`` (`n_features`), text ``(ids, lengths)`` and trees a
    `TreeBatch`; all return logits ``[N, K]``.

    Args:
        name: a key of `MODELS`.
        n_classes: K.
        size: for images ``in_channels`` (3) and ``image_size`` (32); options of that network, such
            as ``n_features`` and ``hidden`` of ``"mlp"``.

    Example:
        >>> build("mlp", n_classes=3, n_features=4, hidden=(8,)).last
        Linear(in_features=8, out_features=3, bias=True)
    """
    check_choice(name, MODELS, name="name")
    if n_classes < 1:
        raise ValueError(f"`n_classes` must be >= 1, got {n_classes}.")
    known = inspect.signature(MODELS[name]).parameters
    options = [option for option in known if option not in {"n_classes", "images"} | IMAGES]
    unknown = sorted(set(size) - set(options) - IMAGES)
    if unknown:
        offered = ", ".join(options) or "none"
        raise ValueError(f"{name!r} has no option {unknown[0]!r}; its options: {offered}.")
    return MODELS[name](n_classes=n_classes, **size)
