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

from focalibrate.io._error import file_error, short
from focalibrate.io._output import Output, as_numbers, output_of
from focalibrate.io.predictions import Predictions

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


def write_npy(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write the probabilities only, block by block.

    Not through a memory map: a full disk would kill the process instead of raising.
    """
    output = output_of(like, is_table=False)
    with path.open("wb") as file:
        file.write(_npy_header(_shape(like, output), like.scores.dtype))
        for block in blocks:
            file.write(np.ascontiguousarray(output.columns(block)).data)


def write_npz(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write ``probs``, ``class_names`` and the other arrays, uncompressed as `np.savez` does."""
    output = output_of(like, is_table=False)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open(_member("probs"), "w", force_zip64=True) as file:
            file.write(_npy_header(_shape(like, output), like.scores.dtype))
            for block in blocks:
                file.write(np.ascontiguousarray(output.columns(block)).data)
        for name, value in output.kept:
            archive.writestr(_member(name), _npy_bytes(as_array(value)))
        if output.class_names is not None and like.layout.form != "single":
            names = np.array(output.class_names, dtype=np.str_)
            archive.writestr(_member("class_names"), _npy_bytes(names))


def write_safetensors(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write ``probs`` and the other numbers, and ``class_names`` as JSON in the metadata.

    The format has no text: other columns of text are left out, and labels that are names are
    written as positions.
    """
    output = output_of(like, is_table=False)
    shape = _shape(like, output)
    stop = int(np.prod(shape)) * like.scores.dtype.itemsize
    header: dict[str, object] = {
        "probs": {
            "dtype": TENSOR_NAMES[like.scores.dtype.name],
            "shape": list(shape),
            "data_offsets": [0, stop],
        }
    }
    tensors = []
    for name, value in output.kept:
        array = _tensor_array(name, value, like)
        if array is None:
            continue
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
        for block in blocks:
            cells = np.ascontiguousarray(output.columns(block))
            file.write(cells.astype(cells.dtype.newbyteorder("<"), copy=False).data)
        for array in tensors:
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).data)


def write_torch(path: Path, blocks: Iterator[NDArray[Any]], like: Predictions) -> None:
    """Write a dictionary of tensors: ``probs``, the other numbers, ``class_names`` as a list."""
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise file_error(
            path, "writing .pt needs torch. Install it: `pip install 'focalibrate[torch]'`."
        ) from error
    output = output_of(like, is_table=False)
    stored = {"probs": torch.from_numpy(np.concatenate([output.columns(b) for b in blocks]))}
    for name, value in output.kept:
        array = _tensor_array(name, value, like)
        if array is not None:
            stored[name] = torch.from_numpy(np.array(array))
    if output.class_names is not None:
        stored["class_names"] = list(output.class_names)
    torch.save(stored, path)


def as_array(value: Any) -> NDArray[Any]:
    """Return the values of a kept column as an array of numbers or of text."""
    array = (
        as_numbers(value) if isinstance(value, list) and _all_text(value) else np.asarray(value)
    )
    if array.dtype.kind == "O":
        array = np.array(["" if v is None else str(v) for v in array.tolist()], dtype=np.str_)
    return array


def _all_text(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _tensor_array(name: str, value: Any, like: Predictions) -> NDArray[Any] | None:
    array = np.ascontiguousarray(as_array(value))
    if name == like.layout.label_column and array.dtype.kind == "U" and like.labels is not None:
        return like.labels
    return array if array.dtype.name in TENSOR_NAMES else None


def _shape(like: Predictions, output: Output) -> tuple[int, ...]:
    return (like.n_rows, len(output.names)) if len(output.names) > 1 else (like.n_rows,)


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
