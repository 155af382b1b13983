"""Opening predictions: a file, a folder, a glob, a URL or standard input."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from focalibrate.io._bytes import stdin_source
from focalibrate.io._error import file_error
from focalibrate.io._formats import Opening, open_file, open_text_source
from focalibrate.io._frame import Frame, Progress
from focalibrate.io._parts import is_pattern, joined, natural, open_parts
from focalibrate.io._place import Place, remote_places, url_of
from focalibrate.io.checksum import sha256_of_all


@dataclass(frozen=True)
class Opened:
    """The columns of what was opened, and how to compute the checksum of its bytes."""

    frame: Frame
    checksum: Callable[[Progress], str]


def open_any(path: Path, opening: Opening) -> Opened:
    """Open a file, a folder, a glob or standard input."""
    if str(path) == "-":
        source = stdin_source(limit=opening.limit)
        return Opened(open_text_source(source, opening), lambda _: _digest(source.content or b""))
    url = url_of(path)
    if url is not None:
        return _open_remote(path, remote_places(url), opening)
    if path.is_dir() or is_pattern(path):
        frame, parts = open_parts(path, opening)
        return Opened(frame, lambda progress: sha256_of_all(parts, progress=progress))
    check_readable(path)
    frame = open_file(path, opening)
    return Opened(frame, lambda progress: sha256_of_all([path], progress=progress))


def _open_remote(path: Path, places: Sequence[Place], opening: Opening) -> Opened:
    """Open files behind a URL, downloaded into a temporary folder."""
    local = [place.local() for place in sorted(places, key=lambda place: natural(place.path))]
    frames = [open_file(file, opening) for file in local]
    frame = joined(path, frames, opening)
    return Opened(frame, lambda progress: sha256_of_all(local, progress=progress))


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
