import numpy as np
import pytest
import torch
from torch.nn.functional import max_pool1d

from focalibrate_papers.models import build


def test_count_of_the_papers_network():
    # Three convolutions of 5 words, a hidden layer, 20 classes; the GloVe vectors are fixed.
    model = build("text_cnn", n_classes=20, vectors=np.zeros((7, 100), np.float32))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    convolutions = (100 + 128 + 128) * 128 * 5 + 3 * 128
    assert trained == convolutions + 128 * 128 + 128 + 128 * 20 + 20


@pytest.mark.parametrize("pool_stride", [1, 5])
def test_the_shortest_text_leaves_one_position(pool_stride):
    model = build("text_cnn", n_classes=2, n_words=9, pool_stride=pool_stride).eval()
    shortest = model.shortest
    x = torch.randn(1, 100, shortest)
    for conv in (model.conv1, model.conv2):
        x = max_pool1d(conv(x), 5, stride=pool_stride)
    assert model.conv3(x).shape[2] == 1


def test_a_text_of_one_word_is_padded():
    torch.manual_seed(0)
    model = build("text_cnn", n_classes=2, n_words=9).eval()
    ids = torch.tensor([[3]])
    padded = torch.zeros(1, model.shortest, dtype=torch.long)
    padded[0, 0] = 3
    assert torch.equal(model(ids), model(padded, torch.tensor([1])))


def test_given_vectors_are_fixed_unless_tuned_and_padding_is_zero():
    vectors = np.ones((4, 6), np.float32)
    fixed, tuned = (
        build("text_cnn", n_classes=2, vectors=vectors, tuned=tuned) for tuned in (False, True)
    )
    assert not fixed.words.weight.requires_grad
    assert tuned.words.weight.requires_grad
    assert fixed.words.weight[0].abs().sum() == 0
    assert vectors.min() == 1  # the caller's are not touched


def test_vectors_must_fit_the_vocabulary():
    with pytest.raises(ValueError, match=r"`n_words` is 5, but `vectors` has 4 rows\."):
        build("text_cnn", n_classes=2, n_words=5, vectors=np.ones((4, 6), np.float32))


def test_gradients_reach_every_layer():
    torch.manual_seed(0)
    model = build("text_cnn", n_classes=3, n_words=20)
    model(torch.randint(1, 20, (4, 30)), torch.full((4,), 30)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("pool_stride", [1, 5])
def test_texts_by_length_give_the_same_logits_and_gradients(pool_stride):
    torch.manual_seed(0)
    model = build("text_cnn", n_classes=3, n_words=20, n_dimensions=4, width=5, drop=0.0)
    model.pool_stride = pool_stride
    model.double()
    lengths = torch.tensor([0, 1, 30, 200, 57, 199, 3, 111, 200, 24, 90])
    ids = torch.randint(1, 20, (len(lengths), 200))
    ids[torch.arange(200) >= lengths[:, None]] = 0
    plain, quick = model(ids), model(ids, lengths)
    torch.testing.assert_close(quick, plain)
    parameters = list(model.parameters())
    for got, want in zip(
        torch.autograd.grad(quick.square().sum(), parameters),
        torch.autograd.grad(plain.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(got, want)
