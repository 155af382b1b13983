"""A binary tree over the words of a sentence, with a label on every node."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_CHILD = -1
NO_WORD = -1
NO_LABEL = -1


@dataclass(frozen=True)
class Tree:
    """A binary constituency tree; children come before their parent, the root is last.

    Attributes:
        words: number of the word at a leaf, `NO_WORD` at an inner node, int32 ``[M]``.
        left: index of the left child, `NO_CHILD` at a leaf, int32 ``[M]``.
        right: index of the right child, `NO_CHILD` at a leaf, int32 ``[M]``.
        labels: label of each node, `NO_LABEL` where there is none, int32 ``[M]``.
    """

    words: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    labels: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.words)
