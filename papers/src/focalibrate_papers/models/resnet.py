"""Residual networks: the narrow ones of CIFAR, and the wide ones of ImageNet on small images."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import pad, relu


def conv3x3(n_in: int, n_out: int, *, stride: int = 1) -> nn.Conv2d:
    """Return a 3x3 convolution that keeps the size, without bias."""
    return nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)


class PaddedShortcut(nn.Module):
    """Every second pixel, with channels of zeros added: a shortcut without parameters."""

    def __init__(self, *, added: int, stride: int) -> None:
        super().__init__()
        self.added = added
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Return the input at the size of the block's output."""
        before = self.added // 2
        x = x[:, :, :: self.stride, :: self.stride]
        return pad(x, (0, 0, 0, 0, before, self.added - before))


def projection(n_in: int, n_out: int, stride: int) -> nn.Module:
    """Return a shortcut by a 1x1 convolution where the shape changes."""
    if n_in == n_out and stride == 1:
        return nn.Identity()
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), nn.BatchNorm2d(n_out)
    )


def padding(n_in: int, n_out: int, stride: int) -> nn.Module:
    """Return a shortcut without parameters."""
    if n_in == n_out and stride == 1:
        return nn.Identity()
    return PaddedShortcut(added=n_out - n_in, stride=stride)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut around them."""

    expansion = 1

    def __init__(self, n_in: int, width: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        self.conv1, self.norm1 = conv3x3(n_in, width, stride=stride), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = conv3x3(width, width), nn.BatchNorm2d(width)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = relu(self.norm1(self.conv1(x)))
        return relu(self.norm2(self.conv2(out)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1 ones, the last four times as wide, and a shortcut."""

    expansion = 4

    def __init__(self, n_in: int, width: int, stride: int, shortcut: nn.Module) -> None:
        super().__init__()
        n_out = self.expansion * width
        self.conv1, self.norm1 = nn.Conv2d(n_in, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = conv3x3(width, width, stride=stride), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, n_out, 1, bias=False), nn.BatchNorm2d(n_out)
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        out = relu(self.norm1(self.conv1(x)))
        out = relu(self.norm2(self.conv2(out)))
        return relu(self.norm3(self.conv3(out)) + self.shortcut(x))


class ResNet(nn.Module):
    """Stages of residual blocks, each half the size of the one before; mean over pixels; linear.

    Args:
        n_classes: K.
        in_channels: number of channels of the images.
        image_size: height and width of the images.
        width: width of the first stage; each later one is twice as wide.
        depths: blocks of each stage.
        bottleneck: whether blocks have three convolutions, not two.
        padded: whether shortcuts pad with zeros ("option A" of He et al.), not project.
    """

    def __init__(
        self,
        *,
        n_classes: int,
        in_channels: int = 3,
        image_size: int = 32,
        width: int,
        depths: Sequence[int],
        bottleneck: bool = False,
        padded: bool = False,
    ) -> None:
        super().__init__()
        if image_size < 2 ** (len(depths) - 1):
            raise ValueError(
                f"`image_size` must be >= {2 ** (len(depths) - 1)} for this network, got "
                f"{image_size}: it halves the image repeatedly."
            )
        block = Bottleneck if bottleneck else BasicBlock
        shortcut = padding if padded else projection
        self.stem = nn.Sequential(conv3x3(in_channels, width), nn.BatchNorm2d(width), nn.ReLU())
        blocks: list[nn.Module] = []
        n_in = width
        for stage, depth in enumerate(depths):
            inner = width * 2**stage
            for i in range(depth):
                stride = 2 if stage and not i else 1
                n_out = inner * block.expansion
                blocks.append(block(n_in, inner, stride, shortcut(n_in, n_out, stride)))
                n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Linear(n_in, n_classes)
        for module in self.modules():  # as He et al. (2015), by the outputs of a unit
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(self.last.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[N, K]`` of images ``[N, channels, height, width]``."""
        logits: Tensor = self.last(self.blocks(self.stem(x)).mean(dim=(2, 3)))
        return logits


def cifar_resnet(*, depth: int, width: int = 16, **images: Any) -> ResNet:
    """Return a ResNet of He et al. (2016), section 4.2: depth 6n + 2, three stages of n blocks."""
    if depth < 8 or (depth - 2) % 6:
        raise ValueError(f"`depth` must be 6n + 2 with n >= 1, got {depth}.")
    n = (depth - 2) // 6
    return ResNet(width=width, depths=(n, n, n), padded=True, **images)


RESNETS: dict[str, Callable[..., nn.Module]] = {
    **{f"resnet{depth}": partial(cifar_resnet, depth=depth) for depth in (8, 20)},
    "resnet50": partial(ResNet, width=64, depths=(3, 4, 6, 3), bottleneck=True),
}
"""By name; ResNet-50 has a 3x3 first layer and no pooling."""
