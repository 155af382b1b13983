"""MNIST and Fashion-MNIST, in IDX files."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.datasets._error import DataSetError
from focalibrate.datasets._files import (
    check_count,
    check_labels,
    find,
    need,
    read_arrays,
    read_bytes,
)
from focalibrate.datasets._images import Pair, image_set
from focalibrate.datasets._source import Source
from focalibrate.datasets.dataset import Dataset

DIGITS = tuple("0123456789")
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
COUNTS = {"train": 60_000, "t10k": 10_000}
HELD_OUT = 1 / 6
"""50,000 to train, 10,000 to validate."""
UNSIGNED_BYTE = 0x08


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes: mark, number of axes, their lengths, the bytes."""
    content = read_bytes(path)
    if len(content) < 4 or content[:3] != bytes([0, 0, UNSIGNED_BYTE]):
        raise DataSetError(
            f"{path}: is not an IDX file of unsigned bytes: it begins with {content[:4]!r}."
        )
    n_axes = content[3]
    start = 4 + 4 * n_axes
    shape = tuple(int(n) for n in np.frombuffer(content[4:start], dtype=">u4"))
    found = len(content) - start
    wanted = int(np.prod(shape, dtype=np.int64))
    if len(shape) != n_axes or found != wanted:
        raise DataSetError(
            f"{path}: its header says {wanted} bytes of shape {shape}, found {found}. "
            "Copy it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _read_pair(folder: Path, stem: str, *, advice: str) -> Pair:
    images_path = need(folder, _spellings(f"{stem}-images", 3), advice=advice)
    labels_path = need(folder, _spellings(f"{stem}-labels", 1), advice=advice)
    images, labels = read_idx(images_path), read_idx(labels_path)
    check_count(images_path, "images", len(images), COUNTS[stem])
    check_count(labels_path, "labels", len(labels), COUNTS[stem])
    return images, check_labels(labels_path, labels.astype(np.int64), 10)


def _spellings(stem: str, n_axes: int) -> list[str]:
    # Unpacking by hand often turns the dash of "-idx3" into a dot.
    return [f"{stem}-idx{n_axes}-ubyte", f"{stem}.idx{n_axes}-ubyte"]


def _read(
    name: str, folders: tuple[str, ...], classes: tuple[str, ...], advice: str,
    root: Path | None, seed: int,
) -> Dataset:  # fmt: skip
    found = find(root, [*folders, f"{name}.npz"])
    if found is not None and found.suffix == ".npz":
        x, y, x_test, y_test = read_arrays(found, ("x_train", "y_train", "x_test", "y_test"))
        train, test = _checked(found, x, y, "train"), _checked(found, x_test, y_test, "t10k")
    else:
        folder = found if found is not None else need(root, [folders[0]], advice=advice)
        train = _read_pair(folder, "train", advice=advice)
        test = _read_pair(folder, "t10k", advice=advice)
    return image_set(name, train, test, classes, held_out=HELD_OUT, seed=seed)


def _checked(path: Path, images: NDArray[Any], labels: NDArray[Any], stem: str) -> Pair:
    check_count(path, "images", len(images), COUNTS[stem])
    return images, check_labels(path, labels.astype(np.int64), 10)


def _advice(site: str, folder: str) -> str:
    return (
        f"Download train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, "
        f"t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz from {site} into the folder "
        f"{folder} there, packed or not."
    )


_MNIST = _advice("http://yann.lecun.com/exdb/mnist (or a mirror)", "mnist")
_FASHION = _advice("https://github.com/zalandoresearch/fashion-mnist", "fashion-mnist")

MNIST_FAMILY: dict[str, Source] = {
    "mnist": Source(
        "image", partial(_read, "mnist", ("mnist", "MNIST/raw"), DIGITS, _MNIST), _MNIST
    ),
    "fashion_mnist": Source(
        "image",
        partial(
            _read,
            "fashion_mnist",
            ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw"),
            CLOTHES,
            _FASHION,
        ),
        _FASHION,
    ),
}
