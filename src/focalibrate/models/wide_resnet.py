"""Wide residual networks."""

from torch import Tensor, nn
from torch.nn.functional import dropout, relu

from focalibrate.models._image import check_image, conv3x3, initialise


class WideBlock(nn.Module):
    """Norm, rectifier, convolution, twice.

    Where the shape changes, the shortcut starts after the first rectifier.
    """

    def __init__(self, n_in: int, n_out: int, stride: int, drop: float) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(n_in), conv3x3(n_in, n_out, stride=stride)
        self.norm2, self.conv2 = nn.BatchNorm2d(n_out), conv3x3(n_out, n_out)
        self.drop = drop
        self.shortcut: nn.Module | None = None
        if n_in != n_out or stride != 1:
            self.shortcut = nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        start = relu(self.norm1(x))
        out = relu(self.norm2(self.conv1(start)))
        out = self.conv2(dropout(out, self.drop, self.training))
        rest: Tensor = out + (x if self.shortcut is None else self.shortcut(start))
        return rest


class WideResNet(nn.Module):
    """A wide residual network of Zagoruyko & Komodakis (2016); the default is WRN-26-10.

    Paper 002 counts 6n + 2 layers; the authors count two shortcuts more and call the same
    network WRN-28-10.

    Args:
        n_classes: K.
        in_channels: number of channels of the images.
        image_size: height and width of the images.
        depth: number of layers without shortcuts, 6n + 2.
        widen: factor over the widths 16, 32, 64.
        drop: share of units dropped between the two convolutions of a block.
    """

    def __init__(
        self,
        *,
        n_classes: int,
        in_channels: int = 3,
        image_size: int = 32,
        depth: int = 26,
        widen: int = 10,
        drop: float = 0.0,
    ) -> None:
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise ValueError(f"`depth` must be 6n + 2 with n >= 1, got {depth}.")
        check_image(image_size, divisor=4)
        self.stem = conv3x3(in_channels, 16)
        blocks: list[nn.Module] = []
        n_in = 16
        for stage in range(3):
            n_out = 16 * widen * 2**stage
            for i in range((depth - 2) // 6):
                blocks.append(WideBlock(n_in, n_out, 2 if stage and not i else 1, drop))
                n_in = n_out
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(n_in)
        self.last = nn.Linear(n_in, n_classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[N, K]`` of images ``[N, channels, height, width]``."""
        features = relu(self.norm(self.blocks(self.stem(x))))
        logits: Tensor = self.last(features.mean(dim=(2, 3)))
        return logits
