import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from focalibrate_papers.datasets import Tree
from focalibrate_papers.datasets.sentiment import parse_tree
from focalibrate_papers.models import TreeBatch, build


def random_tree(n_words, rng):
    words = [int(w) for w in rng.integers(1, 9, n_words)]
    left, right = [-1] * n_words, [-1] * n_words
    nodes = list(range(n_words))
    while len(nodes) > 1:
        i = int(rng.integers(len(nodes) - 1))
        left.append(nodes[i])
        right.append(nodes[i + 1])
        words.append(-1)
        nodes[i : i + 2] = [len(words) - 1]
    labels = rng.integers(-1, 3, len(words))
    return Tree(*(np.array(a, dtype=np.int32) for a in (words, left, right, labels)))


def by_the_paper(model, tree):
    """The state of each node by Tai et al. (2015), equations 9 to 14, one at a time."""
    width = model.last.in_features
    wl, wr = model.left.weight.view(5, width, width), model.right.weight.view(5, width, width)
    b = (model.left.bias + model.right.bias).view(5, width)
    states = []
    for word, left, right in zip(tree.words, tree.left, tree.right, strict=True):
        if left < 0:
            x = model.leaf.weight @ model.words.weight[word] + model.leaf.bias
            c, o = x[:width], torch.sigmoid(x[width:])
        else:
            (c_left, h_left), (c_right, h_right) = states[left], states[right]
            i, o, f_left, f_right, u = (wl[g] @ h_left + wr[g] @ h_right + b[g] for g in range(5))
            c = torch.sigmoid(i) * torch.tanh(u)
            c = c + torch.sigmoid(f_left) * c_left + torch.sigmoid(f_right) * c_right
            o = torch.sigmoid(o)
        states.append((c, o * torch.tanh(c)))
    return torch.stack([model.last(h) for _, h in states])


def small_model(**options):
    torch.manual_seed(0)
    return build("tree_lstm", n_classes=3, n_words=9, n_dimensions=4, width=6, **options).double()


def test_the_published_count():
    # Tai et al. (2015), table 1: 316,800 for width 150 over vectors of 300, without word vectors
    # and the classifier.
    model = build("tree_lstm", n_classes=5, n_words=1, n_dimensions=300)
    parts = (model.leaf, model.left, model.right)
    assert sum(p.numel() for part in parts for p in part.parameters()) == 316_800


@pytest.mark.slow
@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_a_batch_equals_node_by_node(sizes, seed):
    rng = np.random.default_rng(seed)
    trees = [random_tree(n, rng) for n in sizes]
    model = small_model().eval()
    batch = TreeBatch.of(trees)
    with torch.no_grad():
        want = [by_the_paper(model, tree) for tree in trees]
        torch.testing.assert_close(model(batch), torch.stack([rows[-1] for rows in want]))
        got = model.node_logits(batch)
    # The order of the nodes differs: compare them with their labels beside them, sorted.
    labels = np.concatenate([tree.labels for tree in trees])
    assert sorted(batch.labels.tolist()) == sorted(labels.tolist())
    rows = torch.cat([got, batch.labels[:, None]], dim=1)
    wanted = torch.cat([torch.cat(want), torch.from_numpy(labels)[:, None]], dim=1)
    distance = torch.cdist(rows, wanted, compute_mode="donot_use_mm_for_euclid_dist")
    assert distance.min(dim=0).values.max() < 1e-9
    assert distance.min(dim=1).values.max() < 1e-9


def test_gradients_equal_node_by_node():
    rng = np.random.default_rng(0)
    trees = [random_tree(n, rng) for n in (1, 2, 7, 11)]
    model = small_model().eval()
    parameters = list(model.parameters())
    batched = model(TreeBatch.of(trees)).square().sum()
    looped = sum(by_the_paper(model, tree)[-1].square().sum() for tree in trees)
    for got, want in zip(
        torch.autograd.grad(batched, parameters),
        torch.autograd.grad(looped, parameters),
        strict=True,
    ):
        torch.testing.assert_close(got, want)


def test_a_parsed_sentence_has_its_levels():
    _, tree = parse_tree("(3 (2 It) (4 (2 really) (4 works)))")
    batch = TreeBatch.of([tree, tree])
    assert batch.widths == (2, 2)
    assert len(batch) == 2
    assert batch.labels[batch.roots].tolist() == [3, 3]


def test_a_single_word_is_its_own_root():
    model = small_model().eval()
    _, tree = parse_tree("(1 No)")
    assert model(TreeBatch.of([tree])).shape == (1, 3)


def test_no_trees_and_a_loop_are_refused():
    with pytest.raises(ValueError, match=r"`trees` must hold at least one tree, got none\."):
        TreeBatch.of([])
    one = np.array([-1], dtype=np.int32)
    loop = Tree(one, np.array([0], np.int32), np.array([0], np.int32), one)
    with pytest.raises(ValueError, match="its own ancestor"):
        TreeBatch.of([loop])


def test_dropout_acts_only_in_training():
    model = small_model(drop=0.5)
    batch = TreeBatch.of([random_tree(5, np.random.default_rng(1))])
    assert not torch.equal(model(batch), model(batch))
    model.eval()
    assert torch.equal(model(batch), model(batch))


def test_word_vectors_are_trained_by_default():
    model = build("tree_lstm", n_classes=2, vectors=np.ones((9, 4), np.float32), width=3)
    batch = TreeBatch.of([random_tree(5, np.random.default_rng(1))])
    model(batch).sum().backward()
    assert model.words.weight.grad.abs().sum() > 0
