"""Writing calibrated probabilities part by part, in the layout of a data set that has parts."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate._atomic import atomic_path
from focalibrate.io._error import file_error
from focalibrate.io._formats import suffix_of
from focalibrate.io._write_batches import BATCH_WRITERS
from focalibrate.io.predictions import Predictions
from focalibrate.io.scan import Scan
from focalibrate.io.write import could_not_write, write_probs

MANIFEST = "_focalibrate-apply.json"
"""Lists the finished parts, their input and calibrator; readers ignore names with ``_``."""

Calibrated = Callable[[Predictions], tuple[Predictions, NDArray[Any]]]
"""Return a batch with its classes in order, and its calibrated probabilities ``[n, K]``."""


@dataclass(frozen=True)
class PartsWritten:
    """How many parts were written.

    Attributes:
        n_rows: rows of the parts that were written now.
        n_written: parts that were written now.
        n_kept: parts that an earlier run had finished.
    """

    n_rows: int
    n_written: int
    n_kept: int


def write_parts(
    scan: Scan,
    out: str | Path,
    calibrated: Calibrated,
    *,
    key: str,
    force: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> PartsWritten:
    """Write one file per part of `scan` into a folder, with the same names.

    Each part appears only when it is complete. After an interruption the same call continues:
    parts whose input and `key` have not changed are kept. Text tables, parquet, Arrow and
    JSON lines are written batch by batch; in other formats one part at a time is held in memory.

    Args:
        scan: the predictions that are calibrated.
        out: the folder, made if it does not exist.
        calibrated: computes the probabilities of a batch.
        key: identifies how they are computed; parts with another key are not mixed with these.
        force: replace what the folder holds of these names.
        progress: called with the rows done and the total.

    Raises:
        FileExistsError: where the folder has files of these names that no such run wrote.
        PredictionFileError: where a part cannot be read or written.
    """
    folder = Path(out)
    names = part_names(scan)
    done = _Manifest.load(folder, key, force=force)
    _check_free(folder, names, done, force=force)
    n_rows = n_kept = 0
    for index, name in enumerate(names):
        checksum = scan.checksum(index)
        target = folder / name
        if done.has(name, checksum, target):
            n_kept += 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        for rows in _write_part(scan, index, target, calibrated):
            n_rows += rows
            if progress is not None:
                progress(n_rows, scan.n_rows)
        done.add(name, checksum, target)
    return PartsWritten(n_rows, len(names) - n_kept, n_kept)


def part_names(scan: Scan) -> list[str]:
    """Return the paths of the parts below the folder that holds them all."""
    paths = [part.name for part in scan.parts]
    root = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [os.path.relpath(path, root) for path in paths]


def _write_part(scan: Scan, index: int, target: Path, calibrated: Calibrated) -> Iterator[int]:
    """Write one part and yield how many rows were written, as they are."""
    suffix = suffix_of(target)
    if suffix not in BATCH_WRITERS:
        like, probs = calibrated(scan.read_part(index))
        write_probs(target, [probs], like=like, force=True)
        yield like.n_rows
        return
    counts: list[int] = []

    def pairs() -> Iterator[tuple[Predictions, NDArray[Any]]]:
        for batch in scan.batches(index, keep=True):
            like, probs = calibrated(batch)
            counts.append(like.n_rows)
            yield like, np.ascontiguousarray(probs, dtype=like.scores.dtype)

    try:
        with atomic_path(target, force=True) as temporary:
            BATCH_WRITERS[suffix](temporary, pairs())
    except OSError as error:
        raise could_not_write(target, error) from error
    yield sum(counts)


def _check_free(folder: Path, names: list[str], done: "_Manifest", *, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise file_error(folder, "exists and is not a folder. Name another with -o.")
    taken = [name for name in names if (folder / name).exists() and name not in done.parts]
    if taken and not force:
        raise FileExistsError(
            f"{folder}: already holds {taken[0]}, which is not overwritten. Choose another "
            "folder, or pass `force=True` (command line: --force)."
        )


class _Manifest:
    """Which parts of a folder are done."""

    def __init__(self, path: Path, key: str, parts: dict[str, Any]) -> None:
        self._path, self._key, self.parts = path, key, parts

    @classmethod
    def load(cls, folder: Path, key: str, *, force: bool) -> "_Manifest":
        """Return what an earlier run finished; nothing if it had another input or key."""
        digest = hashlib.sha256(key.encode()).hexdigest()
        path = folder / MANIFEST
        if force or not path.exists():
            return cls(path, digest, {})
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            parts = {str(k): (str(v["input"]), int(v["size"])) for k, v in stored["parts"].items()}
            is_same = stored["key"] == digest
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise file_error(path, "is damaged. Remove it, or pass --force.") from error
        if not is_same:
            raise FileExistsError(
                f"{folder}: holds parts that another calibrator or other options made. Choose "
                "another folder, or pass `force=True` (command line: --force)."
            )
        return cls(path, digest, parts)

    def has(self, name: str, checksum: str, target: Path) -> bool:
        """Return whether a part is done, of the same input, and still there."""
        if name not in self.parts or not target.is_file():
            return False
        return bool(self.parts[name] == (checksum, target.stat().st_size))

    def add(self, name: str, checksum: str, target: Path) -> None:
        """Record a part as done."""
        self.parts[name] = (checksum, target.stat().st_size)
        stored = {
            "key": self._key,
            "parts": {k: {"input": c, "size": s} for k, (c, s) in self.parts.items()},
        }
        with atomic_path(self._path, force=True) as temporary:
            temporary.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
