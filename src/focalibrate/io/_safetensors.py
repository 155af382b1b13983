"""The `.safetensors` format: 8 bytes of header length, a JSON header, raw tensors."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import PredictionFileError, fault
from focalibrate.io._keys import choose_labels, choose_scores
from focalibrate.io._npy import MAX_AXES
from focalibrate.io._table import Progress, Request, Table

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
    """Where one tensor stands, checked against the size of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int


def read_safetensors(request: Request, progress: Progress) -> Table:
    """Read scores and labels by their keys; float32 and float64 scores stay memory-mapped.

    ``class_names`` in the metadata is a JSON list of text.
    """
    tensors, metadata = read_safetensors_header(request.path)
    scores_key, kind = choose_scores(tensors, request)
    labels_key = choose_labels(tensors, request)
    scores = _tensor(request.path, scores_key, tensors[scores_key])
    progress(1, 1)
    return Table(
        scores=scores,
        kind=kind,
        scores_name=scores_key,
        labels=None
        if labels_key is None
        else np.array(_tensor(request.path, labels_key, tensors[labels_key])),
        labels_name=labels_key or "labels",
        class_names=_names(metadata, request.path),
        was_half=tensors[scores_key].dtype in ("F16", "BF16"),
    )


def read_safetensors_header(path: Path) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Return the tensors of `path` and its metadata; nothing points outside the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise _damaged(
                path, f"its header would be {length:,} bytes long, the file is {size:,}"
            )
        raw = file.read(length)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise _damaged(path, "its `__metadata__` is not a JSON object")
    data = 8 + length
    return {k: _info(k, v, path, data=data, size=size) for k, v in header.items()}, metadata


def _info(name: str, entry: object, path: Path, *, data: int, size: int) -> TensorInfo:
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
                path, f"`{name}` of shape {shape} needs {expected:,} bytes, has {stop - start:,}"
            )
    return TensorInfo(dtype, tuple(shape), data + start)


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _tensor(path: Path, name: str, info: TensorInfo) -> NDArray[Any]:
    if info.dtype not in DTYPES:
        raise fault(
            path,
            f"`{name}` must hold numbers of dtype {', '.join(DTYPES)}; got {info.dtype}. "
            "Convert it and save again.",
        )
    dtype = np.dtype(DTYPES[info.dtype])
    if 0 in info.shape or len(info.shape) > MAX_AXES:
        raise fault(path, f"`{name}` is empty: shape {info.shape}. Save some examples.")
    array: NDArray[Any] = np.memmap(
        path, dtype=dtype, mode="r", offset=info.start, shape=info.shape
    )
    if info.dtype == "BF16":
        return (np.asarray(array).astype(np.uint32) << 16).view(np.float32)
    return array


def _names(metadata: Mapping[str, object], path: Path) -> tuple[str, ...] | None:
    if "class_names" not in metadata:
        return None
    try:
        names = json.loads(str(metadata["class_names"]))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise fault(
            path,
            "`class_names` in the metadata must be a JSON list of text, got "
            f"{metadata['class_names']!r}. Write `json.dumps(['cat', 'dog'])`.",
        )
    return tuple(names)


def _damaged(path: Path, finding: str) -> PredictionFileError:
    return fault(
        path,
        f"is not a valid .safetensors file: {finding}. If it was copied, copy it again; else "
        "write it with the safetensors library.",
    )
