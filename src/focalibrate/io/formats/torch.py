"""Tensors that `torch.save` wrote: read with `weights_only=True`, which runs no code."""

import pickletools
import zipfile
from collections.abc import Mapping, Sequence
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
    arrays, class_names = _arrays(stored, path, torch)
    columns = tuple(_column(name, stored, arrays) for name in arrays)
    schema = Schema(path=path, columns=columns, is_table=False, class_names=class_names)
    data = {i: array for i, array in enumerate(arrays.values()) if array.ndim}
    n_rows = max((len(array) for array in data.values()), default=0)
    return in_memory(schema, data, n_rows)


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


def _column(name: str, stored: Any, arrays: Mapping[str, NDArray[Any]]) -> Column:
    found = described(name, arrays[name].shape, arrays[name].dtype)
    tensor = stored.get(name) if isinstance(stored, Mapping) else stored
    is_half = "float16" in str(getattr(tensor, "dtype", ""))
    return replace(found, is_half=is_half)


def _named(items: list[Any], torch: Any) -> dict[str, Any]:
    """Return the tensors of a list by name: scores and labels, where there is one of each."""
    names = {True: "scores", False: "labels"}
    if len(items) == 2 and all(isinstance(item, torch.Tensor) for item in items):
        found = {names[item.is_floating_point()]: item for item in items}
        if len(found) == 2 and found["labels"].ndim == 1 and found["scores"].ndim <= 2:
            return found
    return {f"tensor_{i}": item for i, item in enumerate(items)}


def _joined(items: Sequence[Any], torch: Any) -> Any:
    """Return a list of batches as one tensor; anything else as it is."""
    if not all(isinstance(item, torch.Tensor) for item in items):
        return items
    try:
        return torch.cat([torch.atleast_1d(item) for item in items])
    except RuntimeError:  # batches of other widths
        return items


def _arrays(
    stored: Any, path: Path, torch: Any
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...] | None]:
    if isinstance(stored, torch.Tensor):
        stored = {path.stem: stored}
    elif isinstance(stored, (list, tuple)):
        stored = _named(list(stored), torch)
    if not isinstance(stored, Mapping):
        raise file_error(
            path,
            f"must hold tensors, got {type(stored).__name__}. Save a dictionary of tensors.",
        )
    arrays: dict[str, NDArray[Any]] = {}
    class_names = None
    for key, value in stored.items():
        if not isinstance(key, str):
            continue
        if isinstance(value, (list, tuple)) and value:
            value = _joined(value, torch)
        if isinstance(value, torch.Tensor):
            if value.layout != torch.strided or value.is_quantized or value.is_complex():
                continue
            if "float16" in str(value.dtype) or "float8" in str(value.dtype):
                value = value.float()
            arrays[key] = as_text(value.detach().numpy(), path=path, name=key)
        elif isinstance(value, (list, tuple)) and value:
            if all(isinstance(item, str) for item in value):
                if key in ("class_names", "classes"):
                    class_names = tuple(value)
                else:
                    arrays[key] = np.array(value, dtype=object)
            elif all(isinstance(item, (int, float)) for item in value):
                arrays[key] = np.array(value)
    if not arrays:
        raise file_error(path, "holds no tensors. Save a dictionary of tensors.")
    return arrays, class_names
