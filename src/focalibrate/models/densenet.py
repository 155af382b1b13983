"""Densely connected networks."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, relu

from focalibrate.models._image import check_image, conv3x3, initialise


class DenseLayer(nn.Module):
    """A 1x1 and a 3x3 convolution, whose output is put beside the input."""

    def __init__(self, n_in: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(n_in)
        self.conv1 = nn.Conv2d(n_in, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = conv3x3(4 * growth, growth)

    def forward(self, x: Tensor) -> Tensor:
        """Return the new channels and the old ones."""
        out = self.conv1(relu(self.norm1(x)))
        out = self.conv2(relu(self.norm2(out)))
        return torch.cat([out, x], dim=1)


class Transition(nn.Module):
    """Half the channels, by a 1x1 convolution, and half the size, by means."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(n_in)
        self.conv = nn.Conv2d(n_in, n_out, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return fewer channels of a smaller image."""
        return avg_pool2d(self.conv(relu(self.norm(x))), 2)


class DenseNet(nn.Module):
    """DenseNet-BC of Huang et al. (2017) with a 3x3 first layer and no pooling; default 121.

    Args:
        n_classes: K.
        in_channels: number of channels of the images.
        image_size: height and width of the images.
        depths: layers of each dense block.
        growth: channels a layer adds.
    """

    def __init__(
        self,
        *,
        n_classes: int,
        in_channels: int = 3,
        image_size: int = 32,
        depths: Sequence[int] = (6, 12, 24, 16),
        growth: int = 32,
    ) -> None:
        super().__init__()
        check_image(image_size, divisor=2 ** (len(depths) - 1))
        width = 2 * growth
        layers: list[nn.Module] = [conv3x3(in_channels, width)]
        for stage, depth in enumerate(depths):
            if stage:
                layers.append(Transition(width, width // 2))
                width //= 2
            for _ in range(depth):
                layers.append(DenseLayer(width, growth))
                width += growth
        self.layers = nn.Sequential(*layers)
        self.norm = nn.BatchNorm2d(width)
        self.last = nn.Linear(width, n_classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[N, K]`` of images ``[N, channels, height, width]``."""
        features = relu(self.norm(self.layers(x)))
        logits: Tensor = self.last(features.mean(dim=(2, 3)))
        return logits
