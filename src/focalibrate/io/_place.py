"""Where the files of a data set are: on this machine, or behind a URL that pyarrow opens."""

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from focalibrate.io._arrow import import_arrow
from focalibrate.io._error import PredictionFileError, file_error, listing, short, shown
from focalibrate.io._formats import READERS, suffix_of

_URL = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.ASCII)
MARKS = "*?["


@dataclass(frozen=True)
class Place:
    """One file, local or remote.

    Attributes:
        path: the file; of a URL, what messages call it.
        size: its bytes.
        remote: the file system and the path in it, of a URL.
        changed: when a file behind a URL was last changed, in nanoseconds, if that is known.
    """

    path: Path
    size: int
    remote: tuple[Any, str] | None = None
    changed: int | None = None

    def open(self) -> IO[bytes]:
        """Return the file opened at its start; it can be seeked."""
        if self.remote is None:
            return self.path.open("rb")
        system, inside = self.remote
        with named_errors(self.path):
            return cast(IO[bytes], system.open_input_file(inside))

    def local(self) -> Path:
        """Return a local file, downloaded into a temporary folder if it is remote."""
        if self.remote is None:
            return self.path
        target = Path(_downloads()) / f"{abs(hash(self.remote[1]))}" / self.path.name
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with named_errors(self.path), self.open() as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 1 << 22)
        return target


def _downloads() -> str:
    global _folder
    if _folder is None:
        _folder = tempfile.mkdtemp(prefix="focalibrate-")
        atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    return _folder


_folder: str | None = None


def url_of(path: Path | str) -> str | None:
    """Return the URL in `path`, even if `Path` turned ``s3://`` into ``s3:/``; or None.

    Example:
        >>> url_of(Path("s3://bucket/a.parquet")), url_of("C:/a.csv"), url_of("file:///a.npz")
        ('s3://bucket/a.parquet', None, 'file:///a.npz')
    """
    text = str(path)
    found = _URL.match(text)
    if found is None or Path(text).exists():
        return None
    scheme = found[1]
    return f"{scheme}://{'/' if scheme == 'file' else ''}{text[found.end() :]}"


def remote_places(url: str) -> list[Place]:
    """Return the files behind a URL: one file, all of a folder, or those that match a pattern."""
    path = Path(url)
    system, inside = file_system(url, path)
    fs = import_arrow("pyarrow.fs", path=path)
    with named_errors(path):
        info = system.get_file_info([inside])[0]
    if info.type == fs.FileType.File:
        return [_place(system, info, url, inside)]
    has_marks = any(mark in inside for mark in MARKS)
    root = _before_marks(inside) if has_marks else inside
    with named_errors(path):
        found = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    files = [entry for entry in found if entry.type == fs.FileType.File]
    if has_marks:
        files = [entry for entry in files if _matches(entry.path, inside)]
    else:
        files = [entry for entry in files if not _is_hidden(entry.path, root)]
    if not files:
        raise file_error(path, "does not exist, or holds no files. Check the name.")
    known = [entry for entry in files if suffix_of(PurePosixPath(entry.path)) in READERS]
    if not known:
        names = listing([PurePosixPath(entry.path).name for entry in files])
        raise file_error(path, f"has no files of predictions ({', '.join(READERS)}): {names}.")
    return [_place(system, entry, url, inside) for entry in known]


def _place(system: Any, info: Any, url: str, inside: str) -> Place:
    """Return one file; messages call it by the URL with its own path in it."""
    base = url.partition("?")[0] if "?" in url and "?" not in inside else url
    head = base[: -len(inside)] if inside and base.endswith(inside) else base.partition("://")[0]
    name = f"{head}{info.path}" if head.endswith("/") else f"{head}://{info.path}"
    return Place(Path(shown(name)), int(info.size or 0), (system, info.path), info.mtime_ns)


def file_system(url: str, path: Path) -> tuple[Any, str]:
    """Return the file system for `url`: pyarrow's, or fsspec's if pyarrow has none."""
    fs = import_arrow("pyarrow.fs", path=path)
    pa = import_arrow("pyarrow", path=path)
    text, query = _split_query(url)
    try:
        system, inside = fs.FileSystem.from_uri(_quoted(text) + query)
        return system, inside
    except pa.ArrowInvalid as error:
        if "nrecognized filesystem type" not in str(error):
            raise file_error(path, f"could not be opened: {_first_line(error)}.") from error
    except (OSError, pa.ArrowException, ValueError) as error:
        raise file_error(path, f"could not be opened: {_first_line(error)}.") from error
    try:
        core = import_module("fsspec.core")
        system, inside = core.url_to_fs(text + query)
        return fs.PyFileSystem(fs.FSSpecHandler(system)), inside
    except (ImportError, ValueError, OSError) as error:
        scheme = url.partition("://")[0]
        raise file_error(
            path,
            f"{scheme}:// is opened neither by pyarrow nor by fsspec ({_first_line(error)}). "
            "Download the file, or install the package of fsspec that opens it.",
        ) from error


def _split_query(url: str) -> tuple[str, str]:
    """Return the URL without its options, and the options such as ``?region=eu-west-1``.

    Example:
        >>> _split_query("s3://b/part-?.csv"), _split_query("s3://b/x?region=eu")
        (('s3://b/part-?.csv', ''), ('s3://b/x', '?region=eu'))
    """
    text, mark, query = url.rpartition("?")
    if mark and re.fullmatch(r"[A-Za-z_]+=[^&]*(&[A-Za-z_]+=[^&]*)*", query):
        return text, f"?{query}"
    return url, ""


def _quoted(url: str) -> str:
    """Return the URL with the characters of a pattern escaped."""
    for mark in "?[] ":
        url = url.replace(mark, f"%{ord(mark):02X}")
    return url


def _before_marks(pattern: str) -> str:
    pieces = pattern.split("/")
    fixed = next(i for i, piece in enumerate(pieces) if any(mark in piece for mark in MARKS))
    return "/".join(pieces[:fixed])


def _matches(path: str, pattern: str) -> bool:
    """Return whether a path matches piece by piece; ``**`` is any number of folders.

    Example:
        >>> _matches("b/x/y/a.csv", "b/**/*.csv"), _matches("b/x/a.csv", "b/*.csv")
        (True, False)
    """
    return _pieces_match(path.strip("/").split("/"), pattern.strip("/").split("/"))


def _pieces_match(path: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_pieces_match(path[i:], pattern[1:]) for i in range(len(path) + 1))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _pieces_match(path[1:], pattern[1:])


def _is_hidden(path: str, root: str) -> bool:
    inside = path[len(root) :] if path.startswith(root) else path
    return any(piece.startswith(("_", ".")) for piece in inside.strip("/").split("/"))


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return short(shown(lines[0].rstrip(".")))


@contextmanager
def named_errors(path: Path, *, what: str = "read") -> Iterator[None]:
    """Turn the errors of a file system into one message with the URL."""
    try:
        yield
    except PredictionFileError:
        raise
    except FileNotFoundError as error:
        raise file_error(path, "does not exist. Check the name.") from error
    except (OSError, ValueError) as error:  # Arrow's errors are one or the other
        raise file_error(path, f"could not be {what}: {_first_line(error)}.") from error
