"""Vectors of words."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def word_vectors(
    n_words: int | None,
    vectors: NDArray[np.float32] | Tensor | None,
    *,
    n_dimensions: int,
    tuned: bool,
) -> nn.Embedding:
    """Return the layer from word indices to vectors; that of word 0, padding, stays zero.

    Random vectors are trained, whatever `tuned`.
    """
    if vectors is None:
        if n_words is None:
            raise ValueError(
                "give `vectors`, or `n_words` for random ones: the size of the vocabulary."
            )
        return nn.Embedding(n_words, n_dimensions, padding_idx=0)
    table = torch.as_tensor(vectors, dtype=torch.float32).clone()
    if n_words is not None and n_words != len(table):
        raise ValueError(f"`n_words` is {n_words}, but `vectors` has {len(table)} rows.")
    table[0] = 0.0
    layer = nn.Embedding(len(table), table.shape[1], padding_idx=0, _weight=table)
    layer.weight.requires_grad_(tuned)
    return layer
