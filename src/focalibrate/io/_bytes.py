"""Bytes of a file or of standard input, decompressed up to a limit."""

import bz2
import gzip
import importlib
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from focalibrate.io._error import file_error
from focalibrate.io._limit import human


def _open_zip(raw: IO[bytes], path: Path) -> IO[bytes]:
    """Return the only file in a zip archive."""
    try:
        archive = zipfile.ZipFile(raw)
        inside = [i for i in archive.infolist() if not i.is_dir() and "__MACOSX" not in i.filename]
        if len(inside) != 1:
            raise file_error(path, f"holds {len(inside)} files, not one. Unpack it.")
        return archive.open(inside[0])
    except (NotImplementedError, RuntimeError) as error:  # an unknown method, or encrypted
        raise file_error(path, f"could not be unpacked: {error}. Unpack it.") from error


def _open_zstd(raw: IO[bytes], path: Path) -> IO[bytes]:
    return cast(BinaryIO, _arrow(path).CompressedInputStream(raw, "zstd"))


def zstd_output(raw: IO[bytes], path: Path) -> Any:
    """Return a stream that writes compressed bytes into `raw`."""
    return _arrow(path).CompressedOutputStream(raw, "zstd")


def _arrow(path: Path) -> Any:
    """Return pyarrow, which has the only zstd of the packages that this one may need."""
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise file_error(
            path,
            ".zst needs pyarrow. Install it: `pip install 'focalibrate[parquet]'`; or use `zstd`.",
        ) from error


COMPRESSED: Mapping[str, Callable[[IO[bytes], Path], Any]] = {
    ".gz": lambda raw, _: gzip.GzipFile(fileobj=raw),
    ".bz2": lambda raw, _: bz2.BZ2File(raw),
    ".xz": lambda raw, _: lzma.LZMAFile(raw),  # noqa: SIM115 closed by who opens it
    ".zip": _open_zip,
    ".zst": _open_zstd,
}
MAGIC: Mapping[bytes, str] = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\x00": ".xz",
    b"PK\x03\x04": ".zip",
    b"\x28\xb5\x2f\xfd": ".zst",
}

DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Exceptions that damaged compressed bytes raise."""


UNBOUNDED = 1 << 62
"""No limit."""


@dataclass(frozen=True)
class StoredBytes:
    """Bytes that can be opened several times.

    Attributes:
        path: what messages call it.
        size: stored bytes, for progress.
        limit: most bytes after decompression.
        content: the bytes themselves, if they came from standard input.
        compression: suffix of the compression, or "".
        opener: opens the stored bytes, if they are not a local file.
    """

    path: Path
    size: int
    limit: int
    content: bytes | None = None
    compression: str = ""
    opener: Callable[[], IO[bytes]] | None = None

    def open(self) -> IO[bytes]:
        """Return the bytes from their start, decompressed."""
        stored: Any = self.path if self.opener is None else self.opener()
        if self.content is not None:
            stored = io.BytesIO(self.content)
        if not self.compression:
            return cast(BinaryIO, stored.open("rb") if isinstance(stored, Path) else stored)
        raw = stored.open("rb") if isinstance(stored, Path) else stored
        try:
            inner = COMPRESSED[self.compression](raw, self.path)
        except BaseException:
            raw.close()
            raise
        return cast(BinaryIO, _Bounded(inner, self, raw))


class _Bounded(io.BufferedIOBase):
    """A stream that raises an error after more bytes than the limit."""

    def __init__(self, inner: IO[bytes], source: StoredBytes, raw: IO[bytes]) -> None:
        self._inner, self._source, self._raw, self._done = inner, source, raw, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._source.limit - self._done + 1
        piece = self._inner.read(wanted if size is None or size < 0 else min(size, wanted))
        self._done += len(piece)
        if self._done > self._source.limit:
            raise file_error(
                self._source.path,
                f"holds more than {human(self._source.limit)} once decompressed, the limit. "
                "Raise it if the file is right.",
                fixes=[{"max_memory": f"{self._source.limit * 4 >> 20 or 1}MB"}],
            )
        return piece

    read1 = read

    def close(self) -> None:
        self._inner.close()
        self._raw.close()
        super().close()


def source_of(path: Path, *, limit: int) -> StoredBytes:
    """Return the bytes of `path`; its first bytes say whether they are compressed."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
    return StoredBytes(path, size, limit, compression=_compression(start))


def source_at(path: Path, size: int, opener: Callable[[], IO[bytes]]) -> StoredBytes:
    """Return the bytes that `opener` opens; the first of them say whether they are compressed.

    They are read in batches and never held in memory whole, so there is no limit.
    """
    with opener() as file:
        start = file.read(8)
    return StoredBytes(path, size, UNBOUNDED, compression=_compression(start), opener=opener)


def stdin_source(*, limit: int) -> StoredBytes:
    """Return all of standard input."""
    content = sys.stdin.buffer.read(limit + 1)
    if len(content) > limit:
        raise file_error(
            "standard input", f"holds more than {human(limit)}, the limit (--max-memory)."
        )
    if not content:
        raise file_error("standard input", "is empty. Pipe a table into it.")
    return StoredBytes(Path("-"), len(content), limit, content, _compression(content[:8]))


def _compression(start: bytes) -> str:
    return next((suffix for magic, suffix in MAGIC.items() if start.startswith(magic)), "")
