"""A data set: its inputs, its splits, where it comes from, and the error about its files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray


class DataSetError(ValueError):
    """A data set is absent or its files are not what they should be."""


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


InputKind: TypeAlias = Literal["image", "tabular", "text", "trees"]


@dataclass(frozen=True)
class Tokens:
    """Sentences as rows of word indices, padded at the end with 0."""

    ids: NDArray[np.int32]
    """word indices, 0 for padding, shape ``[N, length]``"""
    lengths: NDArray[np.int32]
    """words of each row, shape ``[N]``"""

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: NDArray[np.integer] | slice) -> "Tokens":
        return Tokens(self.ids[rows], self.lengths[rows])


Inputs: TypeAlias = NDArray[np.uint8] | NDArray[np.float32] | Tokens | Sequence[Tree]


@dataclass(frozen=True)
class Split:
    """Examples and their labels.

    Attributes:
        inputs: by kind of data set: images uint8 ``[N, height, width, channels]``, a table
            float32 ``[N, d]``, `Tokens`, or a sequence of N `Tree`.
        labels: int64, ``[N]``.
    """

    inputs: Inputs
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Dataset:
    """A classification problem.

    Attributes:
        name: as in `DATASETS`.
        train: to fit the model on.
        validation: to choose and to calibrate on.
        test: to report on.
        n_classes: K.
        class_names: one for each class.
        kind: what the inputs are.
        words: of text and trees: the word of each number; 0 is padding, 1 any other word.
        vectors: of text and trees: GloVe's vector of each word, float32 ``[len(words), d]``, or
            None where the folder has no GloVe file.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    n_classes: int
    class_names: tuple[str, ...]
    kind: InputKind
    words: tuple[str, ...] = ()
    vectors: NDArray[np.float32] | None = None

    def describe(self) -> str:
        """Return what was read, in one line.

        Example:
            >>> from focalibrate_papers.datasets import load
            >>> load("square_2d").describe()
            'square_2d: 2,000 training, 2,000 validation and 2,000 test examples of 2 classes'
        """
        sizes = [f"{len(split):,}" for split in (self.train, self.validation, self.test)]
        line = (
            f"{self.name}: {sizes[0]} training, {sizes[1]} validation and {sizes[2]} test "
            f"examples of {self.n_classes} classes"
        )
        if not self.words:
            return line
        if self.vectors is None:
            return f"{line}; no GloVe file found, so word vectors start at random"
        return f"{line}; word vectors of GloVe"


@dataclass(frozen=True)
class DatasetSource:
    """A named data set.

    Attributes:
        kind: of its inputs.
        read: from the folder of data sets (None if none is named) and the seed to the whole
            data set.
        advice: what to download and where to put it; empty for generated sets, which need no
            files.
        url: page of its authors.
        licence: terms under which its authors provide it.
        checksums: MD5 or SHA-256 of each file to download, as ``"md5:…"`` or ``"sha256:…"``.
            Empty where none is published; the number of examples is checked for every set.
    """

    kind: InputKind
    read: Callable[[Path | None, int], Dataset]
    advice: str = ""
    url: str = ""
    licence: str = ""
    checksums: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_generated(self) -> bool:
        """Whether the set is drawn at random and needs no files."""
        return not self.advice
