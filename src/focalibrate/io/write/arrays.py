"""Writing probabilities as arrays: `.npy`, `.npz`, `.safetensors`, `.pt`."""

import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io.bytes import optional
from focalibrate.io.errors import short
from focalibrate.io.formats.arrays import DTYPES
from focalibrate.io.write.rows import Output

EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time stamp of every zip member, so that equal content gives equal bytes."""

ALIGNMENT = 8
"""The data of a .safetensors file begins at a multiple of this."""

TENSOR_NAMES = {np.dtype(code).name: name for name, code in DTYPES.items() if name != "BF16"}


def write_npy(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write the probabilities only, block by block.

    Not through a memory map: a full disk would kill the process instead of raising.
    """
    with path.open("wb") as file:
        _write_probs(file, rows, output)


def write_npz(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write ``probs``, ``class_names`` and the other arrays, uncompressed as `np.savez` does."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open(_member("probs"), "w", force_zip64=True) as file:
            kept = _write_probs(file, rows, output)
        for name, blocks in _arrays(kept, output).items():
            archive.writestr(_member(name), _npy_bytes(np.concatenate(blocks)))
        if output.class_names is not None and output.like.layout.form != "single":
            names = np.array(output.class_names, dtype=np.str_)
            archive.writestr(_member("class_names"), _npy_bytes(names))


def write_safetensors(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write ``probs`` and the other numbers, and ``class_names`` as JSON in the metadata.

    The format has no text: other columns of text are left out, and labels that are names are
    written as positions.
    """
    header: dict[str, object] = {}
    tensors, start = _tensors(rows, output), 0
    for name, blocks in tensors.items():
        stop = start + sum(block.nbytes for block in blocks)
        header[name] = {
            "dtype": TENSOR_NAMES[blocks[0].dtype.name],
            "shape": [sum(map(len, blocks)), *blocks[0].shape[1:]],
            "data_offsets": [start, stop],
        }
        start = stop
    if output.class_names is not None:
        header["__metadata__"] = {"class_names": json.dumps(output.class_names)}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for block in chain(*tensors.values()):
            file.write(block.astype(block.dtype.newbyteorder("<"), copy=False).data)


def write_torch(path: Path, rows: Iterator[Any], output: Output) -> None:
    """Write a dictionary of tensors: ``probs``, the other numbers, ``class_names`` as a list."""
    torch = optional("torch", path, "writing .pt")
    tensors = _tensors(rows, output)
    stored = {k: torch.from_numpy(np.concatenate(blocks)) for k, blocks in tensors.items()}
    if output.class_names is not None:
        stored["class_names"] = list(output.class_names)
    torch.save(stored, path)


def _write_probs(file: IO[bytes], rows: Iterator[Any], output: Output) -> list[Any]:
    """Write the array of the probabilities block by block; return the tables without them."""
    kept = list[Any]()
    for table in rows:
        probs = _as_array(table.column("probs"))
        if not kept:
            file.write(_npy_header((output.like.n_rows, *probs.shape[1:]), probs.dtype))
        file.write(np.ascontiguousarray(probs).data)
        kept.append(table.drop_columns(["probs"]))
    return kept


def _arrays(tables: Sequence[Any], output: Output) -> dict[str, list[NDArray[Any]]]:
    """Return the columns of all rows, block by block, and the arrays with no entry per row."""
    names = tables[0].column_names
    found = {name: [_as_array(table.column(name)) for table in tables] for name in names}
    for name, array in output.like.layout.constants().items():
        while name in ("probs", "class_names") or name in found:
            name = f"uncalibrated_{name}"
        found[name] = [array]
    return found


def _tensors(rows: Iterator[Any], output: Output) -> dict[str, list[NDArray[Any]]]:
    """Return the arrays of numbers, block by block, the probabilities first."""
    found = _arrays(list(rows), output)
    found = {"probs": found.pop("probs"), **found}
    labels, label = output.like.labels, output.like.layout.label_column
    if label in found and found[label][0].dtype.kind == "U" and labels is not None:
        found[label] = [labels]
    numbers = {k: v for k, v in found.items() if v[0].dtype.name in TENSOR_NAMES}
    return {k: [np.ascontiguousarray(block) for block in v] for k, v in numbers.items()}


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
