"""A Tree-LSTM over binary trees, and the batches of trees that it takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear

from focalibrate_papers.models._words import word_vectors

if TYPE_CHECKING:
    from focalibrate_papers.datasets.dataset import Tree


@dataclass(frozen=True)
class TreeBatch:
    """Trees as one list of nodes: all leaves, then all nodes one above a leaf, and so on.

    A node's level is one more than the higher of its children's. Children are on lower levels,
    so that all nodes of a level can be computed at once.

    Attributes:
        words: words of the leaves, int64 ``[n_leaves]``.
        orders: for each level above the leaves, int64 positions among the nodes that waited
            before: those of its nodes' children, left and right in turn, then those of the other
            nodes that still wait for their parent. Each node waits from its own level to its
            parent's.
        widths: number of nodes of each level above the leaves.
        roots: index of the root of each tree, int64 ``[N]``.
        labels: labels of all nodes, int64 ``[n_leaves + n_inner]``; -1 where there is none.
    """

    words: Tensor
    orders: tuple[Tensor, ...]
    widths: tuple[int, ...]
    roots: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.roots)

    @classmethod
    def of(cls, trees: "Sequence[Tree]") -> "TreeBatch":
        """Return the trees as one batch."""
        if not len(trees):
            raise ValueError("`trees` must hold at least one tree, got none.")
        sizes = np.array([len(tree) for tree in trees])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        offset = np.repeat(starts, sizes)
        left, right, words, labels = (
            np.concatenate([getattr(tree, name) for tree in trees])
            for name in ("left", "right", "words", "labels")
        )
        is_leaf = left < 0
        left, right = left + offset, right + offset
        level = _levels(left, right, is_leaf)
        order = np.argsort(level, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        n_leaves = int(is_leaf.sum())
        inner = order[n_leaves:]
        children = np.stack([place[left[inner]], place[right[inner]]], axis=1)
        widths = np.bincount(level)[1:]
        return cls(
            _long(words[order[:n_leaves]]),
            tuple(_long(rows) for rows in _orders(children, widths, n_leaves=n_leaves)),
            tuple(int(n) for n in widths),
            _long(place[starts + sizes - 1]),
            _long(labels[order]),
        )


def _levels(
    left: NDArray[np.integer], right: NDArray[np.integer], is_leaf: NDArray[np.bool_]
) -> NDArray[np.int64]:
    level = np.where(is_leaf, 0, -1).astype(np.int64)
    waiting = np.flatnonzero(~is_leaf)
    while waiting.size:
        below = np.minimum(level[left[waiting]], level[right[waiting]])
        ready = waiting[below >= 0]
        if not ready.size:
            raise ValueError("a tree has a node that is its own ancestor.")
        level[ready] = 1 + np.maximum(level[left[ready]], level[right[ready]])
        waiting = waiting[below < 0]
    return level


def _orders(
    children: NDArray[np.int64], widths: NDArray[np.int64], *, n_leaves: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of the children of each level and of the other waiting nodes."""
    n_nodes = n_leaves + len(children)
    needed_at = np.full(n_nodes, -1)  # a root waits for nothing
    needed_at[children] = np.repeat(np.arange(len(widths)), widths)[:, None]
    waiting = np.arange(n_leaves)
    start = 0
    for level, width in enumerate(widths):
        position = np.empty(n_nodes, dtype=np.int64)
        position[waiting] = np.arange(len(waiting))
        taken = children[start : start + width].ravel()
        rest = waiting[needed_at[waiting] > level]
        yield position[np.concatenate([taken, rest])]
        waiting = np.concatenate([np.arange(n_leaves + start, n_leaves + start + width), rest])
        start += int(width)


def _long(values: NDArray[np.integer]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64))


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
