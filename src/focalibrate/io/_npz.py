"""The `.npz` format: named arrays in a zip archive."""

import lzma
import zipfile
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import fault
from focalibrate.io._keys import choose_labels, choose_scores
from focalibrate.io._npy import read_array
from focalibrate.io._table import Progress, Request, Table

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,  # encrypted members, and NotImplementedError for unknown compression
    OverflowError,
    UnicodeDecodeError,
)
"""What `zipfile` raises on a damaged archive."""


def read_npz(request: Request, progress: Progress) -> Table:
    """Read scores, labels and ``class_names`` by their keys, each decompressed once."""
    path = request.path
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic.startswith(b"PK"):
        raise fault(
            path,
            f"is not an .npz file: it begins with {magic!r}, not with the mark of a zip archive. "
            "If it was copied, copy it again; else write it with np.savez.",
        )
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_members(archive, request, progress)
    except DAMAGE as error:
        raise fault(
            path,
            f"is truncated or damaged ({error}). Copy it again, or write it again with np.savez.",
        ) from error


def _read_members(archive: zipfile.ZipFile, request: Request, progress: Progress) -> Table:
    names = [info.filename.removesuffix(".npy") for info in archive.infolist()]
    scores_key, kind = choose_scores(names, request)
    labels_key = choose_labels(names, request)

    def member(key: str, progress: Progress) -> NDArray[Any]:
        stored = key if key in archive.namelist() else f"{key}.npy"
        info = archive.getinfo(stored)
        with archive.open(info) as file:
            return read_array(file, info.file_size, path=request.path, name=key, progress=progress)

    return Table(
        scores=member(scores_key, progress),
        kind=kind,
        scores_name=scores_key,
        labels=None if labels_key is None else member(labels_key, _silent),
        labels_name=labels_key or "labels",
        class_names=_names(member("class_names", _silent), request)
        if "class_names" in names
        else None,
    )


def _silent(done: int, total: int) -> None:
    """Report nothing: labels and names are small beside the scores."""


def _names(array: NDArray[Any], request: Request) -> tuple[str, ...]:
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8")
    if array.ndim != 1 or array.dtype.kind != "U":
        raise fault(
            request.path,
            f"`class_names` must be a row of text, got dtype {array.dtype} and shape "
            f"{array.shape}. Save it as `np.array(['cat', 'dog'])`.",
        )
    return tuple(array.tolist())
