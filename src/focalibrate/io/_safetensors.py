"""The `.safetensors` format: 8 bytes of header length, a JSON header, raw tensors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import PredictionFileError, file_error, short
from focalibrate.io._frame import Column, Frame
from focalibrate.io._npy import MAX_AXES, MAX_EXTENT, described, squeezed, unreadable

MAX_HEADER = 100_000_000
"""Largest header the format allows, in bytes."""

DTYPES: Mapping[str, str] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
"""NumPy's name of each dtype we read; bfloat16 is read as bits, then widened."""


@dataclass(frozen=True)
class TensorInfo:
    """Position of one tensor in the file, checked against the file's size."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def open_safetensors(path: Path) -> Frame:
    """Return the tensors as memory maps; ``class_names`` in the metadata is a JSON list."""
    with path.open("rb") as file:
        tensors, metadata = read_safetensors_header(path, file, path.stat().st_size)
    names = list(tensors)

    def load(wanted: Sequence[int], _: object) -> list[NDArray[Any]]:
        return [_tensor(path, names[i], tensors[names[i]]) for i in wanted]

    return Frame(
        path=path,
        columns=tuple(tensor_column(path, name, info) for name, info in tensors.items()),
        load=load,
        is_table=False,
        class_names=names_from_json(metadata.get("class_names"), path),
    )


def read_safetensors_header(
    path: Path, file: IO[bytes], size: int
) -> tuple[dict[str, TensorInfo], dict[str, Any]]:
    """Return the tensors of a file of `size` bytes, opened at its start, and its metadata.

    The tensors must cover the data without gaps or overlaps, as the format demands.
    """
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(MAX_HEADER, size - 8):
        raise _damaged(path, f"its header would be {length:,} bytes long, the file is {size:,}")
    raw = file.read(length)
    try:
        header = json.loads(raw, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is not valid JSON ({short(error)})") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise _damaged(path, "its `__metadata__` is not a JSON object")
    data = 8 + length
    tensors = {k: _info(k, v, path, data=data, size=size) for k, v in header.items()}
    reached = data
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if info.start != reached:
            gap = "overlaps another tensor" if info.start < reached else "comes after a gap"
            raise _damaged(path, f"`{short(name)}` {gap}")
        reached = info.stop
    if reached != size:
        raise _damaged(path, f"{size - reached:,} bytes at its end belong to no tensor")
    return tensors, metadata


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a name is repeated")
    return document


def _info(name: str, entry: object, path: Path, *, data: int, size: int) -> TensorInfo:
    name = short(name)
    if not isinstance(entry, dict):
        raise _damaged(path, f"the entry of `{name}` is not a JSON object")
    dtype: Any = entry.get("dtype")
    shape: Any = entry.get("shape")
    span: Any = entry.get("data_offsets")
    if not (_are_counts(shape) and _are_counts(span) and len(span) == 2):
        raise _damaged(path, f"`{name}` has no valid shape and data_offsets")
    if not isinstance(dtype, str):
        raise _damaged(path, f"`{name}` has no dtype")
    start, stop = span
    if not start <= stop <= size - data:
        raise _damaged(
            path, f"`{name}` should end at byte {stop:,} of the data, which has {size - data:,}"
        )
    if dtype in DTYPES:
        expected = np.dtype(DTYPES[dtype]).itemsize
        for n in shape:  # Python integers: no overflow however large the header's numbers
            expected *= n
        if expected != stop - start:
            raise _damaged(
                path,
                f"`{name}` of shape {short(shape)} needs {short(expected)} bytes, has "
                f"{stop - start:,}",
            )
    return TensorInfo(dtype, tuple(shape), data + start, data + stop)


def _are_counts(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MAX_AXES
        and all(type(n) is int and 0 <= n <= MAX_EXTENT for n in value)
    )


def tensor_column(path: Path, name: str, info: TensorInfo) -> Column:
    """Return what one tensor holds."""
    if info.dtype not in DTYPES:
        problem = file_error(
            path,
            f"`{short(name)}` must hold numbers of dtype {', '.join(DTYPES)}; got "
            f"{short(info.dtype)}. Convert it and save again.",
        )
        return unreadable(name, problem)
    if 0 in info.shape:
        return unreadable(
            name,
            file_error(path, f"`{short(name)}` is empty: shape {info.shape}. Save some examples."),
        )
    if info.dtype == "BF16":
        found = described(name, info.shape, np.dtype(np.float32))
        return Column(name=name, kind=found.kind, shape=found.shape, is_half=True)
    return described(name, info.shape, np.dtype(DTYPES[info.dtype]))


def _tensor(path: Path, name: str, info: TensorInfo) -> NDArray[Any]:
    column = tensor_column(path, name, info)
    if column.problem is not None:
        raise column.problem
    try:
        array: NDArray[Any] = np.memmap(
            path, dtype=np.dtype(DTYPES[info.dtype]), mode="r", offset=info.start, shape=info.shape
        )
    except (ValueError, OSError) as error:
        raise _damaged(path, f"`{short(name)}` could not be mapped ({short(error)})") from error
    if info.dtype == "BF16":
        array = (np.asarray(array).astype(np.uint32) << 16).view(np.float32)
    return squeezed(array)


def names_from_json(raw: object, path: Path) -> tuple[str, ...] | None:
    """Return class names stored as a JSON list of text, or None where there are none."""
    if raw is None:
        return None
    try:
        names = json.loads(raw if isinstance(raw, bytes) else str(raw))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise file_error(
            path,
            f"`class_names` in the metadata must be a JSON list of text, got {short(repr(raw))}. "
            "Write `json.dumps(['cat', 'dog'])`.",
        )
    return tuple(names)


def _damaged(path: Path, finding: str) -> PredictionFileError:
    return file_error(
        path,
        f"is not a valid .safetensors file: {finding}. If it was copied, copy it again; else "
        "write it with the safetensors library.",
    )
