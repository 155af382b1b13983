"""Locks on files and folders that a killed process does not leave behind."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

fcntl: Any = import_module("fcntl") if os.name == "posix" else None  # else nothing is locked

HELD = (errno.EACCES, errno.EAGAIN)
"""Errors that mean that another process holds the lock."""


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
