"""Tensors that `torch.save` wrote: read with `weights_only=True`, which runs no code."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import file_error, short
from focalibrate.io._frame import Column, Frame
from focalibrate.io._limit import check_fits
from focalibrate.io._npy import as_text, described


def open_torch(path: Path, *, limit: int) -> Frame:
    """Return the tensors of a tensor, a dictionary or a list of tensors; needs torch."""
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise file_error(
            path, "reading .pt needs torch. Install it: `pip install 'focalibrate[torch]'`."
        ) from error
    check_fits(path, path.stat().st_size, limit)
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True, mmap=False)
    except MemoryError:
        raise
    except Exception as error:  # torch documents none of what a damaged or unsafe file raises
        raise file_error(
            path,
            "is no file of tensors only, or is damaged, and a pickle of anything else can run any "
            f"code: it is not opened ({short(str(error).splitlines()[0] if str(error) else '')}). "
            "Save tensors: `torch.save({'logits': logits, 'labels': labels}, 'val.pt')`.",
        ) from error
    arrays, class_names = _arrays(stored, path, torch)
    names = list(arrays)

    def load(wanted: Sequence[int], _: object) -> list[NDArray[Any]]:
        return [arrays[names[i]] for i in wanted]

    return Frame(
        path=path,
        columns=tuple(_column(name, stored, arrays) for name in names),
        load=load,
        is_table=False,
        class_names=class_names,
    )


def _column(name: str, stored: Any, arrays: Mapping[str, NDArray[Any]]) -> Column:
    found = described(name, arrays[name].shape, arrays[name].dtype)
    tensor = stored.get(name) if isinstance(stored, Mapping) else stored
    is_half = "float16" in str(getattr(tensor, "dtype", ""))
    return Column(name=name, kind=found.kind, shape=found.shape, is_half=is_half)


def _arrays(
    stored: Any, path: Path, torch: Any
) -> tuple[dict[str, NDArray[Any]], tuple[str, ...] | None]:
    if isinstance(stored, torch.Tensor):
        stored = {path.stem: stored}
    elif isinstance(stored, (list, tuple)):
        stored = {f"tensor_{i}": item for i, item in enumerate(stored)}
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
