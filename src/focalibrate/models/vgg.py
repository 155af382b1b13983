"""VGG networks with batch normalisation."""

from collections.abc import Sequence

from torch import Tensor, nn

from focalibrate.models._image import check_image, initialise

WIDTHS = (64, 128, 256, 512, 512)


class VGG(nn.Module):
    """Stages of 3x3 convolutions, each ended by a maximum over 2x2; linear; default VGG-19.

    The three large linear layers of Simonyan & Zisserman (2015) are one here, as is usual for
    32x32 images.

    Args:
        n_classes: K.
        in_channels: number of channels of the images.
        image_size: height and width of the images.
        depths: convolutions of each stage.
    """

    def __init__(
        self,
        *,
        n_classes: int,
        in_channels: int = 3,
        image_size: int = 32,
        depths: Sequence[int] = (2, 2, 4, 4, 4),
    ) -> None:
        super().__init__()
        check_image(image_size, divisor=2 ** len(depths))
        layers: list[nn.Module] = []
        n_in = in_channels
        for width, depth in zip(WIDTHS, depths, strict=True):
            for _ in range(depth):
                layers += [
                    nn.Conv2d(n_in, width, 3, padding=1),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                ]
                n_in = width
            layers.append(nn.MaxPool2d(2))
        self.layers = nn.Sequential(*layers)
        self.last = nn.Linear(n_in, n_classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[N, K]`` of images ``[N, channels, height, width]``."""
        logits: Tensor = self.last(self.layers(x).mean(dim=(2, 3)))
        return logits
