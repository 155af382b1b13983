"""Small real runs: scikit-learn's digits, as a table and as images, and generated sentences."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from focalibrate_papers.datasets import Dataset, Split, Tokens, Tree
from focalibrate_papers.models import MODELS


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class TinyCNN(nn.Module):
    def __init__(self, *, n_classes, in_channels=1, image_size=8, width=8):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3, padding=1)
        self.last = nn.Linear(width * (image_size // 2) ** 2, n_classes)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.last(x.flatten(1))


@pytest.fixture(autouse=True)
def _tiny_cnn(monkeypatch):
    monkeypatch.setitem(MODELS, "tiny_cnn", TinyCNN)


def split(inputs, labels, n_train, n_test, *, kind, n_classes, **words):
    parts = (slice(n_train), slice(n_train, n_train + n_test), slice(n_train + n_test, None))
    train, validation, test = (Split(inputs[p], labels[p]) for p in parts)
    names = tuple(map(str, range(n_classes)))
    return Dataset("made", train, validation, test, n_classes, names, kind, **words)


@pytest.fixture(scope="session")
def table():
    inputs, labels = load_digits(return_X_y=True)
    return split(inputs.astype(np.float32), labels, 900, 400, kind="tabular", n_classes=10)


@pytest.fixture(scope="session")
def images():
    inputs, labels = load_digits(return_X_y=True)
    pixels = (15 * inputs).astype(np.uint8).reshape(-1, 8, 8, 1)
    return split(pixels, labels, 900, 400, kind="image", n_classes=10)


@pytest.fixture(scope="session")
def sentences():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=300)
    ids = rng.integers(2, 30, size=(300, 12)).astype(np.int32)
    ids[np.arange(300), rng.integers(12, size=300)] = 30 + labels  # one word tells
    lengths = np.full(300, 12, dtype=np.int32)
    words = tuple(map(str, range(32)))
    return split(Tokens(ids, lengths), labels, 200, 50, kind="text", n_classes=2, words=words)


@pytest.fixture(scope="session")
def trees():
    rng = np.random.default_rng(1)
    made, labels = [], rng.integers(2, size=150)
    for label in labels:
        words = [int(w) for w in rng.integers(2, 20, size=4)]
        words[int(rng.integers(4))] = 20 + int(label)
        made.append(
            Tree(
                np.array([*words, -1, -1, -1], np.int32),
                np.array([-1, -1, -1, -1, 0, 2, 4], np.int32),
                np.array([-1, -1, -1, -1, 1, 3, 5], np.int32),
                np.array([-1] * 6 + [label], np.int32),
            )
        )
    words = tuple(map(str, range(22)))
    return split(made, labels, 100, 25, kind="trees", n_classes=2, words=words)
