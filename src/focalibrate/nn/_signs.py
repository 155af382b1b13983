"""Random signs as a tensor."""

from collections.abc import Sequence

import torch
from torch import Tensor


def random_signs(shape: Sequence[int], like: Tensor, rng: torch.Generator) -> Tensor:
    """Return 1 and -1 at even odds, of the dtype and on the device of `like`; drawn on the CPU."""
    bits = torch.randint(0, 2, tuple(shape), generator=rng, dtype=torch.int8)
    return bits.to(like).mul_(2.0).sub_(1.0)
