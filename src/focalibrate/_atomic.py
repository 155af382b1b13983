"""Files and folders that are written atomically: complete or not at all."""

import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

fcntl: Any = import_module("fcntl") if os.name == "posix" else None  # else nothing is locked

LEFTOVER_SECONDS = {True: 1, None: 60, False: float("inf")}
"""Age in seconds from which a temporary file is that of a killed run: where it can be locked,
where there are no locks, and where another process holds its lock."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, which do not name a file."""

HELD = (errno.EACCES, errno.EAGAIN)
"""Errors that mean that another process holds a lock."""

MARK = ".focalibrate-"
"""Prefix of the names of temporary folders."""


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
    check_target(given, force=force)
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


def check_target(given: Path, *, force: bool) -> None:
    """Raise unless a file may be written; called before the work, and by `atomic_path` again."""
    final = Path(os.path.realpath(given))
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


def claim_folder(out: Path, names: Sequence[str], *, force: bool) -> None:
    """Raise unless files called `names` may be written into `out`; called before the work.

    Args:
        out: the folder, which need not exist.
        names: files that may be written.
        force: files of an earlier run may be replaced.

    Raises:
        ValueError: `out` is a file, or holds some of `names` and `force` is not given.
        OSError: `out` cannot be made or written to.
    """
    _check_free(out, names, force=force)
    made = _make(out)
    try:
        probe = out / f"{MARK}{secrets.token_hex(6)}"
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), str(out)) from error
    finally:
        _remove_empty(made)


def _check_free(out: Path, names: Sequence[str], *, force: bool) -> None:
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: exists and is not a folder. Name another with -o.")
    taken = [name for name in names if os.path.lexists(out / name)]
    if taken and not force:
        raise ValueError(
            f"{out}: holds {', '.join(taken)} of an earlier run. Pass --force to replace them "
            "(in Python: `force=True`), or name another folder."
        )


@contextmanager
def finish_folder(out: Path, names: Sequence[str] = (), *, force: bool = True) -> Iterator[Path]:
    """Yield a folder to write to; on success its files move to `out`, else all is removed.

    The folder is inside `out`, and so on the same disk, whatever is mounted there. Nobody
    else can write into `out` in this way meanwhile, and what a killed run left is removed.

    Args:
        out: where the files go; made if it does not exist.
        names: files of one run: those of an earlier one that this does not write are removed.
        force: replace files of an earlier run, also where they came to exist meanwhile.

    Raises:
        ValueError: `out` holds some of the files and `force` is not given.
        BlockingIOError: another run is writing into `out`.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as place:
        ...     with finish_folder(Path(place, "out")) as folder:
        ...         _ = (folder / "a.txt").write_text("done")
        ...     [p.name for p in Path(place, "out").iterdir()]
        ['a.txt']
    """
    made = _make(out)
    done = False
    try:
        with locked(out):
            for leftover in out.glob(f"{MARK}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            inside = out / f"{MARK}{secrets.token_hex(6)}"
            inside.mkdir()
            try:
                yield inside
                written = sorted(path.name for path in inside.iterdir())
                _check_free(out, list(dict.fromkeys([*names, *written])), force=force)
                _move_all(inside, out, written, [name for name in names if name not in written])
                done = True
            finally:
                shutil.rmtree(inside, ignore_errors=True)
    finally:
        if not done:
            _remove_empty(made)


def _move_all(inside: Path, out: Path, written: list[str], stale: list[str]) -> None:
    """Move new files into place, the old ones aside; on an error all is put back."""
    aside = inside / "replaced"
    while aside.name in written:
        aside = aside.with_name(aside.name + "_")
    aside.mkdir()
    moved: list[str] = []
    try:
        for name in [*written, *stale]:
            if os.path.lexists(out / name):
                (out / name).replace(aside / name)
        for name in written:
            (inside / name).replace(out / name)
            moved.append(name)
    except BaseException:
        for name in moved:
            with suppress(OSError):
                (out / name).replace(inside / name)
        for path in aside.iterdir():
            with suppress(OSError):
                path.replace(out / path.name)
        raise


def _make(out: Path) -> list[Path]:
    """Make `out` and its parents; return those that did not exist, the outermost first."""
    missing = [p for p in (out, *out.parents) if not p.exists()][::-1]
    out.mkdir(parents=True, exist_ok=True)
    return missing


def _remove_empty(made: list[Path]) -> None:
    for path in reversed(made):
        with suppress(OSError):
            path.rmdir()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock on `folder`, which the system drops when the process ends.

    On file systems without locks, none is used.

    Raises:
        BlockingIOError: another process holds it.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if try_lock(descriptor) is False:
            raise BlockingIOError(
                f"{folder}: another run is writing into this folder. Wait for it, or name another "
                "folder with -o."
            )
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool | None:
    """Lock an open file or folder.

    Returns:
        False if another process holds the lock; None where there are no locks.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in HELD else None
    return True


def json_text(value: Any, *, ensure_ascii: bool = True) -> str:
    """Return `value` as JSON with a line for each of its simplest parts, such as a list.

    `json.dumps` with an indent gives every number a line, and is ten times slower. Raises
    ValueError on nan and infinity.
    """
    encode = json.JSONEncoder(ensure_ascii=ensure_ascii, allow_nan=False).encode

    def pieces(part: Any, indent: str) -> Iterator[str]:
        values = part.values() if isinstance(part, dict) else part
        if not isinstance(part, (dict, list, tuple)) or not any(
            isinstance(v, (dict, list, tuple)) for v in values
        ):
            yield encode(part)
            return
        opening, closing = "{}" if isinstance(part, dict) else "[]"
        items = part.items() if isinstance(part, dict) else ((None, v) for v in part)
        for i, (key, inner) in enumerate(items):
            yield f"{',' if i else opening}\n{indent} "
            if isinstance(part, dict):
                yield f"{encode(str(key))}: "
            yield from pieces(inner, indent + " ")
        yield f"\n{indent}{closing}"

    return "".join(pieces(value, "")) + "\n"
