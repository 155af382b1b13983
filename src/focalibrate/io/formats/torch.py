"""Tensors that `torch.save` wrote: read with `weights_only=True`, which runs no code."""

import pickletools
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io.bytes import optional, refused
from focalibrate.io.errors import file_error
from focalibrate.io.formats.arrays import as_text, described
from focalibrate.io.formats.opened import Opened, in_memory
from focalibrate.io.options import check_fits
from focalibrate.io.table import Column, Schema

NOT_TENSORS = (
    "holds more than tensors, or is damaged; a pickle of other objects can run any code, so it is "
    "not opened ({}). Save tensors: `torch.save({'logits': logits, 'labels': labels}, 'val.pt')`."
)
MAX_NAME = 100
"""Longest name of a class of torch."""


def open_torch(path: Path, local: Path, *, limit: int) -> Opened:
    """Return the tensors of a tensor, a dictionary or a list of tensors; needs torch."""
    torch = optional("torch", path, "reading .pt")
    check_fits(path, local.stat().st_size, limit)
    with refused(path, NOT_TENSORS):  # torch does not document what a damaged file raises
        _check_pickle(path, local, limit=limit)
        stored = torch.load(local, map_location="cpu", weights_only=True, mmap=False)
    columns, data, class_names = list[Column](), dict[int, NDArray[Any]](), None
    for name, value in _named(stored, path, torch).items():
        array = _array(value, torch)
        if array is None:
            continue
        if name in ("class_names", "classes") and array.dtype == object:
            class_names = tuple(array.tolist())
            continue
        array = as_text(array, path=path, name=name)
        if array.ndim:
            data[len(columns)] = array
        is_half = "float16" in str(getattr(value, "dtype", ""))
        columns.append(replace(described(name, array.shape, array.dtype), is_half=is_half))
    if not columns:
        raise file_error(path, "holds no tensors. Save a dictionary of tensors.")
    schema = Schema(path=path, columns=tuple(columns), is_table=False, class_names=class_names)
    return in_memory(schema, data, max(map(len, data.values()), default=0))


def _check_pickle(path: Path, local: Path, *, limit: int) -> None:
    """Raise if the pickle of a file names anything but torch's own classes.

    torch refuses such files too, but takes minutes if a name is long.
    Nothing is executed: the operations of the pickle are only listed.
    """
    with zipfile.ZipFile(local) as archive:
        inside = [i for i in archive.infolist() if i.filename.rpartition("/")[2] == "data.pkl"]
        if len(inside) != 1:
            raise ValueError("it has no data.pkl")
        check_fits(path, inside[0].file_size * 10, limit)
        raw = archive.read(inside[0])
    for operation, argument, _ in pickletools.genops(raw):
        if operation.name in ("GLOBAL", "INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
            name = str(argument)
            is_plain = name.startswith(("torch ", "torch.", "collections OrderedDict"))
            if not is_plain or len(name) > MAX_NAME:
                raise ValueError(f"it names {name}")


def _named(stored: Any, path: Path, torch: Any) -> dict[str, Any]:
    """Return what was saved by its names: of two tensors, scores and labels if they can be."""
    if isinstance(stored, torch.Tensor):
        return {path.stem: stored}
    if isinstance(stored, Mapping):
        return {key: value for key, value in stored.items() if isinstance(key, str)}
    if not isinstance(stored, (list, tuple)):
        raise file_error(
            path,
            f"must hold tensors, got {type(stored).__name__}. Save a dictionary of tensors.",
        )
    if len(stored) == 2 and all(isinstance(item, torch.Tensor) for item in stored):
        found = {("labels", "scores")[item.is_floating_point()]: item for item in stored}
        if len(found) == 2 and found["labels"].ndim == 1 and found["scores"].ndim <= 2:
            return found
    return {f"tensor_{i}": item for i, item in enumerate(stored)}


def _array(value: Any, torch: Any) -> NDArray[Any] | None:
    """Return a tensor, batches of one, or a list of numbers or of text; None for other things."""
    if isinstance(value, (list, tuple)) and value:
        if all(isinstance(item, str) for item in value):
            return np.array(value, dtype=object)
        if all(isinstance(item, (int, float)) for item in value):
            return np.array(value)
        if all(isinstance(item, torch.Tensor) for item in value):
            with suppress(RuntimeError):  # batches of other widths
                value = torch.cat([torch.atleast_1d(item) for item in value])
    if not isinstance(value, torch.Tensor):
        return None
    if value.layout != torch.strided or value.is_quantized or value.is_complex():
        return None
    if "float16" in str(value.dtype) or "float8" in str(value.dtype):
        value = value.float()
    return np.asarray(value.detach().numpy())
