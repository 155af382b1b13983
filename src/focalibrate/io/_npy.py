"""The `.npy` format: one array, its header first, memory-mapped."""

import math
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io._error import PredictionFileError, file_error, short
from focalibrate.io._frame import Column, ColumnKind, Frame

NUMBER_KINDS = "fiub"
TEXT_KINDS = "US"
MAX_AXES = 32
MAX_EXTENT = 1 << 48

HEADER_DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    SyntaxError,
    MemoryError,
    RecursionError,
    OverflowError,
    AttributeError,
    IndexError,
    tokenize.TokenError,
)
"""Exceptions that NumPy raises on a damaged header."""


@dataclass(frozen=True)
class NpyHeader:
    """The header of an `.npy` file or member."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    n_bytes: int
    """Bytes of the header itself."""
    fortran_order: bool = False
    """Numbers are stored column by column."""

    @property
    def data_bytes(self) -> int:
        """Bytes of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes], *, path: Path, name: str) -> NpyHeader:
    """Read the header at the start of `file`; refuse arrays that are not plain numbers or text."""
    name = short(name)
    try:
        version = npy_format.read_magic(file)
        read = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
        }[version]
        shape, fortran_order, dtype = read(file)
        header = NpyHeader(shape, dtype, file.tell(), bool(fortran_order))
        if any(type(n) is not int or abs(n) > MAX_EXTENT for n in shape):
            raise ValueError("shape must be whole numbers")
    except HEADER_DAMAGE as error:
        raise file_error(
            path,
            f"`{name}` is not a readable .npy array (its header is damaged or of an unknown "
            "version). Write it again with np.save or np.savez.",
        ) from error
    if dtype.hasobject:
        raise file_error(
            path,
            f"`{name}` is an object array, which is stored as a pickle, and a pickle can run "
            f"any code. Save numbers or text: `{name}.astype(float)` for scores, "
            f"`{name}.astype(str)` for names.",
        )
    if dtype.kind not in NUMBER_KINDS + TEXT_KINDS:
        raise file_error(
            path,
            f"`{name}` must hold numbers, got dtype {short(dtype)}. Convert and save again.",
        )
    if min(shape, default=1) <= 0 or dtype.itemsize == 0 or len(shape) > MAX_AXES:
        raise file_error(path, f"`{name}` is empty or damaged: shape {shape}. Save some examples.")
    return header


def check_size(header: NpyHeader, size: int, *, path: Path) -> None:
    """Raise where a file of `size` bytes is shorter than its header says."""
    if size < header.n_bytes + header.data_bytes:
        raise file_error(
            path,
            f"is truncated: its header promises {header.data_bytes:,} bytes of numbers, "
            f"{size - header.n_bytes:,} are there. Copy or write it again.",
        )


def open_npy(path: Path) -> Frame:
    """Return the array of `path` as a read-only memory map, named after the file."""
    name = path.stem
    with path.open("rb") as file:
        header = read_header(file, path=path, name=name)
    check_size(header, path.stat().st_size, path=path)

    def load(_: object, __: object) -> list[NDArray[Any]]:
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise file_error(
                path, f"could not be read ({short(error)}). Write it again."
            ) from error
        return [as_text(array, path=path, name=name)]

    return Frame(
        path=path,
        columns=(described(name, header.shape, header.dtype),),
        load=load,
        is_table=False,
    )


def described(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
    """Return the column that an array's shape and dtype describe; ``[N, 1]`` is one column."""
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    kind: ColumnKind = "other"
    if dtype.kind in "fiu":
        kind = "number" if len(shape) == 1 else "matrix" if len(shape) > 1 else "other"
    elif len(shape) == 1 and dtype.kind in "bUSO":  # objects: text that a reader made itself
        kind = "bool" if dtype.kind == "b" else "text"
    return Column(name=name, kind=kind, shape=shape, is_half=dtype == np.float16)


def unreadable(name: str, problem: PredictionFileError) -> Column:
    """Return the column of an array that cannot be read."""
    return Column(name=name, kind="other", shape=(), problem=problem)


def squeezed(array: NDArray[Any]) -> NDArray[Any]:
    """Return ``[N, 1]`` as ``[N]``."""
    while array.ndim > 1 and array.shape[-1] == 1:
        array = array[..., 0]
    return array


def as_text(array: NDArray[Any], *, path: Path, name: str) -> NDArray[Any]:
    """Return the array; bytes become text, and bytes that are no valid text are refused."""
    array = squeezed(array)
    if array.dtype.kind not in TEXT_KINDS:
        return array
    try:
        if array.dtype.kind == "S":
            array = np.char.decode(np.asarray(array), "utf-8")
        if array.dtype.itemsize and array.size:
            codes = np.array(array, array.dtype.newbyteorder("="), order="C", ndmin=1)
            if codes.view(np.uint32).max() > sys.maxunicode:
                raise ValueError("it has characters beyond Unicode")
        array.tolist()
    except (ValueError, SystemError) as error:  # CPython's own, for code points beyond Unicode
        raise file_error(
            path, f"`{short(name)}` is damaged: {short(error)}. Write the file again."
        ) from error
    return np.array(array)
