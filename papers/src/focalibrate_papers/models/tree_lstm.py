"""A long short-term memory over binary trees."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from focalibrate_papers.models._words import word_vectors
from focalibrate_papers.models.tree_batch import TreeBatch

GATES = 5


class TreeLSTM(nn.Module):
    r"""The binary constituency Tree-LSTM of Tai et al. (2015), equations 9 to 14.

    .. math:: c = i \odot u + f_l \odot c_l + f_r \odot c_r, \qquad h = o \odot \tanh c

    where input i, forget f_l and f_r, output o (all sigmoid) and update u (tanh) are affine in
    the children's h_l and h_r. At a leaf c is affine in the word's vector, and so is the output
    gate's argument. Only leaves have words.

    Args:
        n_classes: K.
        n_words: size of the vocabulary, where no `vectors` are given.
        vectors: initial vectors of the words, ``[n_words, d]``.
        n_dimensions: d, where no `vectors` are given.
        tuned: whether given vectors are trained; random ones are.
        width: width of the memory.
        drop: share of the state dropped before the last layer.
    """

    def __init__(
        self,
        *,
        n_classes: int,
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

    def compose(self, c: Tensor, h: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Return c and h of nodes, each ``[n, width]``.

        Args:
            c: memories of their children, left and right in turn, ``[2n, width]``.
            h: likewise.
            weight: of both children's h, from `joined`.
            bias: likewise.
        """
        n, width = len(c) // 2, c.shape[1]
        gates = linear(h.reshape(n, 2 * width), weight, bias)
        opened, update = gates.split_with_sizes([4 * width, width], dim=1)
        i, o, f = opened.sigmoid().split_with_sizes([width, width, 2 * width], dim=1)
        kept = (f * c.reshape(n, 2 * width)).view(n, 2, width).sum(dim=1)
        new_c = torch.addcmul(kept, i, update.tanh())
        return new_c, o * new_c.tanh()

    def joined(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the gates over both children: one product for the two."""
        weight = torch.cat([self.left.weight, self.right.weight], dim=1)
        return weight, self.left.bias + self.right.bias

    def at_leaves(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """Return c and h of leaves."""
        c, o = self.leaf(self.words(words)).chunk(2, dim=1)
        return c, o.sigmoid() * c.tanh()

    def states(self, batch: TreeBatch) -> Tensor:
        """Return h of all nodes ``[n_nodes, width]``, in the order of the batch."""
        c, h = self.at_leaves(batch.words)
        levels = [h]
        weight, bias = self.joined()
        for order, width in zip(batch.orders, batch.widths, strict=True):
            # Only nodes that wait for their parent are carried on: the gradient of a gather is as
            # large as what it gathers from.
            sizes = [2 * width, len(order) - 2 * width]
            c_below, c_rest = c.index_select(0, order).split_with_sizes(sizes)
            h_below, h_rest = h.index_select(0, order).split_with_sizes(sizes)
            c_new, h_new = self.compose(c_below, h_below, weight, bias)
            levels.append(h_new)
            c, h = torch.cat([c_new, c_rest]), torch.cat([h_new, h_rest])
        return torch.cat(levels)

    def node_logits(self, batch: TreeBatch) -> Tensor:
        """Return the logits of all nodes ``[n_nodes, K]``; `batch.labels` has their labels."""
        logits: Tensor = self.last(self.drop(self.states(batch)))
        return logits

    def forward(self, batch: TreeBatch) -> Tensor:
        """Return the logits ``[N, K]`` of the roots."""
        logits: Tensor = self.last(self.drop(self.states(batch)[batch.roots]))
        return logits
