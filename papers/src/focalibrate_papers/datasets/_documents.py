"""Text sets: documents as rows of word indices."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from focalibrate_papers.datasets.dataset import Dataset, Split
from focalibrate_papers.datasets.glove import as_matrix, find_vectors
from focalibrate_papers.datasets.vocabulary import encode, most_frequent, numbers, tokenise

Documents = tuple[list[str], list[int]]
"""texts and labels"""


def document_set(
    name: str,
    parts: Sequence[Documents],
    class_names: tuple[str, ...],
    *,
    root: Path | None,
    seed: int,
    n_words: int,
    longest: int,
) -> Dataset:
    """Return the set of three parts: train, validation, test; the vocabulary is train's."""
    sentences = [[tokenise(text) for text in texts] for texts, _ in parts]
    words = most_frequent(sentences[0], n_words=n_words)
    number = numbers(words)
    vectors = find_vectors(root, set(words))
    splits = [
        Split(encode(part, number, longest=longest), np.array(labels, dtype=np.int64))
        for part, (_, labels) in zip(sentences, parts, strict=True)
    ]
    return Dataset(
        name,
        splits[0],
        splits[1],
        splits[2],
        len(class_names),
        class_names,
        "text",
        words,
        None if vectors is None else as_matrix(words, vectors, seed=seed),
    )


def chosen(documents: Documents, rows: Sequence[int]) -> Documents:
    """Return the documents `rows`."""
    return [documents[0][row] for row in rows], [documents[1][row] for row in rows]
