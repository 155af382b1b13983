"""Finding and opening the files of a data set."""

import gzip
import lzma
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate_papers.datasets.dataset import DataSetError

VARIABLE = "FOCALIBRATE_DATA"
"""Environment variable that names the folder of data sets."""

FOLDERS = ("", "images", "text", "tabular")
PACKED = ("", ".gz", ".xz")
DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, gzip.BadGzipFile)


def root_of(data: str | Path | None) -> Path | None:
    """Return the folder of data sets: the argument, else the variable's, else None."""
    named = data or os.environ.get(VARIABLE)
    if not named:
        return None
    root = Path(named)
    if not root.is_dir():
        raise DataSetError(
            f"{root}: is not a folder. Name the folder that holds the data sets by `data` "
            f"(command line: --data) or by {VARIABLE}."
        )
    return root


def find(root: Path | None, names: Sequence[str]) -> Path | None:
    """Return the first of `names` in `root` or in its folder by kind, packed or not."""
    if root is None:
        return None
    for name in names:
        for folder in FOLDERS:
            for suffix in PACKED:
                path = root / folder / f"{name}{suffix}"
                if path.exists():
                    return path
    return None


def need(root: Path | None, names: Sequence[str], *, advice: str) -> Path:
    """Return the first of `names` that exists, or raise and say what to download where."""
    found = find(root, names)
    if found is not None:
        return found
    where = (
        f"there is no {' or '.join(names)} in {root}."
        if root is not None
        else "no folder of data sets is named."
    )
    raise DataSetError(
        f"{where} {advice} Name the folder by `data` (command line: --data) or by "
        f"{VARIABLE}. Nothing is downloaded for you."
    )


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked where its name ends in .gz or .xz."""
    try:
        if path.suffix == ".gz":
            return gzip.decompress(path.read_bytes())
        if path.suffix == ".xz":
            return lzma.decompress(path.read_bytes())
        return path.read_bytes()
    except DAMAGE as error:
        raise DataSetError(f"{path}: is truncated or damaged ({error}). Copy it again.") from error


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the content of a text file, unpacked where its name ends in .gz or .xz."""
    try:
        return read_bytes(path).decode(encoding)
    except UnicodeDecodeError as error:
        raise DataSetError(f"{path}: is not {encoding} text ({error}).") from error


def read_arrays(path: Path, keys: Sequence[str]) -> tuple[NDArray[Any], ...]:
    """Return the named arrays of an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            absent = [key for key in keys if key not in archive.files]
            if absent:
                raise DataSetError(
                    f"{path}: has no array {absent[0]!r}; it has {', '.join(archive.files)}."
                )
            return tuple(archive[key] for key in keys)
    except DataSetError:
        raise
    except (*DAMAGE, ValueError, OSError) as error:
        raise DataSetError(f"{path}: is truncated or damaged ({error}). Copy it again.") from error


def check_count(path: Path, what: str, found: int, wanted: int | Sequence[int]) -> None:
    """Raise unless there are as many as the distributed files have."""
    allowed = [wanted] if isinstance(wanted, int) else list(wanted)
    if found not in allowed:
        counts = " or ".join(str(count) for count in allowed)
        raise DataSetError(
            f"{path}: must hold {counts} {what}, found {found}. The copy is incomplete or of "
            "another version: get it again."
        )


def check_balanced(path: Path, labels: NDArray[np.int64], n_classes: int) -> None:
    """Raise unless all classes have the same number of examples, as a check of the copy."""
    counts = np.bincount(labels, minlength=n_classes)
    odd = np.flatnonzero(counts * n_classes != len(labels))
    if odd.size:
        raise DataSetError(
            f"{path}: must hold {len(labels) / n_classes:g} images of each class, found "
            f"{counts[odd[0]]} of class {odd[0]}. The copy is damaged: get it again."
        )


def check_labels(path: Path, labels: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """Return the labels as int64; raise if one is not a class."""
    bad = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if bad.size:
        raise DataSetError(
            f"{path}: labels must be in 0..{n_classes - 1}, found {labels[bad[0]]} in record "
            f"{bad[0]}."
        )
    return labels.astype(np.int64)
