"""Words as indices."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from focalibrate_papers.datasets.dataset import Tokens

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
