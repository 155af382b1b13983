"""Street View House Numbers, cropped digits."""

from pathlib import Path

import numpy as np

from focalibrate.datasets._error import DataSetError
from focalibrate.datasets._files import check_count, check_labels, need
from focalibrate.datasets._images import Pair, image_set
from focalibrate.datasets._source import DatasetSource
from focalibrate.datasets.dataset import Dataset

DIGITS = tuple("0123456789")
COUNTS = {"train": 73_257, "test": 26_032}
HELD_OUT = 0.1
URL = "http://ufldl.stanford.edu/housenumbers"
LICENCE = "non-commercial use only"
ADVICE = (
    "Download train_32x32.mat and test_32x32.mat (format 2, cropped digits) from "
    f"{URL} into the folder svhn there."
)


def read_mat(path: Path) -> Pair:
    """Read images and labels of one .mat file; its label 10 is the digit 0."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path, variable_names=["X", "y"])
    except (MatReadError, ValueError, TypeError, OSError, NotImplementedError) as error:
        raise DataSetError(f"{path}: is not a MATLAB 5 file ({error}). Copy it again.") from error
    absent = [key for key in ("X", "y") if key not in content]
    if absent:
        raise DataSetError(f"{path}: has no array {absent[0]!r}.")
    images, labels = content["X"], content["y"].ravel().astype(np.int64)
    if images.ndim != 4 or images.shape[:3] != (32, 32, 3) or images.shape[3] != len(labels):
        raise DataSetError(
            f"{path}: X must be [32, 32, 3, N] with N = {len(labels)} labels, found "
            f"{list(images.shape)}."
        )
    labels = check_labels(path, np.where(labels == 10, 0, labels), 10)
    return np.ascontiguousarray(images.transpose(3, 0, 1, 2).astype(np.uint8, copy=False)), labels


def _read(root: Path | None, seed: int) -> Dataset:
    pairs = []
    for stem, count in COUNTS.items():
        file = f"{stem}_32x32.mat"
        path = need(root, [f"svhn/{file}", f"SVHN/{file}", file], advice=ADVICE)
        pair = read_mat(path)
        check_count(path, "images", len(pair[1]), count)
        pairs.append(pair)
    return image_set("svhn", pairs[0], pairs[1], DIGITS, held_out=HELD_OUT, seed=seed)


CHECKSUMS = {  # as torchvision checks them
    "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
}
SVHN: dict[str, DatasetSource] = {
    "svhn": DatasetSource("image", _read, ADVICE, URL, LICENCE, CHECKSUMS)
}
