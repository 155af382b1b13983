"""The networks of the papers, in plain torch, for small images, tables, text and trees."""

from focalibrate_papers.models.mlp import MLP, Linear
from focalibrate_papers.models.registry import MODELS, build
from focalibrate_papers.models.resnet import ResNet
from focalibrate_papers.models.text_cnn import TextCNN
from focalibrate_papers.models.tree_batch import TreeBatch
from focalibrate_papers.models.tree_lstm import TreeLSTM

__all__ = [
    "MLP",
    "MODELS",
    "Linear",
    "ResNet",
    "TextCNN",
    "TreeBatch",
    "TreeLSTM",
    "build",
]
