"""Writing probabilities as arrays: `.npy`, `.npz`, `.safetensors`, `.pt`."""

import io
import json
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io.errors import file_error, short
from focalibrate.io.write.rows import Output, Rows, as_array

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time stamp of every zip member, so that equal content gives equal bytes."""

ALIGNMENT = 8
"""The data of a .safetensors file begins at a multiple of this."""

TENSOR_NAMES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}


def write_npy(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write the probabilities only, block by block.

    Not through a memory map: a full disk would kill the process instead of raising.
    """
    with path.open("wb") as file:
        file.write(_npy_header(_shape(output), output.like.scores.dtype))
        for some in rows:
            file.write(np.ascontiguousarray(some.probs).data)


def write_npz(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write ``probs``, ``class_names`` and the other arrays, uncompressed as `np.savez` does."""
    kept: list[Any] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open(_member("probs"), "w", force_zip64=True) as file:
            file.write(_npy_header(_shape(output), output.like.scores.dtype))
            for some in rows:
                kept.append(some.kept)
                file.write(np.ascontiguousarray(some.probs).data)
        for name, array in _arrays(kept, output):
            archive.writestr(_member(name), _npy_bytes(array))
        if output.class_names is not None and output.like.layout.form != "single":
            names = np.array(output.class_names, dtype=np.str_)
            archive.writestr(_member("class_names"), _npy_bytes(names))


def write_safetensors(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write ``probs`` and the other numbers, and ``class_names`` as JSON in the metadata.

    The format has no text: other columns of text are left out, and labels that are names are
    written as positions.
    """
    found = list(rows)
    shape, dtype = _shape(output), output.like.scores.dtype
    stop = int(np.prod(shape)) * dtype.itemsize
    header: dict[str, object] = {
        "probs": {
            "dtype": TENSOR_NAMES[dtype.name],
            "shape": list(shape),
            "data_offsets": [0, stop],
        }
    }
    tensors = []
    for name, array in _tensors([some.kept for some in found], output):
        header[name] = {
            "dtype": TENSOR_NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [stop, stop + array.nbytes],
        }
        stop += array.nbytes
        tensors.append(array)
    if output.class_names is not None:
        header["__metadata__"] = {"class_names": json.dumps(output.class_names)}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for array in [*(np.ascontiguousarray(some.probs) for some in found), *tensors]:
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).data)


def write_torch(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write a dictionary of tensors: ``probs``, the other numbers, ``class_names`` as a list."""
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise file_error(
            path, "writing .pt needs torch. Install it: `pip install torch`."
        ) from error
    found = list(rows)
    stored = {"probs": torch.from_numpy(np.concatenate([some.probs for some in found]))}
    for name, array in _tensors([some.kept for some in found], output):
        stored[name] = torch.from_numpy(np.array(array))
    if output.class_names is not None:
        stored["class_names"] = list(output.class_names)
    torch.save(stored, path)


def _arrays(kept: list[Any], output: Output) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the other columns of all rows, and the arrays that have no entry per row."""
    for i, name in enumerate(kept[0].column_names):
        yield name, np.concatenate([as_array(table.column(i)) for table in kept])
    for name, array in output.like.layout.constants().items():
        while name in ("probs", "class_names", *kept[0].column_names):
            name = f"uncalibrated_{name}"
        yield name, array


def _tensors(kept: list[Any], output: Output) -> Iterator[tuple[str, NDArray[Any]]]:
    like = output.like
    for name, array in _arrays(kept, output):
        if (
            name == like.layout.label_column
            and array.dtype.kind == "U"
            and like.labels is not None
        ):
            yield name, like.labels
        elif array.dtype.name in TENSOR_NAMES:
            yield name, np.ascontiguousarray(array)


def _shape(output: Output) -> tuple[int, ...]:
    n, width = output.like.n_rows, len(output.names)
    return (n, width) if width > 1 else (n,)


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
    try:
        npy_format.write_array(buffer, array, allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"array of dtype {short(array.dtype)} cannot be written") from error
    return buffer.getvalue()
