"""Trees batched by level against node by node; texts grouped by length against equal padding."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks._timing import Row, compare, interleave
from focalibrate_papers.datasets import VARIABLE, Tree, load
from focalibrate_papers.models import TreeBatch, TreeLSTM, build

BATCH = 25
"""Sentences per step, as in Tai et al. (2015)."""
N_BATCHES = 4
SHARED = Path(__file__).parents[2] / "shared" / "data"


def random_tree(n_words: int, rng: np.random.Generator, *, vocabulary: int = 10_000) -> Tree:
    """Return a tree that joins two random neighbours until one is left."""
    words = [int(w) for w in rng.integers(2, vocabulary, n_words)]
    left, right = [-1] * n_words, [-1] * n_words
    open_nodes = list(range(n_words))
    while len(open_nodes) > 1:
        i = int(rng.integers(len(open_nodes) - 1))
        left.append(open_nodes[i])
        right.append(open_nodes[i + 1])
        words.append(-1)
        open_nodes[i : i + 2] = [len(words) - 1]
    labels = rng.integers(0, 2, len(words))
    return Tree(*(np.array(a, dtype=np.int32) for a in (words, left, right, labels)))


def trees_of_benchmark() -> tuple[Sequence[Tree], int, str]:
    """Return the sentences of SST if the data exist, else random trees of their sizes."""
    directory = Path(os.environ.get(VARIABLE, SHARED))
    if directory.is_dir():
        data = load("sst_binary", data=directory)
        trees = cast("Sequence[Tree]", data.train.inputs)
        return trees[: BATCH * N_BATCHES], len(data.words), "SST"
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 35, BATCH * N_BATCHES)
    return [random_tree(int(n), rng) for n in sizes], 10_000, "random trees"


def node_by_node(model: TreeLSTM, tree: Tree) -> Tensor:
    """Return the logits of all nodes of one tree, one node after another."""
    states: list[tuple[Tensor, Tensor]] = []
    joined = model.joined()
    for word, left, right in zip(tree.words, tree.left, tree.right, strict=True):
        if left < 0:
            states.append(model.at_leaves(torch.tensor([int(word)])))
        else:
            (c_left, h_left), (c_right, h_right) = states[left], states[right]
            c, h = torch.cat([c_left, c_right]), torch.cat([h_left, h_right])
            states.append(model.compose(c, h, *joined))
    return torch.cat([model.last(model.drop(h)) for _, h in states])


def step(model: TreeLSTM, loss: Callable[[], Tensor]) -> None:
    """Compute the loss and its gradient."""
    model.zero_grad()
    loss().backward()


def looped(model: TreeLSTM, trees: Sequence[Tree]) -> Tensor:
    """Return the summed loss over the nodes, node by node."""
    total = torch.zeros(())
    for tree in trees:
        labels = torch.from_numpy(tree.labels).long()
        logits = node_by_node(model, tree)
        total = total + cross_entropy(logits, labels, ignore_index=-1, reduction="sum")
    return total


def batched(model: TreeLSTM, trees: Sequence[Tree]) -> Tensor:
    """Return the summed loss over the nodes, level by level."""
    batch = TreeBatch.of(trees)
    logits = model.node_logits(batch)
    return cross_entropy(logits, batch.labels, ignore_index=-1, reduction="sum")


def tree_row() -> Row:
    """Measure one training step of 25 sentences: forward and backward."""
    trees, n_words, source = trees_of_benchmark()
    torch.manual_seed(0)
    model = build("tree_lstm", n_classes=2, n_words=n_words, drop=0.0)
    assert isinstance(model, TreeLSTM)
    model.words.weight.requires_grad_(False)  # so that only the tree's work is compared
    parts = [trees[i * BATCH : (i + 1) * BATCH] for i in range(N_BATCHES)]
    with torch.no_grad():
        torch.testing.assert_close(
            batched(model, parts[0]), looped(model, parts[0]), rtol=1e-4, atol=0
        )
    seconds = interleave(
        {
            "by level": lambda: [step(model, lambda p=p: batched(model, p)) for p in parts],
            "node by node": lambda: [step(model, lambda p=p: looped(model, p)) for p in parts],
        },
        rounds=5,
    )
    return compare(
        f"Tree-LSTM, {N_BATCHES} steps of {BATCH} sentences",
        seconds,
        ours="by level",
        peer="node by node",
        bar=0.1,
        note=f"{source}; width 150, forward and backward, one thread",
    )


def text_row() -> Row:
    """Measure one training step of 64 texts, half of which have fewer than 157 words."""
    rng = np.random.default_rng(0)
    lengths = torch.from_numpy(np.minimum(rng.lognormal(np.log(157), 1, 64), 1000).astype(int))
    ids = torch.from_numpy(rng.integers(1, 20_000, (64, 1000)))
    ids[torch.arange(1000) >= lengths[:, None]] = 0
    labels = torch.from_numpy(rng.integers(0, 20, 64))
    torch.manual_seed(0)
    vectors = torch.randn(20_000, 100)
    model = build("text_cnn", n_classes=20, vectors=vectors, drop=0.0)
    seconds = interleave(
        {
            "by length": lambda: cross_entropy(model(ids, lengths), labels).backward(),
            "padded alike": lambda: cross_entropy(model(ids), labels).backward(),
        },
        rounds=5,
    )
    return compare(
        "text CNN, a step of 64 texts",
        seconds,
        ours="by length",
        peer="padded alike",
        note="lengths as in 20 Newsgroups, 1,000 columns, one thread",
    )


def run() -> list[Row]:
    """Measure steps of training, forward and backward."""
    torch.set_num_threads(1)
    return [tree_row(), text_row()]
