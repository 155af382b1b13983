"""Stanford Sentiment Treebank."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from focalibrate.data.sets._error import DataSetError
from focalibrate.data.sets._files import check_count, need, read_text
from focalibrate.data.sets._source import Source
from focalibrate.data.sets.dataset import Dataset, Split
from focalibrate.data.sets.glove import Vectors, as_matrix, find_vectors
from focalibrate.data.sets.tree import NO_CHILD, NO_LABEL, NO_WORD, Tree
from focalibrate.data.sets.vocabulary import RESERVED, UNKNOWN, numbers

COUNTS = {"train": 8_544, "dev": 1_101, "test": 2_210}
FINE = ("very negative", "negative", "neutral", "positive", "very positive")
BINARY = ("negative", "positive")
NEUTRAL = 2
SIGNS = np.array([0, 0, NO_LABEL, 1, 1], dtype=np.int32)
ESCAPES = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
ADVICE = (
    "Download trainDevTestTrees_PTB.zip from https://nlp.stanford.edu/sentiment and unpack it "
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


def parse_tree(line: str) -> Parsed:
    """Return the tree of a line such as ``(3 (2 It) (4 works))``.

    A node with one child is that child with the label of the node.
    """
    words: list[str] = []
    left: list[int] = []
    right: list[int] = []
    at: list[int] = []
    labels: list[int] = []
    # Of each open bracket: its label and its children so far.
    open_labels: list[int] = []
    open_children: list[list[int]] = [[]]
    bare: set[int] = set()  # leaves whose own bracket is still open
    pieces = iter(_PIECE.findall(line))
    for piece in pieces:
        if piece == "(":
            label = next(pieces, "")
            if len(label) != 1 or label not in "01234":
                raise ValueError(f"a label must be 0 to 4, found {label!r}")
            open_labels.append(int(label))
            open_children.append([])
        elif piece == ")":
            if not open_labels:
                raise ValueError("a bracket closes that was not opened")
            label_of, children = open_labels.pop(), open_children.pop()
            if len(children) == 1:
                labels[children[0]] = label_of
                open_children[-1].append(children[0])
                bare.discard(children[0])
                continue
            if len(children) != 2 or bare.intersection(children):
                raise ValueError(
                    f"a node must have one word or two children, found {len(children)} of them"
                )
            left.append(children[0])
            right.append(children[1])
            at.append(NO_WORD)
            labels.append(label_of)
            open_children[-1].append(len(labels) - 1)
        else:
            if not open_labels:
                raise ValueError(f"the word {piece!r} is outside every bracket")
            left.append(NO_CHILD)
            right.append(NO_CHILD)
            at.append(len(words))
            labels.append(open_labels[-1])
            words.append(plain_word(piece))
            bare.add(len(labels) - 1)
            open_children[-1].append(len(labels) - 1)
    if open_labels or len(open_children[0]) != 1:
        raise ValueError("a line must be one closed tree")
    return words, Tree(*(np.array(a, dtype=np.int32) for a in (at, left, right, labels)))


def read_trees(path: Path) -> list[Parsed]:
    """Return the trees of a file, one a line."""
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
    """Return the words of train, and those others that have a vector without any training."""
    seen = {word for words, _ in parts[0] for word in words}
    others = {word for part in parts[1:] for words, _ in part for word in words}
    return (*RESERVED, *sorted(seen | {word for word in others if word in (vectors or {})}))


def _numbered(parsed: Parsed, number: dict[str, int], labels: Callable[[Tree], object]) -> Tree:
    words, tree = parsed
    ids = np.array([number.get(word, UNKNOWN) for word in words], dtype=np.int32)
    at = np.where(tree.words == NO_WORD, NO_WORD, ids[tree.words])
    return Tree(at.astype(np.int32), tree.left, tree.right, np.asarray(labels(tree), np.int32))


def _read(name: str, fine: bool, root: Path | None, seed: int) -> Dataset:
    parts = []
    for stem, count in COUNTS.items():
        path = need(root, [f"trees/{stem}.txt", f"sst/{stem}.txt", f"sst_{stem}.txt"],
                    advice=ADVICE)  # fmt: skip
        part = read_trees(path)
        check_count(path, "sentences", len(part), count)
        parts.append(part)
    if not fine:  # a neutral sentence is neither positive nor negative
        parts = [[p for p in part if p[1].labels[-1] != NEUTRAL] for part in parts]
    everything = {word for part in parts for words, _ in part for word in words}
    vectors = find_vectors(root, everything)
    words = _known_words(parts, vectors)
    number = numbers(words)

    def labels(tree: Tree) -> object:
        return tree.labels if fine else SIGNS[tree.labels]

    splits = []
    for part in parts:
        trees = [_numbered(parsed, number, labels) for parsed in part]
        splits.append(Split(trees, np.array([int(t.labels[-1]) for t in trees], dtype=np.int64)))
    class_names = FINE if fine else BINARY
    return Dataset(
        name,
        splits[0],
        splits[1],
        splits[2],
        len(class_names),
        class_names,
        "trees",
        words,
        None if vectors is None else as_matrix(words, vectors, seed=seed),
    )


SENTIMENT: dict[str, Source] = {
    "sst_binary": Source("trees", partial(_read, "sst_binary", False), ADVICE),
    "sst_fine": Source("trees", partial(_read, "sst_fine", True), ADVICE),
}
"""Binary: 6,920 / 872 / 1,821 sentences; neutral nodes inside them have no label. (Tai et al. and
paper 002 give those a third class while training, which no test sentence has.)"""
