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
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow as pa

from focalibrate.io.errors import PredictionFileError, file_error, short
from focalibrate.io.options import human


def _open_zip(raw: IO[bytes], path: Path) -> IO[bytes]:
    try:
        archive = zipfile.ZipFile(raw)
        inside = [i for i in archive.infolist() if not i.is_dir() and "__MACOSX" not in i.filename]
        if len(inside) != 1:
            raise file_error(path, f"holds {len(inside)} files, not one. Unpack it.")
        return archive.open(inside[0])
    except (NotImplementedError, RuntimeError) as error:  # an unknown method, or encrypted
        raise file_error(path, f"could not be unpacked: {error}. Unpack it.") from error


class Codec(NamedTuple):
    """A compression: first bytes of its files, how to read one, and how to write one."""

    magic: bytes
    unpacked: Callable[[IO[bytes], Path], Any]
    packed: Callable[[IO[bytes]], Any]


CODECS: Mapping[str, Codec] = {
    ".gz": Codec(
        b"\x1f\x8b",
        lambda raw, _: gzip.GzipFile(fileobj=raw),
        lambda raw: gzip.GzipFile("", "wb", fileobj=raw, mtime=0),
    ),
    ".bz2": Codec(b"BZh", lambda raw, _: bz2.BZ2File(raw), lambda raw: bz2.BZ2File(raw, "wb")),
    ".xz": Codec(
        b"\xfd7zXZ\x00",
        lambda raw, _: lzma.LZMAFile(raw),  # noqa: SIM115 closed by who opens it
        lambda raw: lzma.LZMAFile(raw, "wb"),  # noqa: SIM115
    ),
    ".zip": Codec(b"PK\x03\x04", _open_zip, lambda raw: zipfile.ZipFile(raw, "w")),
    ".zst": Codec(
        b"\x28\xb5\x2f\xfd",
        lambda raw, _: pa.CompressedInputStream(raw, "zstd"),
        lambda raw: pa.CompressedOutputStream(raw, "zstd"),
    ),
}
"""Compressions by their suffixes."""

DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
"""Exceptions that damaged compressed bytes raise."""

Kinds: TypeAlias = tuple[type[Exception], ...]


def unpacked(raw: IO[bytes], path: Path, compression: str) -> IO[bytes]:
    """Return the bytes of an opened file, decompressed."""
    if not compression:
        return raw
    try:
        return _Unpacked(CODECS[compression].unpacked(raw, path), raw)
    except BaseException:
        raw.close()
        raise


class _Unpacked(io.BufferedReader):
    """Decompressed bytes, which close the file below them, too."""

    def __init__(self, inner: Any, raw: IO[bytes]) -> None:
        super().__init__(inner)
        self._stored = raw

    def close(self) -> None:
        super().close()
        self._stored.close()


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
    return next((s for s, codec in CODECS.items() if start.startswith(codec.magic)), "")


@contextmanager
def refused(path: Path, text: str, kinds: Kinds = (Exception,)) -> Iterator[None]:
    """Turn what a library raises on a damaged file into a `PredictionFileError`.

    Args:
        path: the file.
        text: what to say of it; ``{}`` is the first line of the library's error.
        kinds: exceptions of the library, which mostly does not say which these are.
    """
    try:
        yield
    except (PredictionFileError, MemoryError):
        raise
    except kinds as error:
        first = next(iter(str(error).splitlines()), "") or type(error).__name__
        what = getattr(error, "strerror", None) or first
        raise file_error(path, text.replace("{}", short(what))) from error


def optional(name: str, path: Path, what: str, instead: str = "") -> Any:
    """Return a package that only some formats need, or raise with how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        text = f"{what} needs {name}. Install it: `pip install {name}`{instead}."
        raise file_error(path, text) from error


@contextmanager
def text_file(path: Path, suffix: str) -> Iterator[IO[str]]:
    """Open a text file to write, compressed as its name says; equal text gives equal bytes."""
    with ExitStack() as stack:
        raw: Any = stack.enter_context(path.open("wb"))
        if path.suffix.lower() in CODECS:
            raw = stack.enter_context(CODECS[path.suffix.lower()].packed(raw))
        if isinstance(raw, zipfile.ZipFile):
            member = zipfile.ZipInfo(f"predictions{suffix}")  # dated 1980
            member.compress_type = zipfile.ZIP_DEFLATED
            raw = stack.enter_context(raw.open(member, "w", force_zip64=True))
        yield stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
