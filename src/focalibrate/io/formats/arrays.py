"""Files of arrays: `.npy`, `.npz` and `.safetensors`. Headers are checked, rows are read.

Rows are read, not memory-mapped: memory stays constant, and a file that is truncated meanwhile
raises an error instead of killing the process.
"""

import io
import json
import lzma
import math
import re
import sys
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io.errors import PredictionFileError, file_error, listing, short
from focalibrate.io.formats.arrow import names_from_json
from focalibrate.io.formats.opened import Opened
from focalibrate.io.options import check_fits
from focalibrate.io.source import Part
from focalibrate.io.table import Column, Kind, Schema, Table

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

DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,  # encrypted members, and NotImplementedError for unknown compression
    OverflowError,
    UnicodeDecodeError,
    *HEADER_DAMAGE,
)
"""Exceptions that `zipfile` and NumPy raise on a damaged archive."""

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

FAR_APART = 1 << 16
"""Rows of at least so many bytes are worth looking up; shorter ones are read on the way."""


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


def unreadable(name: str, problem: PredictionFileError) -> Column:
    """Return the column of an array that cannot be read."""
    return Column(name=name, kind="other", problem=problem)


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


@dataclass(frozen=True)
class _Array:
    """One array of a file: where its numbers begin, and how they are stored.

    Attributes:
        column: what it is called and holds.
        dtype: of the stored numbers.
        shape: of the whole array.
        open: the file, or member of an archive, at the first number.
        is_bfloat: the numbers are bfloat16, stored as bits.
        is_plain: the numbers are stored as they are, so that any row can be looked up.
    """

    column: Column
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    open: Callable[[ExitStack], IO[bytes]]
    is_bfloat: bool = False
    is_plain: bool = False

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def take(self, file: IO[bytes], n_rows: int, path: Path, limit: int) -> NDArray[Any]:
        """Return the next rows of the opened file."""
        size = n_rows * self.row_bytes
        check_fits(path, size, limit)
        buffer = np.empty(size, np.uint8)
        view, done = buffer.data, 0
        while done < size:
            n = _read_into(file, view[done : done + (1 << 20)])
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


def _read_into(file: IO[bytes], view: memoryview) -> int:
    """Read bytes to where they are wanted, and return how many."""
    read_into: Callable[[memoryview], int] | None = getattr(file, "readinto", None)
    if read_into is not None:
        return read_into(view)
    piece = file.read(len(view))
    view[: len(piece)] = piece
    return len(piece)


def open_npy(part: Part, *, limit: int) -> Opened:
    """Return the rows of an `.npy` file."""
    return open_npy_files({part.path.stem: part}, limit=limit)


def open_npy_files(parts: Mapping[str, Part], *, limit: int) -> Opened:
    """Return several `.npy` files as the arrays of one."""
    arrays: list[_Array | Column] = []
    for name, part in parts.items():
        with part.open() as file:
            header = read_header(file, path=part.path, name=name)
        check_size(header, part.size, path=part.path)
        arrays.append(
            _Array(
                described(name, header.shape, header.dtype),
                header.dtype,
                header.shape,
                _by_row(header, _at(part, header.n_bytes)),
                is_plain=not header.fortran_order,
            )
        )
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


def _by_row(
    header: NpyHeader, opened: Callable[[ExitStack], IO[bytes]]
) -> Callable[[ExitStack], IO[bytes]]:
    """Return the numbers row by row; an array stored column by column is read whole."""
    if not header.fortran_order or len(header.shape) < 2:
        return opened

    def turned(stack: ExitStack) -> IO[bytes]:
        numbers = np.frombuffer(opened(stack).read(header.data_bytes), header.dtype)
        return io.BytesIO(np.ascontiguousarray(numbers.reshape(header.shape, order="F")).data)

    return turned


def _at(part: Part, offset: int) -> Callable[[ExitStack], IO[bytes]]:
    def opened(stack: ExitStack) -> IO[bytes]:
        file = stack.enter_context(part.open())
        file.seek(offset)
        return file

    return opened


def open_npz(part: Part, *, limit: int) -> Opened:
    """Return the rows of the arrays of an `.npz` file, decompressed as they are read."""
    path = part.path
    with part.open() as raw:
        check_is_zip(raw, path)
        raw.seek(0)
        with damage_named(path), zipfile.ZipFile(raw) as archive:
            members = member_columns(archive, path)
    arrays: list[_Array | Column] = []
    for stored, column, header in members:
        if header is None:
            arrays.append(column)
            continue
        opened = _by_row(header, _member(part, stored, header))
        arrays.append(_Array(column, header.dtype, header.shape, opened))
    return _opened(path, arrays, limit=limit)


def _member(part: Part, stored: str, header: NpyHeader) -> Callable[[ExitStack], IO[bytes]]:
    def opened(stack: ExitStack) -> IO[bytes]:
        archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(part.open())))
        file = stack.enter_context(archive.open(stored))
        file.read(header.n_bytes)
        return file

    return opened


def check_is_zip(file: IO[bytes], path: Path) -> None:
    """Raise where the first bytes are not those of a zip archive."""
    magic = file.read(4)
    if not magic.startswith(b"PK"):
        raise file_error(
            path,
            f"is not an .npz file: it begins with {magic!r}, not with the mark of a zip archive. "
            "If it was copied, copy it again; else write it with np.savez.",
        )


