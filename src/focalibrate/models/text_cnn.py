"""A convolutional network over the words of a text."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import max_pool1d, relu

from focalibrate.models._words import word_vectors

KERNEL = 5


class TextCNN(nn.Module):
    """The global-pooling network of paper 002 for 20 Newsgroups.

    Three convolutions over five words with maxima between them, the maximum over the whole text,
    one hidden layer. Texts are padded with word 0; so padding is seen by the convolutions, as in
    the paper, and texts of one batch are padded alike for their logits not to depend on the rest.

    Args:
        n_classes: K.
        in_channels: not used.
        image_size: not used.
        n_words: size of the vocabulary, where no `vectors` are given.
        vectors: initial vectors of the words, ``[n_words, d]``.
        n_dimensions: d, where no `vectors` are given.
        tuned: whether given vectors are trained; random ones are.
        width: of the convolutions and of the hidden layer.
        drop: share of hidden units dropped.
        pool_stride: of the maxima between convolutions; the paper's code has 1, the network
            it adapts 5, which is about four times as fast.
    """

    def __init__(
        self,
        *,
        n_classes: int,
        in_channels: int = 3,
        image_size: int = 32,
        n_words: int | None = None,
        vectors: NDArray[np.float32] | Tensor | None = None,
        n_dimensions: int = 100,
        tuned: bool = False,
        width: int = 128,
        drop: float = 0.3,
        pool_stride: int = 1,
    ) -> None:
        super().__init__()
        self.words = word_vectors(n_words, vectors, n_dimensions=n_dimensions, tuned=tuned)
        self.conv1 = nn.Conv1d(self.words.embedding_dim, width, KERNEL)
        self.conv2 = nn.Conv1d(width, width, KERNEL)
        self.conv3 = nn.Conv1d(width, width, KERNEL)
        self.hidden = nn.Linear(width, width)
        self.drop = nn.Dropout(drop)
        self.last = nn.Linear(width, n_classes)
        self.pool_stride = pool_stride

    @property
    def shortest(self) -> int:
        """The fewest columns that leave one position for the last maximum."""
        length = KERNEL
        for _ in range(2):
            length = (length - 1) * self.pool_stride + KERNEL  # before the maxima
            length += KERNEL - 1  # before the convolution
        return length

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the logits ``[N, K]`` of word numbers ``[N, columns]``; `lengths` is not used."""
        short = self.shortest - ids.shape[1]
        if short > 0:
            ids = torch.nn.functional.pad(ids, (0, short))
        x = self.words(ids).transpose(1, 2)
        x = max_pool1d(relu(self.conv1(x)), KERNEL, stride=self.pool_stride)
        x = max_pool1d(relu(self.conv2(x)), KERNEL, stride=self.pool_stride)
        x = relu(self.conv3(x)).amax(dim=2)
        logits: Tensor = self.last(self.drop(relu(self.hidden(x))))
        return logits
