"""Files of arrays: `.npy`, `.npz` and `.safetensors`. Headers are checked, rows are read.

Rows are read, not memory-mapped: memory stays constant, and a file that is truncated meanwhile
raises an error instead of killing the process.
"""

import io
import json
import math
import re
import sys
import tokenize
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io.bytes import refused
from focalibrate.io.cells import Kind
from focalibrate.io.errors import PredictionFileError, file_error, listing, short
from focalibrate.io.formats.arrow import names_from_json
from focalibrate.io.options import check_fits
from focalibrate.io.source import Part
from focalibrate.io.table import Column, Opened, Schema, Table

NUMBER_KINDS = "fiub"
TEXT_KINDS = "US"
BYTES = np.dtype(np.uint8)
MAX_AXES = 32
MAX_EXTENT = 1 << 48

HEADER_DAMAGE = (
    *(ValueError, LookupError, TypeError, SyntaxError, ArithmeticError, AttributeError),
    *(MemoryError, RecursionError, tokenize.TokenError),
)
"""Exceptions that NumPy raises on a damaged header."""

DAMAGE = "is truncated or damaged ({}). Copy it again, or write it again with np.savez."

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


def read_header(file: IO[bytes], opened: "OpenAt", *, path: Path, name: str) -> "_Array":
    """Read the header at the start of `file`; refuse arrays that are not plain numbers or text."""
    whole_name, name = name, short(name)
    try:
        version = npy_format.read_magic(file)
        read = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
        }[version]
        shape, fortran_order, dtype = read(file)
        start = file.tell()
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
    if dtype.names is not None:
        raise file_error(
            path,
            f"`{name}` is a structured array. With pandas, where each field is a number or text: "
            f"`pd.DataFrame(np.load({str(path)!r})).to_csv('val.csv', index=False)`.",
        )
    if dtype.kind not in NUMBER_KINDS + TEXT_KINDS:
        raise file_error(
            path, f"`{name}` must hold numbers, got dtype {short(dtype)}. Convert and save again."
        )
    if min(shape, default=1) <= 0 or dtype.itemsize == 0 or len(shape) > MAX_AXES:
        raise file_error(path, f"`{name}` is empty or damaged: shape {shape}. Save some examples.")
    column = described(whole_name, shape, dtype)
    by_column = bool(fortran_order) and len(shape) > 1
    return _Array(column, dtype, shape, start, opened, by_column=by_column)


