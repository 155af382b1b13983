"""Stanford Sentiment Treebank."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from focalibrate_papers.datasets._files import check_count, need, read_text
from focalibrate_papers.datasets.dataset import (
    NO_CHILD,
    NO_LABEL,
    NO_WORD,
    Dataset,
    DataSetError,
    DatasetSource,
    Split,
    Tree,
)
from focalibrate_papers.datasets.words import (
    RESERVED,
    UNKNOWN,
    Vectors,
    as_matrix,
    find_vectors,
    numbers,
)

PUBLISHED = {"train": 8_544, "dev": 1_101, "test": 2_210}
BINARY = ("negative", "positive")
NEUTRAL = 2
SIGNS = np.array([0, 0, NO_LABEL, 1, 1], dtype=np.int32)
ESCAPES = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
URL = "https://nlp.stanford.edu/sentiment"
LICENCE = "none stated; cite Socher et al. (2013)"
ADVICE = (
    f"Download trainDevTestTrees_PTB.zip from {URL} and unpack it "
    "there: the folder trees holds train.txt, dev.txt and test.txt. Vectors of words: "
    "glove.6B.100d.txt from https://nlp.stanford.edu/projects/glove, optional."
)

# Only plain spaces divide: some words of the treebank hold a no-break space.
_PIECE = re.compile(r"[()]|[^ \t\r()]+")

Parsed = tuple[list[str], Tree]
"""the words of the leaves in order, and the tree with word i of that list at a leaf"""


def plain_word(word: str) -> str:
    """Return a word of the treebank as GloVe spells it: lower case, brackets and slashes bare."""
    word = word.lower().replace("\\/", "/").replace("\\*", "*")
    return ESCAPES.get(word, word)


class _Builder:
    """Nodes of one tree, added as its brackets close: children before their parent."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.at: list[int] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.labels: list[int] = []
        self.bare: set[int] = set()
        """leaves whose own bracket is still open"""

    def add(self, word: int, left: int, right: int, label: int) -> int:
        self.at.append(word)
        self.left.append(left)
        self.right.append(right)
        self.labels.append(label)
        return len(self.labels) - 1

    def add_leaf(self, word: str, label: int) -> int:
        self.words.append(plain_word(word))
        node = self.add(len(self.words) - 1, NO_CHILD, NO_CHILD, label)
        self.bare.add(node)
        return node

    def close(self, children: list[int], label: int) -> int:
        """Return the node of a bracket; one with one child is that child, with its own label."""
        if len(children) == 1:
            self.labels[children[0]] = label
            self.bare.discard(children[0])
            return children[0]
        if len(children) != 2 or self.bare.intersection(children):
            raise ValueError(
                f"a node must have one word or two children, found {len(children)} of them"
            )
        return self.add(NO_WORD, children[0], children[1], label)


def parse_tree(line: str) -> Parsed:
    """Return the tree of a line such as ``(3 (2 It) (4 works))``.

    A node with one child is that child with the label of the node.
    """
    nodes = _Builder()
    # Of each open bracket: its label and its children so far.
    labels: list[int] = []
    children: list[list[int]] = [[]]
    pieces = iter(_PIECE.findall(line))
    for piece in pieces:
        if piece == "(":
            label = next(pieces, "")
            if len(label) != 1 or label not in "01234":
                raise ValueError(f"a label must be 0 to 4, found {label!r}")
            labels.append(int(label))
            children.append([])
        elif not labels:
            what = "a bracket closes" if piece == ")" else f"the word {piece!r} is"
            raise ValueError(f"{what} outside every bracket")
        elif piece == ")":
            node = nodes.close(children.pop(), labels.pop())
            children[-1].append(node)
        else:
            children[-1].append(nodes.add_leaf(piece, labels[-1]))
    if labels or len(children[0]) != 1:
        raise ValueError("a line must be one closed tree")
    parts = (nodes.at, nodes.left, nodes.right, nodes.labels)
    return nodes.words, Tree(*(np.array(part, dtype=np.int32) for part in parts))


def read_trees(path: Path) -> list[Parsed]:
    """Return the trees of a file, one per line."""
    parsed = []
    for i, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            parsed.append(parse_tree(line))
        except ValueError as error:
            raise DataSetError(f"{path}: line {i}: {error}.") from error
    return parsed


def _known_words(parts: Sequence[list[Parsed]], vectors: Vectors | None) -> tuple[str, ...]:
    """Return the words of the training set, and other words that have a GloVe vector."""
    seen = {word for words, _ in parts[0] for word in words}
    others = {word for part in parts[1:] for words, _ in part for word in words}
    return (*RESERVED, *sorted(seen | {word for word in others if word in (vectors or {})}))


def _numbered(parsed: Parsed, number: dict[str, int]) -> Tree:
    words, tree = parsed
    ids = np.array([number.get(word, UNKNOWN) for word in words], dtype=np.int32)
    at = np.where(tree.words == NO_WORD, NO_WORD, ids[tree.words])
    return Tree(at.astype(np.int32), tree.left, tree.right, SIGNS[tree.labels])


def read_sentiment(
    root: Path | None, seed: int, *, counts: Mapping[str, int] = PUBLISHED
) -> Dataset:
    """Return the treebank from the trees in `root`.

    Args:
        root: folder of data sets.
        seed: random seed of the vectors of words that have none.
        counts: sentences that the files train, dev and test must hold; pass other numbers for
            your own files in the same form, such as a part, which `load` refuses.
    """
    parts = []
    for stem, count in counts.items():
        path = need(root, [f"trees/{stem}.txt", f"sst/{stem}.txt", f"sst_{stem}.txt"],
                    advice=ADVICE)  # fmt: skip
        part = read_trees(path)
        check_count(path, "sentences", len(part), count)
        parts.append(part)
    # A neutral sentence is neither positive nor negative.
    parts = [[p for p in part if p[1].labels[-1] != NEUTRAL] for part in parts]
    everything = {word for part in parts for words, _ in part for word in words}
    vectors = find_vectors(root, everything)
    words = _known_words(parts, vectors)
    number = numbers(words)

    splits = []
    for part in parts:
        trees = [_numbered(parsed, number) for parsed in part]
        splits.append(Split(trees, np.array([int(t.labels[-1]) for t in trees], dtype=np.int64)))
    return Dataset(
        "sst_binary",
        splits[0],
        splits[1],
        splits[2],
        len(BINARY),
        BINARY,
        "trees",
        words,
        None if vectors is None else as_matrix(words, vectors, seed=seed),
    )


SENTIMENT: dict[str, DatasetSource] = {
    "sst_binary": DatasetSource("trees", read_sentiment, ADVICE, URL, LICENCE)
}
"""6,920 / 872 / 1,821 sentences; neutral nodes inside them have no label. (Tai et al. and
paper 002 give those a third class while training, which no test sentence has.)"""