def member_columns(
    archive: zipfile.ZipFile, path: Path
) -> list[tuple[str, Column, NpyHeader | None]]:
    """Return for every array its name in the archive, its column, and its header if readable."""
    members = [info for info in archive.infolist() if not info.is_dir()]
    names = [info.filename.removesuffix(".npy") for info in members]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise file_error(
            path, f"holds {listing([f'`{n}`' for n in twice])} more than once. Write it again."
        )
    return [
        (info.filename, *_column(archive, info, name, path))
        for info, name in zip(members, names, strict=True)
    ]


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Turn the errors of a damaged archive into a `PredictionFileError`."""
    try:
        yield
    except (PredictionFileError, MemoryError):
        raise
    except DAMAGE as error:
        raise file_error(
            path,
            f"is truncated or damaged ({short(error)}). Copy it again, or write it again with "
            "np.savez.",
        ) from error


def _column(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, path: Path
) -> tuple[Column, NpyHeader | None]:
    try:
        with archive.open(info) as file:
            header = read_header(file, path=path, name=name)
            if header.n_bytes + header.data_bytes != info.file_size:
                raise file_error(
                    path,
                    f"`{short(name)}` is damaged: its header promises {header.data_bytes:,} bytes "
                    f"of numbers, {info.file_size - header.n_bytes:,} are there. Write the file "
                    "again.",
                )
    except PredictionFileError as problem:
        return unreadable(name, problem), None
    return described(name, header.shape, header.dtype), header


@dataclass(frozen=True)
class TensorInfo:
    """Position of one tensor in the file, checked against the file's size."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def open_safetensors(part: Part, *, limit: int) -> Opened:
    """Return the rows of the tensors; ``class_names`` in the metadata is a JSON list."""
    with part.open() as file:
        tensors, metadata = read_safetensors_header(part.path, file, part.size)
    arrays: list[_Array | Column] = []
    for name, info in tensors.items():
        column = tensor_column(part.path, name, info)
        if column.problem is not None:
            arrays.append(column)
            continue
        arrays.append(
            _Array(
                column,
                np.dtype(DTYPES[info.dtype]),
                info.shape,
                _at(part, info.start),
                is_bfloat=info.dtype == "BF16",
                is_plain=True,
            )
        )
    names = names_from_json(metadata.get("class_names"), part.path)
    found = _opened(part.path, arrays, limit=limit)
    return replace(found, schema=replace(found.schema, class_names=names))


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
        return replace(described(name, info.shape, np.dtype(np.float32)), is_half=True)
    return described(name, info.shape, np.dtype(DTYPES[info.dtype]))


def _damaged(path: Path, finding: str) -> PredictionFileError:
    return file_error(
        path,
        f"is not a valid .safetensors file: {finding}. If it was copied, copy it again; else "
        "write it with the safetensors library.",
    )


def _opened(path: Path, arrays: Sequence[_Array | Column], *, limit: int) -> Opened:
    columns = tuple(a.column if isinstance(a, _Array) else a for a in arrays)
    sizes = {i: a.shape[0] for i, a in enumerate(arrays) if isinstance(a, _Array) and a.shape}
    schema = Schema(path=path, columns=columns, is_table=False)

    def checked(i: int) -> _Array:
        array = arrays[i]
        if isinstance(array, _Array):
            return array
        raise array.problem or file_error(path, f"`{short(array.name)}` cannot be read.")

    def whole(wanted: Sequence[int]) -> list[NDArray[Any]]:
        with damage_named(path), ExitStack() as stack:
            found = []
            for i in wanted:
                array = checked(i)
                shaped = replace(array, shape=array.shape or (1,))
                found.append(shaped.take(array.open(stack), sizes.get(i, 1), path, limit))
            return found

    def read(wanted: Sequence[int] | None, rows: int, _: int | None) -> Iterator[Table]:
        needed = [i for i in sizes if wanted is None or i in wanted]
        for i in wanted or ():
            checked(i)
        n_rows = max((sizes[i] for i in needed), default=0)
        if not n_rows:
            yield Table(schema, {}, 0)  # whoever needs an array says why it cannot be read
        with damage_named(path), ExitStack() as stack:
            files = {i: checked(i).open(stack) for i in needed}
            for start in range(0, n_rows, rows):
                taken = {
                    i: checked(i).take(files[i], max(0, min(rows, sizes[i] - start)), path, limit)
                    for i in needed
                }
                yield Table(schema, taken, min(rows, n_rows - start), start)

    def take(wanted: Sequence[int], rows: NDArray[np.intp]) -> Table:
        with ExitStack() as stack:
            taken = {}
            for i in wanted:
                array = checked(i)
                file = array.open(stack)
                first = file.tell()
                parts = []
                for row in rows.tolist():
                    file.seek(first + row * array.row_bytes)
                    parts.append(array.take(file, 1, path, limit))
                taken[i] = np.concatenate(parts)
            return Table(schema, taken, len(rows))

    is_plain = all(isinstance(array, _Array) and array.is_plain for array in arrays)
    is_wide = any(isinstance(array, _Array) and array.row_bytes >= FAR_APART for array in arrays)
    return Opened(
        schema=schema, read=read, take=take if is_plain and is_wide else None, constants=whole
    )
