"""Words as indices, and their vectors of GloVe."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from focalibrate_papers.datasets._files import find, read_text
from focalibrate_papers.datasets.dataset import DataSetError, Tokens

PADDING, UNKNOWN = 0, 1
RESERVED = ("<pad>", "<unk>")

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def tokenise(text: str) -> list[str]:
    """Return the words of a text in lower case; punctuation divides words and is dropped.

    Example:
        >>> tokenise("It's 10 o'clock -- GO!")
        ["it's", '10', "o'clock", 'go']
    """
    return _WORD.findall(text.lower())


def most_frequent(sentences: Iterable[Sequence[str]], *, n_words: int) -> tuple[str, ...]:
    """Return the reserved words, then the `n_words` most frequent ones; ties by the alphabet."""
    counts = Counter(word for sentence in sentences for word in sentence)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return (*RESERVED, *ranked[:n_words])


def numbers(words: Sequence[str]) -> dict[str, int]:
    """Return the number of each word."""
    return {word: i for i, word in enumerate(words)}


def encode(sentences: Sequence[Sequence[str]], number: dict[str, int], *, longest: int) -> Tokens:
    """Return the first `longest` words of each sentence as numbers, padded to the longest kept."""
    kept = [sentence[:longest] for sentence in sentences]
    lengths = np.array([len(sentence) for sentence in kept], dtype=np.int32)
    ids = np.full((len(kept), max(1, int(lengths.max(initial=0)))), PADDING, dtype=np.int32)
    for row, sentence in zip(ids, kept, strict=True):
        row[: len(sentence)] = [number.get(word, UNKNOWN) for word in sentence]
    return Tokens(ids, lengths)


FILES = ("glove.6B.100d.txt", "glove.6B/glove.6B.100d.txt", "glove/glove.6B.100d.txt",
         "glove.6B.300d.txt", "glove.840B.300d.txt",
         "glove/glove.840B.300d.txt")  # fmt: skip
SPREAD = 0.05
"""Words without a vector get uniform numbers within this, as Tai et al. (2015) do."""

Vectors = dict[str, NDArray[np.float32]]


def read_glove(path: Path, wanted: set[str] | None = None) -> Vectors:
    """Return the vectors of the `wanted` words (of all when None) of a text file."""
    found: Vectors = {}
    width = 0
    for i, line in enumerate(read_text(path).split("\n"), start=1):
        if not line:
            continue
        word, _, rest = line.partition(" ")
        if i == 1:
            width = len(rest.split())
        if wanted is not None and word not in wanted:
            continue
        # Some words of the 840B file hold spaces: the numbers are the last ones of a line.
        parts = line.rstrip().rsplit(" ", width)
        try:
            vector = np.array([float(part) for part in parts[1:]], dtype=np.float32)
        except ValueError as error:
            raise DataSetError(f"{path}: line {i}: {error}.") from error
        if len(vector) != width or not width:
            raise DataSetError(
                f"{path}: line {i} must hold a word and {width} numbers, found {len(vector)}."
            )
        found[parts[0]] = vector
    return found


def find_vectors(root: Path | None, wanted: set[str] | None = None) -> Vectors | None:
    """Return the vectors of the first GloVe file in the folder, None where there is none."""
    path = find(root, FILES)
    return None if path is None else read_glove(path, wanted)


def as_matrix(words: Sequence[str], vectors: Vectors, *, seed: int) -> NDArray[np.float32]:
    """Return a row for each word: its vector, zeros for padding, small numbers for others."""
    width = len(next(iter(vectors.values()))) if vectors else 1
    rng = np.random.default_rng([seed, 4])
    matrix = rng.uniform(-SPREAD, SPREAD, (len(words), width)).astype(np.float32)
    matrix[PADDING] = 0.0
    for i, word in enumerate(words):
        if word in vectors:
            matrix[i] = vectors[word]
    return matrix
