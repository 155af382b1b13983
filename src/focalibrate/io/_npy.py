"""The `.npy` format: one array, its header first, memory-mapped."""

import math
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io._error import fault, how
from focalibrate.io._table import Progress, Request, Table
from focalibrate.io.predictions import Kind

CHUNK = 1 << 22
NUMBER_KINDS = "fiub"
TEXT_KINDS = "US"
MAX_AXES = 32


HEADER_DAMAGE = (
    ValueError,
    KeyError,
    TypeError,
    SyntaxError,
    MemoryError,
    RecursionError,
    tokenize.TokenError,
)
"""What NumPy raises on a damaged header, which it reads as a Python literal."""


@dataclass(frozen=True)
class NpyHeader:
    """What stands before the numbers of an `.npy` file or member."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    n_bytes: int
    """Bytes of the header itself."""

    @property
    def data_bytes(self) -> int:
        """Bytes of the numbers."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(file: IO[bytes], *, path: Path, name: str) -> NpyHeader:
    """Read the header at the start of `file`; refuse arrays that are not plain numbers or text."""
    try:
        version = npy_format.read_magic(file)
        read = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file)
        header = NpyHeader(shape, fortran, dtype, file.tell())
    except HEADER_DAMAGE as error:
        raise fault(
            path,
            f"`{name}` is not a readable .npy array (its header is damaged or of an unknown "
            "version). Write it again with np.save or np.savez.",
        ) from error
    if dtype.hasobject:
        raise fault(
            path,
            f"`{name}` is an object array, which only unpickling can read, and a pickle can run "
            f"any code. Save numbers: `np.asarray({name}, float)` for scores, "
            "int for labels, str for names.",
        )
    if dtype.kind not in NUMBER_KINDS + TEXT_KINDS:
        raise fault(
            path, f"`{name}` must hold numbers, got dtype {dtype}. Convert and save again."
        )
    if min(shape, default=1) <= 0 or dtype.itemsize == 0 or len(shape) > MAX_AXES:
        raise fault(path, f"`{name}` is empty or damaged: shape {shape}. Save some examples.")
    return header


def read_npy_array(path: Path, *, name: str) -> NDArray[Any]:
    """Return the array of `path` as a read-only memory map."""
    with path.open("rb") as file:
        header = read_header(file, path=path, name=name)
    size = path.stat().st_size
    if size < header.n_bytes + header.data_bytes:
        raise fault(
            path,
            f"is truncated: its header promises {header.data_bytes:,} bytes of numbers, "
            f"{size - header.n_bytes:,} are there. Copy or write it again.",
        )
    array: NDArray[Any] = np.memmap(
        path,
        dtype=header.dtype,
        mode="r",
        offset=header.n_bytes,
        shape=header.shape,
        order="F" if header.fortran else "C",
    )
    _check_text(array, path=path, name=name)
    return array


def read_array(
    file: IO[bytes], size: int, *, path: Path, name: str, progress: Progress
) -> NDArray[Any]:
    """Read one array of `size` bytes with its header from a stream, in pieces."""
    header = read_header(file, path=path, name=name)
    if header.n_bytes + header.data_bytes != size:
        raise fault(
            path,
            f"`{name}` is damaged: its header promises {header.data_bytes:,} bytes of numbers, "
            f"{size - header.n_bytes:,} are there. Write the file again.",
        )
    raw = np.empty(header.data_bytes, np.uint8)
    done = 0
    while done < len(raw):
        piece = file.read(min(CHUNK, len(raw) - done))
        if not piece:
            raise EOFError(f"{len(raw) - done} bytes missing")
        raw[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
        done += len(piece)
        progress(done, len(raw))
    file.read(1)  # reaching the end makes zipfile compare the checksum
    array = raw.view(header.dtype).reshape(header.shape, order="F" if header.fortran else "C")
    _check_text(array, path=path, name=name)
    return array


def _check_text(array: NDArray[Any], *, path: Path, name: str) -> None:
    """Raise where an array of text holds what is no character."""
    if array.dtype.kind != "U":
        return
    try:
        array.tolist()
    except (ValueError, SystemError) as error:  # CPython's own, for code points beyond Unicode
        raise fault(path, f"`{name}` is damaged: {error}. Write the file again.") from error


def read_npy(request: Request, progress: Progress) -> Table:
    """Read the scores of an `.npy` file; its labels stand in a file of their own.

    The kind is said by `input` or by the name of the file: ``logits.npy``, ``val_probs.npy``.
    """
    kind = _kind_of(request)
    scores = read_npy_array(request.path, name=kind)
    progress(1, 1)
    return Table(scores=scores, kind=kind, scores_name=kind)


def _kind_of(request: Request) -> Kind:
    if request.input is not None:
        return request.input
    last_word = request.path.stem.lower().replace("-", "_").replace(".", "_").split("_")[-1]
    if last_word == "logits":
        return "logits"
    if last_word == "probs":
        return "probs"
    raise fault(
        request.path,
        "does not say whether it holds logits or probabilities, and that is never guessed. Pass "
        f"{how('input', 'logits')} or {how('input', 'probs')}, or name the file "
        f"`{request.path.stem}_logits.npy`.",
    )
