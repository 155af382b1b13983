"""Opening predictions: a file, a folder, a glob, a URL or standard input."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from focalibrate.io._bytes import stdin_source
from focalibrate.io._error import file_error
from focalibrate.io._formats import Opening, open_file, open_text_source
from focalibrate.io._frame import Frame, Progress
from focalibrate.io._parts import find_parts, is_pattern, name_of, natural, open_parts
from focalibrate.io._place import remote_places, url_of
from focalibrate.io.checksum import sha256_of_all


@dataclass(frozen=True)
class Opened:
    """The columns of what was opened, and how to compute the checksum of its bytes."""

    frame: Frame
    checksum: Callable[[Progress], str]


def open_any(paths: Path | Sequence[Path], opening: Opening) -> Opened:
    """Open a file, a folder, a glob, a URL, standard input, or several of the first four."""
    if isinstance(paths, Path):
        paths = [paths]
    path = name_of(paths)
    if str(path) == "-":
        source = stdin_source(limit=opening.limit)
        return Opened(open_text_source(source, opening), lambda _: _digest(source.content or b""))
    parts = [part for one in paths for part in _local_parts(one)]
    is_one = parts == [path]
    frame = open_file(path, opening) if is_one else open_parts(path, parts, opening)
    return Opened(frame, lambda progress: sha256_of_all(parts, progress=progress))


def _local_parts(path: Path) -> list[Path]:
    """Return the files of a path in order; those behind a URL are downloaded."""
    url = url_of(path)
    if url is not None:
        places = sorted(remote_places(url), key=lambda place: natural(place.path))
        return [place.local() for place in places]
    if path.is_dir() or is_pattern(path):
        return find_parts(path)
    check_readable(path)
    return [path]


def _digest(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def check_readable(path: Path) -> None:
    """Raise where `path` cannot be opened or is empty."""
    try:
        size = path.stat().st_size
        regular = path.is_file()
        if regular:  # opening a pipe would wait for its writer
            path.open("rb").close()
    except FileNotFoundError as error:
        raise file_error(path, "does not exist. Check the name and the folder.") from error
    except PermissionError as error:
        raise file_error(path, "may not be read: permission denied. Check who owns it.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise file_error(path, f"could not be opened: {reason}.") from error
    if not regular:
        raise file_error(path, "is not a regular file. Save it to disk first.")
    if size == 0:
        raise file_error(path, "is empty (0 bytes). Write or copy it again.")
