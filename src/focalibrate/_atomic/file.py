"""Writing a file atomically."""

import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from focalibrate._atomic.lock import try_lock

LEFTOVER_SECONDS = {True: 1, None: 60, False: float("inf")}
"""Age in seconds from which a temporary file is that of a killed run: where it can be locked,
where there are no locks, and where another process holds its lock."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, which do not name a file."""


@contextmanager
def atomic_path(target: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `target` that becomes `target` when the block succeeds.

    The temporary file has the suffix of `target`, is in the same folder and exists
    from the start, so that a folder that cannot be written to is found before any work.
    On any exception, Ctrl-C included, it is removed and `target` is as it was. Other
    programs never see a partial file. A symbolic link is followed, not replaced.

    Args:
        target: the file to make.
        force: replace `target` if it exists.

    Raises:
        FileExistsError: where `target` exists and `force` is not given, also where it came
            to exist while the block ran.
        OSError: where the file cannot be made; a full disk's error names `target`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     out = Path(folder, "result.json")
        ...     with atomic_path(out) as temporary:
        ...         _ = temporary.write_text("{}")
        ...     out.read_text(), len(list(Path(folder).iterdir()))
        ('{}', 1)
    """
    given = Path(target)
    final = Path(os.path.realpath(given))
    _check_target(given, final, force=force)
    name = f".{final.stem[:80]}.{secrets.token_hex(6)}{final.suffix}"
    temporary = final.with_name(name)
    _remove_leftovers(final)
    descriptor = _create(temporary, given)
    try:
        yield temporary
        _flush(temporary)
        _move(temporary, final, given, force=force)
    except OSError as error:
        if error.errno in NO_ROOM and error.filename in (None, str(temporary)):
            raise OSError(error.errno, os.strerror(error.errno), str(given)) from error
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)
        with suppress(FileNotFoundError):
            temporary.unlink()


def _check_target(given: Path, final: Path, *, force: bool) -> None:
    if final.is_dir():
        raise IsADirectoryError(f"{given}: is a folder. Give the name of a file.")
    if final.exists() and not final.is_file():
        raise OSError(f"{given}: is not a regular file, so it cannot be replaced whole.")
    if final.exists() and not force:
        raise _exists(given)


def _exists(given: Path) -> FileExistsError:
    return FileExistsError(
        f"{given}: already exists and is not overwritten. Choose another name, or pass "
        "`force=True` (command line: --force)."
    )


def _remove_leftovers(final: Path) -> None:
    """Remove old temporary files that killed runs left beside `final`."""
    pattern = re.compile(
        rf"\.{re.escape(final.stem[:80])}\.[0-9a-f]{{12}}{re.escape(final.suffix)}"
    )
    with suppress(OSError):
        for path in final.parent.iterdir():
            if pattern.fullmatch(path.name) is None:
                continue
            with suppress(OSError):
                age = time.time() - path.stat().st_mtime
                descriptor = os.open(path, os.O_RDWR)
                is_locked = try_lock(descriptor)
                os.close(descriptor)  # before it is removed: some systems need that
                if age >= LEFTOVER_SECONDS[is_locked]:
                    path.unlink()


def _create(temporary: Path, given: Path) -> int | None:
    """Make the file and return it open and locked, as a sign that it is being written.

    Without locks it is closed, and None returned: Windows does not rename an open file.
    """
    try:
        # Not `tempfile`: its files are readable by the owner only; results follow the umask.
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        if try_lock(descriptor):
            return descriptor
        os.close(descriptor)
        return None
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{given}: the folder {given.parent} does not exist. Make it first."
        ) from error
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), str(given)) from error


def _flush(temporary: Path) -> None:
    """Wait until the bytes are on disk, so that a power cut cannot leave an empty file."""
    descriptor = os.open(temporary, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move(temporary: Path, final: Path, given: Path, *, force: bool) -> None:
    if force:
        if final.exists():
            temporary.chmod(final.stat().st_mode & 0o777)
        os.replace(temporary, final)
        return
    try:
        os.link(temporary, final)  # unlike a rename, this fails if the name exists by now
    except FileExistsError:
        raise _exists(given) from None
    except OSError:  # a file system without hard links
        if final.exists():
            raise _exists(given) from None
        os.replace(temporary, final)
