"""Parts that the image networks share."""

from torch import nn


def conv3x3(n_in: int, n_out: int, *, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Return a 3x3 convolution that keeps the size, without bias."""
    return nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, groups=groups, bias=False)


def check_image(image_size: int, *, divisor: int) -> None:
    """Raise unless images can be halved as often as the network does."""
    if image_size < divisor:
        raise ValueError(
            f"`image_size` must be >= {divisor} for this network, got {image_size}: it halves the "
            "image repeatedly."
        )


def initialise(model: nn.Module) -> None:
    """Draw convolutions as He et al. (2015), by the outputs of a unit; biases are zero."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
