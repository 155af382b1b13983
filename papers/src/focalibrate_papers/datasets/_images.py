"""Image sets: training images, of which some are held out, and test images."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate_papers.datasets._split import split_sizes, take
from focalibrate_papers.datasets.dataset import Dataset, Split

Pair = tuple[NDArray[np.uint8], NDArray[np.int64]]


def with_channels(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Return grey images ``[N, height, width]`` as ``[N, height, width, 1]``."""
    return images[..., None] if images.ndim == 3 else images


def image_set(
    name: str, train: Pair, test: Pair, class_names: tuple[str, ...], *, held_out: float, seed: int
) -> Dataset:
    """Return the set with a share `held_out` of the training images as validation, stratified."""
    images = Split(with_channels(train[0]), train[1])
    n_held_out = round(held_out * len(images))
    rows = split_sizes(images.labels, [len(images) - n_held_out, n_held_out], seed=[seed, 0])
    return Dataset(
        name,
        take(images, rows[0]),
        take(images, rows[1]),
        Split(with_channels(test[0]), test[1]),
        len(class_names),
        class_names,
        "image",
    )
