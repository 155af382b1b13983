"""Trees side by side, sorted by level, so that a network takes one step a level."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focalibrate.data.sets.tree import NO_CHILD, Tree


@dataclass(frozen=True)
class TreeBatch:
    """Trees as one list of nodes: all leaves, then all nodes one above a leaf, and so on.

    A node's level is one more than the higher of its children's. Children are on lower levels,
    so that all nodes of a level can be computed at once.

    Attributes:
        words: of the leaves, int64 ``[n_leaves]``.
        left: index of the left child of each inner node, int64 ``[n_inner]``.
        right: index of the right child, int64 ``[n_inner]``.
        widths: number of nodes of each level above the leaves.
        roots: index of the root of each tree, int64 ``[N]``.
        labels: of all nodes, int64 ``[n_leaves + n_inner]``; -1 where there is none.
    """

    words: Tensor
    left: Tensor
    right: Tensor
    widths: tuple[int, ...]
    roots: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.roots)

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> "TreeBatch":
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
        is_leaf = left == NO_CHILD
        left, right = left + offset, right + offset
        level = _levels(left, right, is_leaf)
        order = np.argsort(level, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        n_leaves = int(is_leaf.sum())
        inner = order[n_leaves:]
        return cls(
            _long(words[order[:n_leaves]]),
            _long(place[left[inner]]),
            _long(place[right[inner]]),
            tuple(int(n) for n in np.bincount(level)[1:]),
            _long(place[starts + sizes - 1]),
            _long(labels[order]),
        )

    def to(self, device: torch.device | str) -> "TreeBatch":
        """Return the batch on another device."""
        return TreeBatch(
            self.words.to(device),
            self.left.to(device),
            self.right.to(device),
            self.widths,
            self.roots.to(device),
            self.labels.to(device),
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


def _long(values: NDArray[np.integer]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int64))