def described(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column:
    """Return the column that an array's shape and dtype describe; ``[N, 1]`` is one column."""
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    kind: Kind = "other"
    if dtype.kind in "fiu":
        kind = "number" if len(shape) == 1 else "matrix" if len(shape) > 1 else "other"
    elif len(shape) == 1 and dtype.kind in "bUSO":  # objects: text that a reader made itself
        kind = "bool" if dtype.kind == "b" else "text"
    return Column(
        name=name,
        kind=kind,
        shape=shape[1:],
        n_rows=shape[0] if shape else None,
        dtype=dtype,
        is_half=dtype == np.float16,
    )


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


OpenAt: TypeAlias = Callable[[ExitStack, int], Any]
"""Opens a file, or a member of an archive, and passes over its first bytes."""


@dataclass(frozen=True)
class _Array:
    """One array of a file: where its numbers begin, and how they are stored.

    Attributes:
        column: what it is called and holds, or why it cannot be read.
        dtype: of the stored numbers.
        shape: of the whole array.
        start: bytes before the first number.
        opened: opens the file.
        by_column: numbers are stored column by column, and so read whole.
        is_bfloat: the numbers are bfloat16, stored as bits.
    """

    column: Column
    dtype: np.dtype[Any] = BYTES
    shape: tuple[int, ...] = ()
    start: int = 0
    opened: OpenAt | None = None
    by_column: bool = False
    is_bfloat: bool = False

    @property
    def n_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def open(self, stack: ExitStack) -> Any:
        """Return the file at the first number, the numbers row by row."""
        if self.opened is None:
            raise self.column.problem or ValueError(f"`{self.column.name}` cannot be read")
        file = self.opened(stack, self.start)
        if not self.by_column:
            return file
        numbers = np.frombuffer(file.read(self.n_bytes), self.dtype)
        return io.BytesIO(np.ascontiguousarray(numbers.reshape(self.shape, order="F")).data)

    def take(self, file: Any, n_rows: int, path: Path, limit: int) -> NDArray[Any]:
        """Return the next rows of the opened file."""
        size = n_rows * self.row_bytes
        check_fits(path, size, limit)
        buffer = np.empty(size, np.uint8)
        view, done = buffer.data, 0
        while done < size:
            n = file.readinto(view[done : done + (1 << 20)])
            if not n:
                raise file_error(
                    path, f"`{short(self.column.name)}` is cut off. Copy or write it again."
                )
            done += n
        array: NDArray[Any] = np.frombuffer(buffer, self.dtype).reshape(n_rows, *self.shape[1:])
        if self.is_bfloat:
            array = (array.astype(np.uint32) << 16).view(np.float32)
            return squeezed(array)
        return as_text(array, path=path, name=self.column.name)


def open_npy(parts: Mapping[str, Part], *, limit: int) -> Opened:
    """Return the rows of `.npy` files, the arrays of one data set, by their names."""
    arrays = list[_Array]()
    for name, part in parts.items():
        with part.open() as file:
            array = read_header(file, _seeker(part), path=part.path, name=name)
        found = part.n_bytes - array.start
        if found < array.n_bytes:
            raise part.error(
                f"is truncated: its header promises {array.n_bytes:,} bytes of numbers, "
                f"{found:,} are there. Copy or write it again."
            )
        arrays.append(array)
    return _opened(next(iter(parts.values())).path, arrays, limit=limit)


def grouped_npy(path: Path, parts: Sequence[Part]) -> list[dict[str, Part]]:
    """Return ``logits-0.npy, labels-0.npy, logits-1.npy, ...`` as parts of several arrays.

    Files whose names differ by a number only are parts of one array.
    """
    groups: dict[str, list[Part]] = {}
    for part in parts:
        stem = re.sub(r"[-_.]?\d+$", "", part.path.stem) or "scores"
        groups.setdefault(stem, []).append(part)
    counts = {len(group) for group in groups.values()}
    if len(counts) > 1:
        sizes = ", ".join(f"{len(group)} of `{stem}`" for stem, group in groups.items())
        raise file_error(path, f"must hold the same number of parts of every array, got {sizes}.")
    return [{stem: group[i] for stem, group in groups.items()} for i in range(counts.pop())]


def _seeker(part: Part) -> OpenAt:
    def opened(stack: ExitStack, start: int) -> IO[bytes]:
        file = stack.enter_context(part.open())
        file.seek(start)
        return file

    return opened


def open_npz(part: Part, *, limit: int) -> Opened:
    """Return the rows of the arrays of an `.npz` file, decompressed as they are read."""
    path = part.path
    with part.open() as raw:
        magic = raw.read(4)
        if not magic.startswith(b"PK"):
            raise part.error(
                f"is not an .npz file: it begins with {magic!r}, not with the mark of a zip "
                "archive. If it was copied, copy it again; else write it with np.savez."
            )
        raw.seek(0)
        with refused(path, DAMAGE), zipfile.ZipFile(raw) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            names = Counter(info.filename.removesuffix(".npy") for info in members)
            twice = [f"`{name}`" for name, count in names.items() if count > 1]
            if twice:
                raise part.error(f"holds {listing(twice)} more than once. Write it again.")
            arrays = [_member(part, archive, info) for info in members]
    return _opened(path, arrays, limit=limit)


def _member(part: Part, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Array:
    """Return an array in an archive, or why it cannot be read."""
    path, name = part.path, info.filename.removesuffix(".npy")

    def opened(stack: ExitStack, start: int) -> IO[bytes]:
        own = stack.enter_context(zipfile.ZipFile(stack.enter_context(part.open())))
        file = stack.enter_context(own.open(info.filename))
        file.read(start)  # `seek` would give up the check of its sum
        return file

    try:
        with archive.open(info) as file:
            array = read_header(file, opened, path=path, name=name)
        if array.start + array.n_bytes != info.file_size:
            raise part.error(
                f"`{short(name)}` is damaged: its header promises {array.n_bytes:,} bytes of "
                f"numbers, {info.file_size - array.start:,} are there. Write the file again."
            )
        return array
    except PredictionFileError as problem:
        return _Array(Column(name=name, kind="other", problem=problem))


def open_safetensors(part: Part, *, limit: int) -> Opened:
    """Return the rows of the tensors; ``class_names`` in the metadata is a JSON list.

    The tensors must cover the data without gaps or overlaps, as the format demands.
    """
    path, size = part.path, part.n_bytes
    with part.open() as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise _damaged(
                path, f"its header would be {length:,} bytes long, the file is {size:,}"
            )
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
    reached = data = 8 + length
    tensors = [_tensor(part, name, entry, data) for name, entry in header.items()]
    for tensor in sorted(tensors, key=lambda tensor: (tensor.start, tensor.n_bytes)):
        if tensor.start != reached:
            gap = "overlaps another tensor" if tensor.start < reached else "comes after a gap"
            raise _damaged(path, f"`{short(tensor.column.name)}` {gap}")
        reached += tensor.n_bytes
    if reached != size:
        raise _damaged(path, f"{size - reached:,} bytes at its end belong to no tensor")
    names = names_from_json(metadata.get("class_names"), path)
    found = _opened(path, tensors, limit=limit)
    return replace(found, schema=replace(found.schema, class_names=names))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a name is repeated")
    return document


def _tensor(part: Part, name: str, entry: object, data: int) -> _Array:
    """Return a tensor as its entry in the header describes it; `data` is where numbers begin."""
    path, called, room = part.path, short(name), part.n_bytes - data
    if not isinstance(entry, dict):
        raise _damaged(path, f"the entry of `{called}` is not a JSON object")
    found: Any = [entry.get(key) for key in ("dtype", "shape", "data_offsets")]
    dtype, shape, span = found
    if not (_are_counts(shape) and _are_counts(span) and len(span) == 2):
        raise _damaged(path, f"`{called}` has no valid shape and data_offsets")
    if not isinstance(dtype, str):
        raise _damaged(path, f"`{called}` has no dtype")
    start, stop = span
    if not start <= stop <= room:
        raise _damaged(
            path, f"`{called}` should end at byte {stop:,} of the data, which has {room:,}"
        )
    stored, problem = np.dtype(DTYPES.get(dtype, "u1")), None
    expected = math.prod([stored.itemsize, *shape])  # Python integers: no overflow
    if dtype not in DTYPES:
        problem = (
            f"`{called}` must hold numbers of dtype {', '.join(DTYPES)}; got {short(dtype)}. "
            "Convert it and save again."
        )
    elif expected != stop - start:
        raise _damaged(
            path,
            f"`{called}` of shape {short(shape)} needs {short(expected)} bytes, has "
            f"{stop - start:,}",
        )
    elif 0 in shape:
        problem = f"`{called}` is empty: shape {tuple(shape)}. Save some examples."
    if problem is not None:
        column = Column(name=name, kind="other", problem=part.error(problem))
        return _Array(column, shape=(stop - start,), start=data + start)
    is_bfloat = dtype == "BF16"
    column = described(name, tuple(shape), np.dtype(np.float32) if is_bfloat else stored)
    column = replace(column, is_half=column.is_half or is_bfloat)
    at, seeker = data + start, _seeker(part)
    return _Array(column, stored, tuple(shape), at, seeker, is_bfloat=is_bfloat)


def _are_counts(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= MAX_AXES
        and all(type(n) is int and 0 <= n <= MAX_EXTENT for n in value)
    )


def _damaged(path: Path, finding: str) -> PredictionFileError:
    return file_error(
        path,
        f"is not a valid .safetensors file: {finding}. If it was copied, copy it again; else "
        "write it with the safetensors library.",
    )


def _opened(path: Path, arrays: Sequence[_Array], *, limit: int) -> Opened:
    sizes = {i: a.shape[0] for i, a in enumerate(arrays) if a.opened is not None and a.shape}
    columns = tuple(array.column for array in arrays)
    left_out = [f"`{short(c.name)}`" for c in columns if c.problem is not None]
    said = f"left out, as neither plain numbers nor text: {listing(left_out)}"
    notes = (said,) if left_out else ()
    schema = Schema(path=path, columns=columns, is_table=False, notes=notes)

    def whole(wanted: Sequence[int]) -> list[NDArray[Any]]:
        with refused(path, DAMAGE), ExitStack() as stack:
            shaped = [replace(arrays[i], shape=arrays[i].shape or (1,)) for i in wanted]
            return [a.take(a.open(stack), a.shape[0], path, limit) for a in shaped]

    def read(wanted: Sequence[int] | None, rows: int, _: int | None) -> Iterator[Table]:
        needed = sizes if wanted is None else wanted
        with refused(path, DAMAGE), ExitStack() as stack:
            files = {i: arrays[i].open(stack) for i in needed}
            n_rows = max((sizes[i] for i in needed if i in sizes), default=0)
            if not n_rows:
                yield Table(schema, {}, 0)  # whoever needs an array says why it cannot be read
            for start in range(0, n_rows, rows):
                taken = {
                    i: arrays[i].take(files[i], max(0, min(rows, n - start)), path, limit)
                    for i, n in sizes.items()
                    if i in files
                }
                yield Table(schema, taken, min(rows, n_rows - start), start)

    return Opened(schema=schema, read=read, constants=whole)
