"""Random signs as a tensor."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

SIGNS_OF_BYTE = 2.0 * ((torch.arange(256)[:, None] >> torch.arange(8)) & 1) - 1.0
"""``[256, 8]``: the bits of each byte as -1 and 1."""


def random_signs(
    shape: Sequence[int], like: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    """Return independent 1 and -1, each with probability 1/2, eight from each random byte.

    Drawn on the CPU by `generator` (torch's default if None), so that all devices get the same
    signs; with the dtype and device of `like`.
    """
    n = math.prod(shape)
    drawn = torch.randint(0, 256, (-(-n // 8),), generator=generator)
    signs = SIGNS_OF_BYTE.index_select(0, drawn).flatten()[:n]
    return signs.view(tuple(shape)).to(like)
