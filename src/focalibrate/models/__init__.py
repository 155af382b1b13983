"""The networks of the papers, in plain torch, for small images, tables, text and trees."""

from focalibrate.models.densenet import DenseNet
from focalibrate.models.mlp import MLP, Linear
from focalibrate.models.mobilenet import MobileNetV2
from focalibrate.models.registry import MODELS, build
from focalibrate.models.resnet import ResNet
from focalibrate.models.text_cnn import TextCNN
from focalibrate.models.tree_batch import TreeBatch
from focalibrate.models.tree_lstm import TreeLSTM
from focalibrate.models.vgg import VGG
from focalibrate.models.vit import ViT
from focalibrate.models.wide_resnet import WideResNet

__all__ = [
    "MLP",
    "MODELS",
    "VGG",
    "DenseNet",
    "Linear",
    "MobileNetV2",
    "ResNet",
    "TextCNN",
    "TreeBatch",
    "TreeLSTM",
    "ViT",
    "WideResNet",
    "build",
]
