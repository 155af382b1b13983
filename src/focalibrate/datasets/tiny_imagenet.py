"""TinyImageNet: 200 classes of 64x64 JPEG images in folders."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from focalibrate.datasets._error import DataSetError
from focalibrate.datasets._files import check_count, need
from focalibrate.datasets._images import Pair, image_set
from focalibrate.datasets._source import DatasetSource
from focalibrate.datasets.dataset import Dataset

N_CLASSES, N_TRAIN, N_TEST = 200, 100_000, 10_000
HELD_OUT = 0.1
SIZE = 64
URL = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
LICENCE = "ImageNet's terms of access: non-commercial research and education"
ADVICE = (
    f"Download tiny-imagenet-200.zip from {URL} and "
    "unpack it there: the folder tiny-imagenet-200 holds wnids.txt, train and val."
)


def read_image(path: Path) -> NDArray[np.uint8]:
    """Return one image as uint8 ``[64, 64, 3]``; grey ones get three equal channels."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise DataSetError(
            "JPEG images need Pillow, which is not installed: pip install pillow."
        ) from error
    try:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (UnidentifiedImageError, OSError) as error:
        raise DataSetError(f"{path}: is not a readable image ({error}). Copy it again.") from error
    if pixels.shape != (SIZE, SIZE, 3):
        raise DataSetError(f"{path}: must be {SIZE}x{SIZE}, found {pixels.shape[:2]}.")
    return pixels


def _stacked(listed: list[tuple[Path, int]]) -> Pair:
    images = np.empty((len(listed), SIZE, SIZE, 3), dtype=np.uint8)
    for i, (path, _) in enumerate(listed):
        images[i] = read_image(path)
    return images, np.array([label for _, label in listed], dtype=np.int64)


def _read(root: Path | None, seed: int) -> Dataset:
    folder = need(root, ["tiny-imagenet-200"], advice=ADVICE)
    ids = need(folder, ["wnids.txt"], advice=ADVICE).read_text().split()
    check_count(folder / "wnids.txt", "classes", len(ids), N_CLASSES)
    number = {name: k for k, name in enumerate(ids)}
    train = [
        (path, number[name])
        for name in ids
        for path in sorted((folder / "train" / name / "images").glob("*.JPEG"))
    ]
    check_count(folder / "train", "images", len(train), N_TRAIN)
    # The labels of the official test images are not public: the papers report on val.
    annotations = need(folder / "val", ["val_annotations.txt"], advice=ADVICE)
    rows = [line.split("\t") for line in annotations.read_text().splitlines() if line]
    test = [(folder / "val" / "images" / row[0], number[row[1]]) for row in rows]
    check_count(annotations, "images", len(test), N_TEST)
    return image_set(
        "tiny_imagenet", _stacked(train), _stacked(test), tuple(ids), held_out=HELD_OUT, seed=seed
    )


CHECKSUMS = {"tiny-imagenet-200.zip": "md5:90528d7ca1a48142e341f4ef8d21d0de"}
TINY_IMAGENET: dict[str, DatasetSource] = {
    "tiny_imagenet": DatasetSource("image", _read, ADVICE, URL, LICENCE, CHECKSUMS)
}
