"""Examples as input of a network, in an order and with augmentation fixed by a seed."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from focalibrate_papers.datasets import Dataset, Split, Tokens, load
from focalibrate_papers.models import TreeBatch
from focalibrate_papers.recipe import Augmentation, Recipe

PAD = 4
"""Pixels added on every side before a crop, black as in the papers' code."""
ORDER, CHANGES, STEP, START = range(4)
"""Uses of random numbers; streams for different uses are independent."""

DATA_SEED = 0
"""The split is the same for every seed of a recipe: seeds affect only weights and order."""


def load_dataset(recipe: Recipe, *, data: str | Path | None = None) -> Dataset:
    """Return the examples that `recipe` names, from the folder of data sets `data`."""
    return load(recipe.dataset, data=data, seed=DATA_SEED, fraction=recipe.fraction)


def stream(seed: int, *place: int) -> np.random.Generator:
    """Return the random numbers for one use at one point of a run; no state has to be saved."""
    return np.random.default_rng([seed, *place])


def torch_seed(seed: int, *place: int) -> int:
    """Return a seed for torch, for one use at one point of a run."""
    return int(stream(seed, *place).integers(2**62))


def epoch_order(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """Return the order of `n` examples in `epoch`."""
    return stream(seed, ORDER, epoch).permutation(n)


def epoch_changes(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """Return the crop (down, right) and the flip of each of `n` examples in `epoch`, ``[n, 3]``.

    A row depends on seed, epoch and example only: not on batches, processes or restarts.
    """
    return stream(seed, CHANGES, epoch).integers([2 * PAD + 1, 2 * PAD + 1, 2], size=(n, 3))


class Feed:
    """Batches of a data set as input of a network.

    Images become float ``[N, C, H, W]``; images and tables are standardised by channel or column
    with the figures of the training examples. Text becomes ``(ids, lengths)``, trees what the
    network's `TreeBatch` makes of them.
    """

    def __init__(self, dataset: Dataset, *, augmentation: Augmentation = "none") -> None:
        self.dataset = dataset
        self._augmentation = augmentation
        if augmentation != "none" and dataset.kind != "image":
            raise ValueError(
                f"`augmentation` must be none for {dataset.kind} data, got {augmentation!r}."
            )
        if dataset.kind in ("image", "tabular"):
            self._mean, self._std = _standard(dataset)

    def batch(self, rows: NDArray[np.int64], changes: NDArray[np.int64] | None = None) -> Any:
        """Return the training examples `rows`, changed as `epoch_changes` says."""
        if self._augmentation == "none" or changes is None:
            return self._ready(_take(self.dataset.train, rows))
        images = _moved(np.asarray(self.dataset.train.inputs)[rows], changes, self._augmentation)
        return self._ready(images)

    def labels(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the labels of the training examples `rows`."""
        return torch.from_numpy(self.dataset.train.labels[rows])

    def chunks(self, split: Split, n: int) -> Iterator[tuple[Any, Tensor]]:
        """Yield all examples of `split` in order, `n` at a time, with labels."""
        for start in range(0, len(split), n):
            rows = np.arange(start, min(start + n, len(split)))
            labels = torch.from_numpy(split.labels[rows])
            yield self._ready(_take(split, rows)), labels

    def _ready(self, inputs: Any) -> Any:
        kind = self.dataset.kind
        if kind == "image":
            x = torch.from_numpy(inputs).float()
            # Still channels last in memory, which is faster for convolutions on a CPU.
            return ((x - self._mean) / self._std).permute(0, 3, 1, 2)
        if kind == "tabular":
            x = torch.from_numpy(inputs).float()
            return (x - self._mean) / self._std
        if isinstance(inputs, Tokens):
            ids, lengths = (torch.from_numpy(x) for x in (inputs.ids, inputs.lengths))
            return ids.long(), lengths.long()
        return TreeBatch.of(inputs)


def fingerprint(dataset: Dataset) -> str:
    """Return a short name of the training examples: another order or choice has another name."""
    digest = hashlib.sha256(dataset.train.labels.tobytes())
    inputs = dataset.train.inputs
    if isinstance(inputs, np.ndarray):
        digest.update(np.ascontiguousarray(inputs[:: max(1, len(inputs) // 1000)]).tobytes())
    return digest.hexdigest()[:12]


def _take(split: Split, rows: NDArray[np.int64]) -> Any:
    if isinstance(split.inputs, (np.ndarray, Tokens)):
        return split.inputs[rows]
    return [split.inputs[i] for i in rows]


def _standard(dataset: Dataset) -> tuple[Tensor, Tensor]:
    inputs = np.asarray(dataset.train.inputs)
    axes = tuple(range(inputs.ndim - 1))
    # By the counts of the 256 values, images need no copy in floating point.
    if inputs.dtype == np.uint8:
        counts = np.stack(
            [np.bincount(c.ravel(), minlength=256) for c in np.moveaxis(inputs, -1, 0)]
        )
        share = counts / counts.sum(axis=1, keepdims=True)
        mean = share @ np.arange(256.0)
        std = np.sqrt(np.maximum(share @ np.arange(256.0) ** 2 - mean**2, 0.0))
    else:
        mean = inputs.mean(axis=axes, dtype=np.float64)
        std = inputs.std(axis=axes, dtype=np.float64)
    std = np.where(std > 1e-6 * np.maximum(np.abs(mean), 1e-30), std, 1.0)  # constant columns
    return torch.tensor(mean, dtype=torch.float32), torch.tensor(std, dtype=torch.float32)


def _moved(
    images: NDArray[np.uint8], changes: NDArray[np.int64], augmentation: Augmentation
) -> NDArray[np.uint8]:
    """Return images ``[N, H, W, C]`` cropped from a black frame and mirrored, in one gather."""
    n, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    down, right, flip = changes.T
    if "crop" not in augmentation:
        down, right = np.full((2, n), PAD)
    rows = down[:, None] + np.arange(height)
    columns = np.broadcast_to(np.arange(width), (n, width))
    if "flip" in augmentation:
        columns = np.where(flip[:, None] == 1, columns[:, ::-1], columns)
    columns = right[:, None] + columns
    moved: NDArray[np.uint8]
    moved = padded[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return moved
