"""CIFAR-10 and CIFAR-100."""

from functools import partial
from pathlib import Path

import numpy as np

from focalibrate_papers.datasets._error import DataSetError
from focalibrate_papers.datasets._files import (
    check_balanced,
    check_count,
    check_labels,
    find,
    need,
    read_bytes,
    read_text,
)
from focalibrate_papers.datasets._images import Pair, image_set
from focalibrate_papers.datasets._source import DatasetSource
from focalibrate_papers.datasets._split import thinned
from focalibrate_papers.datasets.dataset import Dataset

CLASSES_10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
N_TRAIN, N_TEST = 50_000, 10_000
PIXELS = 3 * 32 * 32
HELD_OUT = 0.1
"""45,000 to train, 5,000 to validate, as in papers 000, 002 and 003."""
SMALL = 0.1
"""CIFAR-10-s of paper 000: a tenth of the training images."""

URL = "https://www.cs.toronto.edu/~kriz/cifar.html"
LICENCE = "none stated; the authors ask to cite Krizhevsky (2009)"
ADVICE_10 = (
    f"Download cifar-10-binary.tar.gz from {URL} and unpack it there: the folder "
    "cifar-10-batches-bin holds data_batch_1.bin to data_batch_5.bin and test_batch.bin."
)
ADVICE_100 = (
    f"Download cifar-100-binary.tar.gz from {URL} and unpack it there: the folder "
    "cifar-100-binary holds train.bin, test.bin and fine_label_names.txt."
)


def read_binary(path: Path, *, label_bytes: int, n_classes: int) -> Pair:
    """Read records of labels and 3x32x32 pixels; the last label byte is the class."""
    content = np.frombuffer(read_bytes(path), dtype=np.uint8)
    size = label_bytes + PIXELS
    if not content.size or content.size % size:
        raise DataSetError(
            f"{path}: must be records of {size} bytes, found {content.size} bytes. Copy it again."
        )
    records = content.reshape(-1, size)
    labels = check_labels(path, records[:, label_bytes - 1].astype(np.int64), n_classes)
    planes = records[:, label_bytes:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def _read_batches(folder: Path) -> tuple[Pair, Pair]:
    parts = []
    for i in range(1, 6):
        batch = need(folder, [f"data_batch_{i}.bin"], advice=ADVICE_10)
        parts.append(read_binary(batch, label_bytes=1, n_classes=10))
    train = (np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
    test = need(folder, ["test_batch.bin"], advice=ADVICE_10)
    return train, read_binary(test, label_bytes=1, n_classes=10)


def _read_cifar10(name: str, share: float, root: Path | None, seed: int) -> Dataset:
    folder = need(root, ["cifar-10-batches-bin"], advice=ADVICE_10)
    train, test = _read_batches(folder)
    check_count(folder, "training images", len(train[1]), N_TRAIN)
    check_count(folder, "test images", len(test[1]), N_TEST)
    for _, labels in (train, test):
        check_balanced(folder, labels, len(CLASSES_10))
    if share < 1:
        kept = thinned(train[1], fraction=share, seed=[seed, 3])
        train = (train[0][kept], train[1][kept])
    return image_set(name, train, test, CLASSES_10, held_out=HELD_OUT, seed=seed)


def _read_cifar100(root: Path | None, seed: int) -> Dataset:
    folder = need(root, ["cifar-100-binary"], advice=ADVICE_100)
    pairs = []
    for stem, n in (("train", N_TRAIN), ("test", N_TEST)):
        path = need(folder, [f"{stem}.bin"], advice=ADVICE_100)
        pair = read_binary(path, label_bytes=2, n_classes=100)
        check_count(path, "images", len(pair[1]), n)
        check_balanced(path, pair[1], 100)
        pairs.append(pair)
    listed = find(folder, ["fine_label_names.txt"])
    names = tuple(read_text(listed).split()) if listed else _numbered(100)
    return image_set("cifar100", pairs[0], pairs[1], names, held_out=HELD_OUT, seed=seed)


def _numbered(n_classes: int) -> tuple[str, ...]:
    return tuple(str(k) for k in range(n_classes))


# As printed on the authors' page.
CHECKSUM_10 = {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"}
CHECKSUM_100 = {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"}

CIFAR: dict[str, DatasetSource] = {
    name: DatasetSource("image", read, advice, URL, LICENCE, checksums)
    for name, read, advice, checksums in (
        ("cifar10", partial(_read_cifar10, "cifar10", 1.0), ADVICE_10, CHECKSUM_10),
        ("cifar10_s", partial(_read_cifar10, "cifar10_s", SMALL), ADVICE_10, CHECKSUM_10),
        ("cifar100", _read_cifar100, ADVICE_100, CHECKSUM_100),
    )
}
