"""Trees side by side, sorted by level, so that a network takes one step per level."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from focalibrate_papers.datasets.tree import Tree


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
