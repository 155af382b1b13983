"""A small vision transformer."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention


class Layer(nn.Module):
    """Self-attention, then two linear layers; each normalises its input and adds to it."""

    def __init__(self, width: int, n_heads: int, inner: int, drop: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.drop = nn.Dropout(drop)

    def forward(self, x: Tensor) -> Tensor:
        """Return tokens ``[N, tokens, width]``."""
        n, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(n, length, 3, self.n_heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
        x = x + self.drop(self.out(seen))
        inner = self.drop(gelu(self.widen(self.norm2(x))))
        result: Tensor = x + self.drop(self.narrow(inner))
        return result


class ViT(nn.Module):
    """A vision transformer of Dosovitskiy et al. (2021); the default is ViT-Ti on 4x4 patches.

    Args:
        n_classes: K.
        in_channels: number of channels of the images.
        image_size: height and width of the images, a multiple of `patch`.
        patch: side of a square that becomes a token.
        width: width of a token.
        depth: number of layers.
        n_heads: number of attention heads.
        inner: width of the layer between the two linear ones.
        drop: share of units dropped.
    """

    def __init__(
        self,
        *,
        n_classes: int,
        in_channels: int = 3,
        image_size: int = 32,
        patch: int = 4,
        width: int = 192,
        depth: int = 12,
        n_heads: int = 3,
        inner: int = 768,
        drop: float = 0.0,
    ) -> None:
        super().__init__()
        if image_size % patch:
            raise ValueError(
                f"`image_size` must be a multiple of `patch` = {patch}, got {image_size}."
            )
        if width % n_heads:
            raise ValueError(f"`width` must be a multiple of `n_heads` = {n_heads}, got {width}.")
        self.patches = nn.Conv2d(in_channels, width, patch, stride=patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.empty(1, 1 + (image_size // patch) ** 2, width))
        self.drop = nn.Dropout(drop)
        self.layers = nn.Sequential(*(Layer(width, n_heads, inner, drop) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.last = nn.Linear(width, n_classes)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.trunc_normal_(self.places, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits ``[N, K]`` of images ``[N, channels, height, width]``."""
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(len(x), -1, -1), tokens], dim=1)
        tokens = self.layers(self.drop(tokens + self.places))
        logits: Tensor = self.last(self.norm(tokens[:, 0]))
        return logits
