"""The `.npz` format: named arrays in a zip archive."""

import lzma
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.lib import format as npy_format
from numpy.typing import NDArray

from focalibrate.io._error import PredictionFileError, file_error, listing, short
from focalibrate.io._frame import Column, Frame, Progress
from focalibrate.io._limit import check_fits
from focalibrate.io._npy import (
    HEADER_DAMAGE,
    NpyHeader,
    as_text,
    described,
    read_header,
    unreadable,
)

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


def open_npz(path: Path, *, limit: int) -> Frame:
    """Return the arrays by their keys; each is decompressed when it is needed."""
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic.startswith(b"PK"):
        raise file_error(
            path,
            f"is not an .npz file: it begins with {magic!r}, not with the mark of a zip archive. "
            "If it was copied, copy it again; else write it with np.savez.",
        )
    with damage_named(path), zipfile.ZipFile(path) as archive:
        members = member_columns(archive, path)
    stored = [name for name, _, _ in members]
    columns = tuple(column for _, column, _ in members)

    def load(wanted: Sequence[int], progress: Progress) -> list[NDArray[Any]]:
        with damage_named(path), zipfile.ZipFile(path) as archive:
            found = []
            for done, i in enumerate(wanted, start=1):
                found.append(_array(archive, stored[i], columns[i], path, limit=limit))
                progress(done, len(wanted))
            return found

    return Frame(path=path, columns=columns, load=load, is_table=False)


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


def _array(
    archive: zipfile.ZipFile, stored: str, column: Column, path: Path, *, limit: int
) -> NDArray[Any]:
    if column.problem is not None:
        raise column.problem
    check_fits(path, archive.getinfo(stored).file_size, limit)
    with archive.open(stored) as file:
        array = npy_format.read_array(file, allow_pickle=False)
        file.read(1)  # reaching the end makes zipfile compare the checksum
    return as_text(array, path=path, name=column.name)
