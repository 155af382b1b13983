"""MobileNet v2."""

from torch import Tensor, nn
from torch.nn.functional import relu

from focalibrate.models._image import check_image, conv3x3, initialise
from focalibrate.models.resnet import projection

STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""expansion, width, blocks, stride; the first stages keep the size of a 32x32 image"""


class InvertedResidual(nn.Module):
    """Widen by 1x1, one 3x3 filter per channel, narrow by 1x1 without a rectifier."""

    def __init__(self, n_in: int, n_out: int, expansion: int, stride: int) -> None:
        super().__init__()
        inner = expansion * n_in
        self.conv1, self.norm1 = nn.Conv2d(n_in, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2 = conv3x3(inner, inner, stride=stride, groups=inner)
        self.norm2 = nn.BatchNorm2d(inner)
        self.conv3, self.norm3 = nn.Conv2d(inner, n_out, 1, bias=False), nn.BatchNorm2d(n_out)
        self.shortcut = projection(n_in, n_out, 1) if stride == 1 else None

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = relu(self.norm1(self.conv1(x)))
        out = relu(self.norm2(self.conv2(out)))
        out = self.norm3(self.conv3(out))
        result: Tensor = out if self.shortcut is None else out + self.shortcut(x)
        return result


class MobileNetV2(nn.Module):
    """MobileNet v2 of Sandler et al. (2018) in its usual form for 32x32 images.

    The first layer and the second stage keep the size, and a block whose width changes but not
    its size has a shortcut by 1x1 convolution.

    Args:
        n_classes: K.
        in_channels: number of channels of the images.
        image_size: height and width of the images.
    """

    def __init__(self, *, n_classes: int, in_channels: int = 3, image_size: int = 32) -> None:
        super().__init__()
        check_image(image_size, divisor=8)
        self.stem = nn.Sequential(conv3x3(in_channels, 32), nn.BatchNorm2d(32), nn.ReLU())
        blocks: list[nn.Module] = []
        n_in = 32
        for expansion, width, depth, stride in STAGES:
            for i in range(depth):
                blocks.append(InvertedResidual(n_in, width, expansion, 1 if i else stride))
                n_in = width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(
            nn.Conv2d(n_in, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU()
        )
        self.last = nn.Linear(1280, n_classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[N, K]`` of images ``[N, channels, height, width]``."""
        features = self.head(self.blocks(self.stem(x)))
        logits: Tensor = self.last(features.mean(dim=(2, 3)))
        return logits
