"""SHA-256 of files, read in pieces."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from focalibrate.io._frame import Progress

CHUNK = 1 << 22


def sha256_of_all(paths: Sequence[Path], *, progress: Progress | None = None) -> str:
    """Return the SHA-256 of the bytes of several files one after another, in hex."""
    digest = hashlib.sha256()
    size = sum(path.stat().st_size for path in paths)
    done = 0
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(CHUNK):
                digest.update(piece)
                done += len(piece)
                if progress is not None:
                    progress(done, max(size, done))
    return digest.hexdigest()
