"""CIFAR-10."""

from functools import partial
from pathlib import Path

import numpy as np

from focalibrate_papers.datasets._files import (
    check_balanced,
    check_count,
    check_labels,
    need,
    read_bytes,
)
from focalibrate_papers.datasets._images import Pair, image_set
from focalibrate_papers.datasets._split import thinned
from focalibrate_papers.datasets.dataset import Dataset, DataSetError, DatasetSource

CLASSES = (
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
ADVICE = (
    f"Download cifar-10-binary.tar.gz from {URL} and unpack it there: the folder "
    "cifar-10-batches-bin holds data_batch_1.bin to data_batch_5.bin and test_batch.bin."
)


def read_binary(path: Path) -> Pair:
    """Read records of a label and 3x32x32 pixels."""
    content = np.frombuffer(read_bytes(path), dtype=np.uint8)
    size = 1 + PIXELS
    if not content.size or content.size % size:
        raise DataSetError(
            f"{path}: must be records of {size} bytes, found {content.size} bytes. Copy it again."
        )
    records = content.reshape(-1, size)
    labels = check_labels(path, records[:, 0].astype(np.int64), len(CLASSES))
    planes = records[:, 1:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def _read_batches(folder: Path) -> tuple[Pair, Pair]:
    parts = []
    for i in range(1, 6):
        batch = need(folder, [f"data_batch_{i}.bin"], advice=ADVICE)
        parts.append(read_binary(batch))
    train = (np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts]))
    test = need(folder, ["test_batch.bin"], advice=ADVICE)
    return train, read_binary(test)


def _read(name: str, share: float, root: Path | None, seed: int) -> Dataset:
    folder = need(root, ["cifar-10-batches-bin"], advice=ADVICE)
    train, test = _read_batches(folder)
    check_count(folder, "training images", len(train[1]), N_TRAIN)
    check_count(folder, "test images", len(test[1]), N_TEST)
    for _, labels in (train, test):
        check_balanced(folder, labels, len(CLASSES))
    if share < 1:
        kept = thinned(train[1], fraction=share, seed=[seed, 3])
        train = (train[0][kept], train[1][kept])
    return image_set(name, train, test, CLASSES, held_out=HELD_OUT, seed=seed)


CHECKSUMS = {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"}
"""As printed on the authors' page."""

CIFAR: dict[str, DatasetSource] = {
    name: DatasetSource("image", partial(_read, name, share), ADVICE, URL, LICENCE, CHECKSUMS)
    for name, share in (("cifar10", 1.0), ("cifar10_s", SMALL))
}
