"""Files of arrays (`.npy`, `.npz`, `.safetensors`), read some rows at a time.

Rows are read, not memory-mapped: memory stays constant, and a file that is truncated meanwhile
raises an error instead of killing the process.
"""

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import file_error, short
from focalibrate.io._frame import Column, Frame, Load
from focalibrate.io._npy import (
    as_text,
    check_size,
    described,
    open_npy,
    read_header,
    squeezed,
    unreadable,
)
from focalibrate.io._npz import damage_named, member_columns
from focalibrate.io._place import Place
from focalibrate.io._safetensors import (
    DTYPES,
    names_from_json,
    read_safetensors_header,
    tensor_column,
)
from focalibrate.io._stream import Read, Stream, Take, whole_stream

FAR_APART = 1 << 16
"""Rows of at least so many bytes are worth looking up; shorter ones are read on the way."""


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
        return self.dtype.itemsize * prod(self.shape[1:])

    def take(self, file: IO[bytes], n_rows: int, path: Path) -> NDArray[Any]:
        """Return the next rows of the opened file."""
        size = n_rows * self.row_bytes
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


def stream_npy(place: Place) -> Stream:
    """Return the rows of an `.npy` file."""
    name = place.path.stem
    with place.open() as file:
        header = read_header(file, path=place.path, name=name)
    check_size(header, place.size, path=place.path)
    if not _is_row_by_row(header.fortran_order, header.shape):
        return whole_stream(place, replace(open_npy(place.local()), path=place.path))
    column = described(name, header.shape, header.dtype)
    opened = _at(place, header.n_bytes)
    array = _Array(column, header.dtype, header.shape, opened, is_plain=True)
    return _stream(place, [array])


def _is_row_by_row(fortran_order: bool, shape: tuple[int, ...]) -> bool:
    return not fortran_order or len(shape) < 2


def _at(place: Place, offset: int) -> Callable[[ExitStack], IO[bytes]]:
    def opened(stack: ExitStack) -> IO[bytes]:
        file = stack.enter_context(place.open())
        file.seek(offset)
        return file

    return opened


def stream_npz(place: Place) -> Stream:
    """Return the rows of the arrays of an `.npz` file, decompressed as they are read."""
    path = place.path
    with damage_named(path), place.open() as raw, zipfile.ZipFile(raw) as archive:
        members = member_columns(archive, path)
    arrays: list[_Array | Column] = []
    for stored, column, header in members:
        if header is None or not _is_row_by_row(header.fortran_order, header.shape):
            arrays.append(column if header is None else _transposed(column, path))
            continue
        arrays.append(_Array(column, header.dtype, header.shape, _member(place, stored, header)))
    return _stream(place, arrays)


def _transposed(column: Column, path: Path) -> Column:
    return unreadable(
        column.name,
        file_error(
            path,
            f"`{short(column.name)}` is stored by column, which cannot be read in batches. Save "
            "it with `np.ascontiguousarray`.",
        ),
    )


def _member(place: Place, stored: str, header: Any) -> Callable[[ExitStack], IO[bytes]]:
    def opened(stack: ExitStack) -> IO[bytes]:
        archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(place.open())))
        file = stack.enter_context(archive.open(stored))
        file.read(header.n_bytes)
        return file

    return opened


def stream_safetensors(place: Place) -> Stream:
    """Return the rows of the tensors of a `.safetensors` file."""
    with place.open() as file:
        tensors, metadata = read_safetensors_header(place.path, file, place.size)
    arrays: list[_Array | Column] = []
    for name, info in tensors.items():
        column = tensor_column(place.path, name, info)
        if column.problem is not None:
            arrays.append(column)
            continue
        dtype = np.dtype(DTYPES[info.dtype])
        opened = _at(place, info.start)
        is_bfloat = info.dtype == "BF16"
        array = _Array(column, dtype, info.shape, opened, is_bfloat=is_bfloat, is_plain=True)
        arrays.append(array)
    names = names_from_json(metadata.get("class_names"), place.path)
    found = _stream(place, arrays)
    return replace(found, frame=replace(found.frame, class_names=names))


