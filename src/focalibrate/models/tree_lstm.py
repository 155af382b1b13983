"""A long short-term memory over binary trees."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from focalibrate.models._words import word_vectors
from focalibrate.models.tree_batch import TreeBatch

GATES = 5


class TreeLSTM(nn.Module):
    r"""The binary constituency Tree-LSTM of Tai et al. (2015), equations 9 to 14.

    .. math:: c = i \odot u + f_l \odot c_l + f_r \odot c_r, \qquad h = o \odot \tanh c

    where input i, forget f_l and f_r, output o (all sigmoid) and update u (tanh) are affine in
    the children's h_l and h_r. At a leaf c is affine in the word's vector, and so is the output
    gate's argument. Words stand at leaves only.

    Args:
        n_classes: K.
        in_channels: not used.
        image_size: not used.
        n_words: size of the vocabulary, where no `vectors` are given.
        vectors: initial vectors of the words, ``[n_words, d]``.
        n_dimensions: d, where no `vectors` are given.
        tuned: whether given vectors are trained; random ones are.
        width: of the memory.
        drop: share of the state dropped before the last layer.
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
        tuned: bool = True,
        width: int = 150,
        drop: float = 0.5,
    ) -> None:
        super().__init__()
        self.words = word_vectors(n_words, vectors, n_dimensions=n_dimensions, tuned=tuned)
        self.leaf = nn.Linear(self.words.embedding_dim, 2 * width)
        self.left = nn.Linear(width, GATES * width)
        self.right = nn.Linear(width, GATES * width)
        self.drop = nn.Dropout(drop)
        self.last = nn.Linear(width, n_classes)

    def compose(
        self, c_left: Tensor, h_left: Tensor, c_right: Tensor, h_right: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return c and h of nodes, each ``[n, width]``, from those of their children."""
        gates = self.left(h_left) + self.right(h_right)
        width = c_left.shape[1]
        i, f_left, f_right, o = gates[:, : 4 * width].sigmoid().chunk(4, dim=1)
        c = i * gates[:, 4 * width :].tanh() + f_left * c_left + f_right * c_right
        return c, o * c.tanh()

    def at_leaves(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return c and h of leaves."""
        c, o = self.leaf(self.words(words)).chunk(2, dim=1)
        return c, o.sigmoid() * c.tanh()

    def states(self, batch: TreeBatch) -> Tensor:
        """Return h of all nodes ``[n_nodes, width]``, in the order of the batch."""
        state = torch.cat(self.at_leaves(batch.words), dim=1)
        start = 0
        for width in batch.widths:
            rows = slice(start, start + width)
            children = torch.cat([batch.left[rows], batch.right[rows]])
            # One gather a level: its gradient is as large as all states so far.
            c, h = state.index_select(0, children).chunk(2, dim=1)
            new = self.compose(c[:width], h[:width], c[width:], h[width:])
            state = torch.cat([state, torch.cat(new, dim=1)])
            start += width
        return state.chunk(2, dim=1)[1]

    def node_logits(self, batch: TreeBatch) -> Tensor:
        """Return the logits of all nodes ``[n_nodes, K]``; `batch.labels` has their labels."""
        logits: Tensor = self.last(self.drop(self.states(batch)))
        return logits

    def forward(self, batch: TreeBatch) -> Tensor:
        """Return the logits ``[N, K]`` of the roots."""
        logits: Tensor = self.last(self.drop(self.states(batch)[batch.roots]))
        return logits
