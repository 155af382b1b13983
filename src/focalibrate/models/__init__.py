"""The networks of the papers, in plain torch, for small images, tables, text and trees."""

from focalibrate.models.mlp import MLP, Linear
from focalibrate.models.registry import MODELS, build

__all__ = ["MLP", "MODELS", "Linear", "build"]
