"""Linear models and multilayer perceptrons."""

from collections.abc import Sequence

from torch import Tensor, nn


class Linear(nn.Module):
    """One affine layer over the flattened input: logistic regression."""

    def __init__(
        self,
        *,
        n_classes: int,
        in_channels: int = 3,
        image_size: int = 32,
        n_features: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        width = n_features if n_features is not None else in_channels * image_size**2
        self.last = nn.Linear(width, n_classes, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[N, K]`` of inputs ``[N, ...]``."""
        logits: Tensor = self.last(x.flatten(1))
        return logits


class MLP(nn.Module):
    """Layers of rectified units over the flattened input.

    Args:
        n_classes: K.
        in_channels: of images, where `n_features` is not given.
        image_size: of images, where `n_features` is not given.
        n_features: length of an input.
        hidden: width of each hidden layer; ``(100,)`` is the 2-layer net of paper 004.
    """

    def __init__(
        self,
        *,
        n_classes: int,
        in_channels: int = 3,
        image_size: int = 32,
        n_features: int | None = None,
        hidden: Sequence[int] = (100,),
    ) -> None:
        super().__init__()
        width = n_features if n_features is not None else in_channels * image_size**2
        layers: list[nn.Module] = []
        for units in hidden:
            layers += [nn.Linear(width, units), nn.ReLU()]
            width = units
        self.body = nn.Sequential(*layers)
        self.last = nn.Linear(width, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[N, K]`` of inputs ``[N, ...]``."""
        logits: Tensor = self.last(self.body(x.flatten(1)))
        return logits
