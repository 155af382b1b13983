"""Fashion-MNIST, in IDX files."""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from focalibrate_papers.datasets._files import check_count, check_labels, need, read_bytes
from focalibrate_papers.datasets._images import Pair, image_set
from focalibrate_papers.datasets.dataset import Dataset, DataSetError, DatasetSource

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
    folder = need(root, folders, advice=advice)
    train = _read_pair(folder, "train", advice=advice)
    test = _read_pair(folder, "t10k", advice=advice)
    return image_set(name, train, test, classes, held_out=HELD_OUT, seed=seed)


FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)


def _source(
    name: str,
    folders: tuple[str, ...],
    classes: tuple[str, ...],
    *,
    url: str,
    licence: str,
    md5: tuple[str, ...],
) -> DatasetSource:
    advice = (
        f"Download {', '.join(FILES[:-1])} and {FILES[-1]} from {url} into the folder "
        f"{folders[0]} there, packed or not."
    )
    checksums = {file: f"md5:{digest}" for file, digest in zip(FILES, md5, strict=True)}
    read = partial(_read, name, folders, classes, advice)
    return DatasetSource("image", read, advice, url, licence, checksums)


MNIST_FAMILY: dict[str, DatasetSource] = {
    "fashion_mnist": _source(
        "fashion_mnist",
        ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw"),
        CLOTHES,
        url="https://github.com/zalandoresearch/fashion-mnist",
        licence="MIT",
        md5=(  # as printed on the authors' page
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    )
}