def _stream(place: Place, arrays: Sequence[_Array | Column]) -> Stream:
    path = place.path
    columns = tuple(a.column if isinstance(a, _Array) else a for a in arrays)
    sizes = {i: a.shape[0] for i, a in enumerate(arrays) if isinstance(a, _Array) and a.shape}

    def checked(i: int) -> _Array:
        array = arrays[i]
        if isinstance(array, _Array):
            return array
        raise array.problem or file_error(path, f"`{short(array.name)}` cannot be read.")

    def load(wanted: Sequence[int], _: object) -> list[NDArray[Any]]:
        with damage_named(path), ExitStack() as stack:
            found = []
            for i in wanted:
                array = checked(i)
                whole = replace(array, shape=array.shape or (1,))
                found.append(whole.take(array.open(stack), sizes.get(i, 1), path))
            return found

    base = Frame(path=path, columns=columns, load=load, is_table=False)

    def read(wanted: Sequence[int] | None, rows: int) -> Iterator[Frame]:
        needed = [i for i in sizes if wanted is None or i in wanted]
        for i in wanted or ():
            checked(i)
        n_rows = max((sizes[i] for i in needed), default=0)
        with damage_named(path), ExitStack() as stack:
            files = {i: checked(i).open(stack) for i in needed}
            for start in range(0, n_rows, rows):
                taken = {
                    i: checked(i).take(files[i], max(0, min(rows, sizes[i] - start)), path)
                    for i in needed
                }
                yield replace(base, load=_loader(taken, load, slice(start, start + rows)))

    def take(wanted: Sequence[int], rows: NDArray[np.intp]) -> Frame:
        with ExitStack() as stack:
            taken = {}
            for i in wanted:
                array = checked(i)
                file = array.open(stack)
                first = file.tell()
                parts = []
                for row in rows.tolist():
                    file.seek(first + row * array.row_bytes)
                    parts.append(array.take(file, 1, path))
                taken[i] = np.concatenate(parts)
            return replace(base, load=_loader(taken, load, slice(0)))

    is_plain = all(isinstance(array, _Array) and array.is_plain for array in arrays)
    is_wide = any(isinstance(array, _Array) and array.row_bytes >= FAR_APART for array in arrays)
    found = take if is_plain and is_wide else None
    return Stream(place=place, frame=base, n_rows=None, read=read, take=found)


def _loader(taken: dict[int, NDArray[Any]], load: Load, part: slice) -> Load:
    """Return a loader of the rows that were read; a single number counts as one row."""
    return lambda positions, progress: [
        taken[i] if i in taken else load([i], progress)[0][part] for i in positions
    ]


def side_by_side(places: Mapping[str, Place]) -> Stream:
    """Return several `.npy` files as the arrays of one."""
    if len(places) == 1:
        ((name, place),) = places.items()
        stream = stream_npy(place)
        column = replace(stream.frame.columns[0], name=name)
        return replace(
            stream,
            frame=_renamed(stream.frame, column),
            read=_renaming(stream, column),
            take=_taking(stream.take, column),
        )
    arrays: list[_Array | Column] = []
    for name, place in places.items():
        with place.open() as file:
            header = read_header(file, path=place.path, name=name)
        if not _is_row_by_row(header.fortran_order, header.shape):
            arrays.append(_transposed(described(name, (), header.dtype), place.path))
            continue
        column = described(name, header.shape, header.dtype)
        opened = _at(place, header.n_bytes)
        arrays.append(_Array(column, header.dtype, header.shape, opened, is_plain=True))
    first = next(iter(places.values()))
    size = sum(place.size for place in places.values())
    return replace(_stream(replace(first, size=size), arrays), is_one_file=False)


def _renamed(frame: Frame, column: Column) -> Frame:
    return replace(frame, columns=(column,))


def _renaming(stream: Stream, column: Column) -> Read:
    def read(wanted: Sequence[int] | None, rows: int) -> Iterator[Frame]:
        for frame in stream.read(wanted, rows):
            yield _renamed(frame, column)

    return read


def _taking(take: Take | None, column: Column) -> Take | None:
    return None if take is None else lambda wanted, rows: _renamed(take(wanted, rows), column)
