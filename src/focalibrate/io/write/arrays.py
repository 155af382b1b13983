"""Writing probabilities as arrays: `.npy`, `.npz`, `.safetensors`, `.pt`."""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io.errors import file_error, short
from focalibrate.io.formats.arrays import DTYPES
from focalibrate.io.write.rows import Output, Rows

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time stamp of every zip member, so that equal content gives equal bytes."""

ALIGNMENT = 8
"""The data of a .safetensors file begins at a multiple of this."""

TENSOR_NAMES = {np.dtype(code).name: name for name, code in DTYPES.items() if name != "BF16"}


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
    header: dict[str, object] = {}
    tensors, stop = _tensors(list(rows), output), 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": TENSOR_NAMES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [stop, stop + array.nbytes],
        }
        stop += array.nbytes
    if output.class_names is not None:
        header["__metadata__"] = {"class_names": json.dumps(output.class_names)}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for array in tensors.values():
            file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).data)


def write_torch(path: Path, rows: Iterator[Rows], output: Output) -> None:
    """Write a dictionary of tensors: ``probs``, the other numbers, ``class_names`` as a list."""
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise file_error(
            path, "writing .pt needs torch. Install it: `pip install torch`."
        ) from error
    tensors = _tensors(list(rows), output)
    stored = {name: torch.from_numpy(np.array(array)) for name, array in tensors.items()}
    if output.class_names is not None:
        stored["class_names"] = list(output.class_names)
    torch.save(stored, path)


def _arrays(kept: Sequence[Any], output: Output) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the other columns of all rows, and the arrays that have no entry per row."""
    for i, name in enumerate(kept[0].column_names):
        yield name, np.concatenate([_as_array(table.column(i)) for table in kept])
    for name, array in output.like.layout.constants().items():
        while name in ("probs", "class_names", *kept[0].column_names):
            name = f"uncalibrated_{name}"
        yield name, array


def _tensors(rows: Sequence[Rows], output: Output) -> dict[str, NDArray[Any]]:
    """Return the probabilities of all rows, and the other arrays of numbers."""
    found = {"probs": np.concatenate([some.probs for some in rows]).reshape(_shape(output))}
    labels, label_column = output.like.labels, output.like.layout.label_column
    for name, array in _arrays([some.kept for some in rows], output):
        if name == label_column and array.dtype.kind == "U" and labels is not None:
            found[name] = labels
        elif array.dtype.name in TENSOR_NAMES:
            found[name] = np.ascontiguousarray(array)
    return found


def _as_array(column: Any) -> NDArray[Any]:
    """Return a kept column as a NumPy array of numbers or of text."""
    cells = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = cells.type
    if pa.types.is_fixed_size_list(kind):
        inner = _as_array(cells.flatten())
        return inner.reshape(len(cells), kind.list_size, *inner.shape[1:])
    is_plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if is_plain and not (pa.types.is_boolean(kind) and cells.null_count):
        found: NDArray[Any] = cells.to_numpy(zero_copy_only=False)
        return found
    return np.array(["" if v is None else str(v) for v in cells.to_pylist()], dtype=np.str_)


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
