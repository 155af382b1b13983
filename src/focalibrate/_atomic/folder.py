"""Folders of results that are written atomically."""

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from focalibrate._atomic.lock import locked

MARK = ".focalibrate-"
"""Prefix of the names of temporary folders."""


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
def replaced_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of `target`, with all it holds, on success.

    Args:
        target: folder to replace, which need not exist; its parent must.
    """
    new = target.with_name(f"{MARK}{secrets.token_hex(6)}")
    new.mkdir()
    old = new.with_name(f"{new.name}-old")
    try:
        yield new
        if target.exists():
            target.rename(old)
        try:
            new.rename(target)
        except BaseException:
            if old.exists():
                old.rename(target)
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
