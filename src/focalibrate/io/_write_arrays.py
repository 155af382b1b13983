"""Writing probabilities as arrays: `.npy`, `.npz`, `.safetensors`."""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io.predictions import Predictions

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time stamp of every zip member: equal content makes equal bytes."""

ALIGNMENT = 8
"""The data of a .safetensors file begins at a multiple of this."""

TENSOR_NAMES = {"float32": "F32", "float64": "F64"}


def write_npy(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write the probabilities alone, one after another.

    Not through a memory map: on a full disk that kills the process instead of raising.
    """
    with path.open("wb") as file:
        file.write(_npy_header(like.scores.shape, like.scores.dtype))
        for block in blocks:
            file.write(block.data)


def write_npz(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write ``probs``, ``labels`` and ``class_names``, uncompressed as `np.savez` does."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open(_member("probs"), "w", force_zip64=True) as file:
            file.write(_npy_header(like.scores.shape, like.scores.dtype))
            for block in blocks:
                file.write(block.data)
        if like.labels is not None:
            archive.writestr(_member("labels"), _npy_bytes(like.labels))
        if like.class_names is not None:
            names = np.array(like.class_names, dtype=np.str_)
            archive.writestr(_member("class_names"), _npy_bytes(names))


def write_safetensors(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write ``probs`` and ``labels``, and ``class_names`` as a JSON list in the metadata."""
    stop = like.scores.size * like.scores.dtype.itemsize
    header: dict[str, object] = {
        "probs": {
            "dtype": TENSOR_NAMES[like.scores.dtype.name],
            "shape": list(like.scores.shape),
            "data_offsets": [0, stop],
        }
    }
    if like.labels is not None:
        header["labels"] = {
            "dtype": "I64",
            "shape": [like.n_rows],
            "data_offsets": [stop, stop + 8 * like.n_rows],
        }
    if like.class_names is not None:
        header["__metadata__"] = {"class_names": json.dumps(like.class_names)}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for block in blocks:
            file.write(block.astype(block.dtype.newbyteorder("<"), copy=False).data)
        if like.labels is not None:
            file.write(like.labels.astype("<i8", copy=False).data)


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy", date_time=EPOCH)


def _npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    buffer = io.BytesIO()
    npy_format.write_array_header_1_0(
        buffer,
        {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape},
    )
    return buffer.getvalue()


def _npy_bytes(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    npy_format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()
