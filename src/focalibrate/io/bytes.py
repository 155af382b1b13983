"""Bytes of a file or of standard input, decompressed up to a limit."""

import bz2
import gzip
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import pyarrow as pa

from focalibrate.io.errors import PredictionFileError, file_error, short
from focalibrate.io.options import human


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


COMPRESSED: Mapping[str, Callable[[IO[bytes], Path], Any]] = {
    ".gz": lambda raw, _: gzip.GzipFile(fileobj=raw),
    ".bz2": lambda raw, _: bz2.BZ2File(raw),
    ".xz": lambda raw, _: lzma.LZMAFile(raw),  # noqa: SIM115 closed by who opens it
    ".zip": _open_zip,
    ".zst": lambda raw, _: pa.CompressedInputStream(raw, "zstd"),
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
"""No limit: the bytes are read in batches and never held in memory whole."""


@dataclass(frozen=True)
class StoredBytes:
    """Bytes that can be opened several times.

    Attributes:
        path: what messages call it.
        opener: opens the stored bytes.
        size: stored bytes.
        compression: suffix of the compression, or "".
        limit: most bytes after decompression.
    """

    path: Path
    opener: Callable[[], IO[bytes]]
    size: int
    compression: str = ""
    limit: int = UNBOUNDED

    def open(self) -> IO[bytes]:
        """Return the bytes from their start, decompressed."""
        raw = self.opener()
        if not self.compression:
            return raw
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


def stdin_bytes(*, limit: int) -> bytes:
    """Return all of standard input."""
    content = sys.stdin.buffer.read(limit + 1)
    if len(content) > limit:
        raise file_error(
            "standard input", f"holds more than {human(limit)}, the limit (--max-memory)."
        )
    if not content:
        raise file_error("standard input", "is empty. Pipe a table into it.")
    return content


def compression_of(start: bytes) -> str:
    """Return the suffix of the compression that the first bytes show, or ""."""
    return next((suffix for magic, suffix in MAGIC.items() if start.startswith(magic)), "")


@contextmanager
def damage_named(source: StoredBytes) -> Iterator[None]:
    """Turn the errors of damaged bytes into a `PredictionFileError`."""
    try:
        yield
    except PredictionFileError:
        raise
    except DAMAGE as error:
        text = f"is truncated or damaged ({short(error)}). Copy or write it again."
        if isinstance(error, OSError) and not source.compression:
            text = f"could not be read: {error.strerror or error}."
        raise file_error(source.path, text) from error


@contextmanager
def compressed_output(path: Path, inside: str) -> Iterator[IO[bytes]]:
    """Open a file to write, compressed as its suffix says; equal content gives equal bytes.

    Args:
        path: the file.
        inside: name of the file in a zip archive.
    """
    suffix = path.suffix.lower()
    with ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("wb"))
        if suffix == ".gz":
            raw = stack.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
        elif suffix == ".bz2":
            raw = stack.enter_context(bz2.open(raw, "wb"))
        elif suffix == ".xz":
            raw = stack.enter_context(lzma.open(raw, "wb"))
        elif suffix == ".zst":
            raw = stack.enter_context(pa.CompressedOutputStream(raw, "zstd"))
        elif suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(raw, "w"))
            member = zipfile.ZipInfo(inside)  # dated 1980
            member.compress_type = zipfile.ZIP_DEFLATED
            raw = stack.enter_context(archive.open(member, "w", force_zip64=True))
        yield raw


@contextmanager
def text_file(path: Path, suffix: str) -> Iterator[IO[str]]:
    """Open a text file of a format to write, compressed as the last suffix of its name says."""
    with (
        compressed_output(path, f"predictions{suffix}") as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as text,
    ):
        yield text
