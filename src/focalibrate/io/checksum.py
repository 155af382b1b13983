"""SHA-256 of a file, read in pieces."""

import hashlib
from pathlib import Path

from focalibrate.io._table import Progress

CHUNK = 1 << 22


def sha256_of(path: Path, *, progress: Progress | None = None) -> str:
    """Return the SHA-256 of the bytes of `path`, in hex."""
    digest = hashlib.sha256()
    size = path.stat().st_size
    done = 0
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
            done += len(piece)
            if progress is not None:
                progress(done, max(size, done))
    return digest.hexdigest()
