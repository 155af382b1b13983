"""Training: 40 copies of the tabular MLP at once against one after another.

One thread. The peer is a plain PyTorch loop for one run (module, loss, optimiser, no evaluation,
no checkpoint), called 40 times; ours also evaluates all copies at the end. The data are generated:
1200 training examples, 16 columns, 4 classes.
"""

import numpy as np
import torch

from benchmarks._timing import Row, compare, interleave
from focalibrate.nn import FocalLoss
from focalibrate_papers.datasets import Dataset, Split
from focalibrate_papers.models import build
from focalibrate_papers.recipes import TABLE
from focalibrate_papers.train import Recipe, train_many

COPIES, EPOCHS = 40, 3
HIDDEN = dict(TABLE.size)["hidden"]


def made_up() -> Dataset:
    """Return a table whose classes a network can separate, with noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 16)).astype(np.float32)
    y = (np.tanh(x @ rng.normal(size=(16, 4))) + rng.normal(size=(2000, 4))).argmax(axis=1)
    splits = [Split(x[a:b], y[a:b]) for a, b in ((0, 1200), (1200, 1600), (1600, 2000))]
    return Dataset("made up", *splits, 4, tuple("abcd"), "tabular")


def one_run(dataset: Dataset, recipe: Recipe, seed: int) -> None:
    """Train one copy as a plain loop does."""
    torch.manual_seed(seed)
    x, y = torch.from_numpy(dataset.train.inputs), torch.from_numpy(dataset.train.labels)
    model = build(recipe.model, n_classes=4, n_features=x.shape[1], hidden=HIDDEN)
    optimiser = torch.optim.SGD(
        model.parameters(),
        lr=recipe.lr,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
    )
    loss = FocalLoss(recipe.gamma)
    for _ in range(recipe.epochs):
        order = torch.randperm(len(x))
        for rows in order.split(recipe.batch):
            optimiser.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimiser.step()


def run() -> list[Row]:
    """Return one row: all copies at once against one after another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    dataset = made_up()
    recipe = Recipe(
        dataset="made up",
        model="mlp",
        size=TABLE.size,
        gamma=2.0,
        lr=TABLE.lr,
        momentum=TABLE.momentum,
        weight_decay=TABLE.weight_decay,
        batch=TABLE.batch,
        epochs=EPOCHS,
    )
    try:
        seconds = interleave(
            {
                "train_many": lambda: train_many(recipe, seeds=range(COPIES), dataset=dataset),
                "one after another": lambda: [
                    one_run(dataset, recipe, seed) for seed in range(COPIES)
                ],
            },
            rounds=7,
        )
    finally:
        torch.set_num_threads(threads)
    return [
        compare(
            f"{COPIES} copies of an MLP {HIDDEN}, batch {recipe.batch}, {EPOCHS} epochs",
            seconds,
            ours="train_many",
            peer="one after another",
            bar=0.2,
            note="one thread; the peer is a plain PyTorch loop without evaluation",
        )
    ]
