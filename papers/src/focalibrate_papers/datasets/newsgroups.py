"""20 Newsgroups."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from focalibrate_papers.datasets._files import check_count, find, need, read_text
from focalibrate_papers.datasets._split import split_sizes
from focalibrate_papers.datasets.dataset import Dataset, DataSetError, DatasetSource, Split
from focalibrate_papers.datasets.words import (
    as_matrix,
    encode,
    find_vectors,
    most_frequent,
    numbers,
    tokenise,
)

Documents = tuple[list[str], list[int]]
"""texts and labels"""
N_CLASSES = 20
N_WORDS, LONGEST = 20_000, 1_000
"""The vocabulary and the words kept of a document in the network paper 002 adapts."""
WHOLE = ("20_newsgroups", "20_newsgroup", "20news-18828")
URL = "http://qwone.com/~jason/20Newsgroups"
LICENCE = "none stated; UCI gives the same posts under CC BY 4.0"
CHECKSUMS = {  # as scikit-learn checks it
    "20news-bydate.tar.gz": (
        "sha256:8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610"
    )
}
ADVICE = (
    "Download 20news-19997.tar.gz (folder 20_newsgroups, as paper 002 splits it) or "
    "20news-bydate.tar.gz (folders 20news-bydate-train and 20news-bydate-test) from "
    f"{URL} and unpack it there. Vectors of words: "
    "glove.6B.100d.txt from https://nlp.stanford.edu/projects/glove, optional."
)


@dataclass(frozen=True, kw_only=True)
class DocumentCounts:
    """How many documents the files must hold and how many of them validate and test.

    As distributed, and as in paper 002, appendix C: 15,098 / 900 / 3,999 of the 19,997 documents
    that come without a split. If the files are split by date, 900 of the training documents are
    for validation and the test set is unchanged.
    """

    whole: tuple[int, ...] = (19_997, 18_828)
    train: int = 11_314
    """of the files divided by date"""
    test: int = 7_532
    n_validation: int = 900
    n_test: int = 3_999


PUBLISHED = DocumentCounts()


def without_header(text: str) -> str:
    """Return the text after the first empty line; the lines before it name group and sender."""
    head, gap, body = text.partition("\n\n")
    return body if gap and head else text


def read_folders(folder: Path) -> tuple[Documents, tuple[str, ...]]:
    """Return the documents of one folder per class, in the order of their names."""
    names = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))
    check_count(folder, "folders of newsgroups", len(names), N_CLASSES)
    texts, labels = [], []
    for label, name in enumerate(names):
        for path in sorted((folder / name).iterdir()):
            texts.append(path.read_text(encoding="latin-1"))
            labels.append(label)
    return (texts, labels), names


def read_lines(path: Path) -> Documents:
    """Return the documents of a file of JSON objects with ``text`` and a ``label`` of 0 to 19."""
    texts, labels = [], []
    for i, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            text, label = entry["text"], entry["label"]
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise DataSetError(
                f"{path}: line {i} must be a JSON object with text and label ({error!r})."
            ) from error
        if not isinstance(label, int) or not 0 <= label < N_CLASSES:
            raise DataSetError(f"{path}: label must be in 0..19, found {label!r} in line {i}.")
        texts.append(str(text))
        labels.append(label)
    return texts, labels


def _read_by_date(
    root: Path | None, sizes: DocumentCounts
) -> tuple[Documents, Documents, tuple[str, ...]]:
    parts: list[Documents] = []
    names: tuple[str, ...] = ()
    for stem, count in (("train", sizes.train), ("test", sizes.test)):
        path = need(root, [f"20news-bydate-{stem}", f"20news_bydate_{stem}.jsonl"], advice=ADVICE)
        if path.is_dir():
            documents, names = read_folders(path)
        else:
            documents = read_lines(path)
        check_count(path, "documents", len(documents[0]), count)
        parts.append(documents)
    if not names:
        listed = find(root, ["20news_groups.json"])
        names = (
            tuple(json.loads(read_text(listed)))
            if listed
            else tuple(str(k) for k in range(N_CLASSES))
        )
    return parts[0], parts[1], names


def chosen(documents: Documents, rows: Sequence[int]) -> Documents:
    """Return the documents `rows`."""
    return [documents[0][row] for row in rows], [documents[1][row] for row in rows]


def read_newsgroups(root: Path | None, seed: int, *, sizes: DocumentCounts = PUBLISHED) -> Dataset:
    """Return 20 Newsgroups from the folders or the lines in `root`.

    Args:
        root: folder of data sets.
        seed: random seed of the split.
        sizes: what the files must hold; pass other numbers for your own
            files in the same form, such as a part, which `load` refuses.
    """
    whole = find(root, WHOLE)
    if whole is not None:
        documents, names = read_folders(whole)
        n = len(documents[0])
        check_count(whole, "documents", n, sizes.whole)
        n_train = n - sizes.n_validation - sizes.n_test
        rows = split_sizes(
            np.array(documents[1]), [n_train, sizes.n_validation, sizes.n_test], seed=[seed, 0]
        )
        parts = [chosen(documents, [int(row) for row in part]) for part in rows]
    else:
        train, test, names = _read_by_date(root, sizes)
        cut = [len(train[0]) - sizes.n_validation, sizes.n_validation]
        rows = split_sizes(np.array(train[1]), cut, seed=[seed, 0])
        parts = [*(chosen(train, [int(row) for row in part]) for part in rows), test]
    bodies = [([without_header(text) for text in texts], labels) for texts, labels in parts]
    sentences = [[tokenise(text) for text in texts] for texts, _ in bodies]
    words = most_frequent(sentences[0], n_words=N_WORDS)
    number, vectors = numbers(words), find_vectors(root, set(words))
    splits = [
        Split(encode(part, number, longest=LONGEST), np.array(labels, dtype=np.int64))
        for part, (_, labels) in zip(sentences, bodies, strict=True)
    ]
    return Dataset(
        "20newsgroups",
        splits[0],
        splits[1],
        splits[2],
        N_CLASSES,
        names,
        "text",
        words,
        None if vectors is None else as_matrix(words, vectors, seed=seed),
    )


NEWSGROUPS: dict[str, DatasetSource] = {
    "20newsgroups": DatasetSource("text", read_newsgroups, ADVICE, URL, LICENCE, CHECKSUMS)
}
