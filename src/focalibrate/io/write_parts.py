"""Writing calibrated probabilities part by part, in the layout of a data set that has parts."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.io._error import file_error
from focalibrate.io._formats import suffix_of
from focalibrate.io._out_folder import OutFolder
from focalibrate.io._write_batches import BATCH_WRITERS
from focalibrate.io.predictions import Predictions
from focalibrate.io.scan import Scan
from focalibrate.io.write import WRITERS, could_not_write

MANIFEST = "_focalibrate-apply.json"
"""Lists the finished parts, their input and calibrator; readers ignore names with ``_``."""

MANY = 1000
"""With more parts than this, fewer than one in a thousand are made again after a kill."""

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


@dataclass(frozen=True)
class PartDone:
    """A part that is written.

    Attributes:
        checksum: SHA-256 of its input, in hex.
        n_bytes: its size.
        n_rows: rows written now; None: an earlier run had finished it.
    """

    checksum: str
    n_bytes: int
    n_rows: int | None = None


class PartsOutput:
    """A folder with one file per part of a data set, written in any order.

    Attributes:
        names: of the parts, in their order.
    """

    def __init__(
        self, scan: Scan, out: str | Path, *, key: str, force: bool = False, made_by: str = ""
    ) -> None:
        """Find out what is done, and claim the names of the parts.

        Args:
            scan: the predictions that are calibrated.
            out: the folder, or a URL.
            key: identifies how the parts are computed.
            force: replace what the folder holds of these names.
            made_by: the program and its version, for whoever reads the list of parts.

        Raises:
            FileExistsError: where the folder has files of these names that no such run wrote, or
                parts with another key.
        """
        self.names = part_names(scan)
        self._out, self._made_by = OutFolder.of(out), made_by
        self._out.check_is_folder()
        for index, name in enumerate(self.names):
            _check_writable(scan, index, self._out.path / name)
        self._key = hashlib.sha256(key.encode()).hexdigest()
        self._parts, claimed = ({}, set()) if force else self._earlier()
        taken = [n for n in self.names if n not in claimed and self._out.size_of(n) is not None]
        if taken and not force:
            raise FileExistsError(
                f"{self._out.path}: already holds {taken[0]}, which is not overwritten. Choose "
                "another folder, or pass `force=True` (command line: --force)."
            )
        self._claimed = sorted(claimed | set(self.names))
        self.save()  # a part that is finished just before a kill is then known to be ours

    def before(self, index: int) -> PartDone | None:
        """Return how an earlier run left a part, or None if it did not finish it."""
        return self._parts.get(self.names[index])

    def add(self, index: int, done: PartDone) -> None:
        """Record a part as done; of very many parts, the last few are recorded by `save`."""
        if done.n_rows is not None:
            self._parts[self.names[index]] = done
            n = len(self._parts)
            if n % (1 + n // MANY) == 0:  # the list is written whole, so not for every one
                self.save()

    def _earlier(self) -> tuple[dict[str, PartDone], set[str]]:
        """Return what an earlier run finished, and the names that it was to write."""
        content = self._out.read(MANIFEST)
        if content is None:
            return {}, set()
        try:
            stored = json.loads(content)
            parts = {
                str(name): PartDone(str(part["input"]), int(part["size"]))
                for name, part in stored["parts"].items()
            }
            claimed = {str(name) for name in stored["names"]}
            is_same = stored["key"] == self._key
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            path = self._out.path / MANIFEST
            raise file_error(path, "is damaged. Remove it, or pass --force.") from error
        if not is_same:
            raise FileExistsError(
                f"{self._out.path}: holds parts made by another calibrator, with other options or "
                "by another version of focalibrate. Choose another folder, or pass `force=True` "
                "(command line: --force)."
            )
        return parts, claimed

    def save(self) -> None:
        """Write the list of the parts that are done."""
        stored = {
            "made_by": self._made_by,
            "key": self._key,
            "names": self._claimed,
            "parts": {n: {"input": d.checksum, "size": d.n_bytes} for n, d in self._parts.items()},
        }
        with self._out.writing(MANIFEST) as temporary:
            temporary.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def write_parts(
    scan: Scan,
    out: str | Path,
    calibrated: Calibrated,
    *,
    key: str,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PartsWritten:
    """Write one file per part of `scan` into a folder, with the same names.

    Each part appears only when it is complete. After an interruption the same call continues:
    parts whose input and `key` have not changed are kept. Text tables, parquet, Arrow and
    JSON lines are written batch by batch; in other formats one part at a time is held in memory.
    Columns that Hive keeps in the names of folders stay there.

    Args:
        scan: the predictions that are calibrated.
        out: the folder, made if it does not exist, or a URL such as ``s3://bucket/day1``.
        calibrated: computes the probabilities of a batch.
        key: identifies how they are computed; parts with another key are not mixed with these.
        force: replace what the folder holds of these names.
        progress: called with the numbers of parts done and of all.

    Raises:
        FileExistsError: where the folder has files of these names that no such run wrote.
        PredictionFileError: where a part cannot be read or written.
    """
    output = PartsOutput(scan, out, key=key, force=force)
    outcomes = []
    try:
        for index, name in enumerate(output.names):
            done = write_part(scan, index, out, name, calibrated, before=output.before(index))
            output.add(index, done)
            outcomes.append(done)
            if progress is not None:
                progress(len(outcomes), len(output.names))
    finally:
        output.save()
    return parts_written(outcomes)


def parts_written(outcomes: list[PartDone]) -> PartsWritten:
    """Return the outcomes of parts, counted."""
    rows = [done.n_rows for done in outcomes if done.n_rows is not None]
    return PartsWritten(sum(rows), len(rows), len(outcomes) - len(rows))


def part_names(scan: Scan) -> list[str]:
    """Return the paths of the parts below the folder that holds them all.

    Folders such as ``day=2026-01-31``, which hold a column, are part of these paths.
    """
    paths = [part.name for part in scan.parts]
    root = Path(os.path.commonpath([os.path.dirname(path) for path in paths]))
    keys = {name for name, _ in scan.parts[0].partition}
    first = next((i for i, p in enumerate(root.parts) if p.partition("=")[0] in keys), None)
    if first is not None:
        root = Path(*root.parts[:first])
    return [os.path.relpath(path, root) for path in paths]


def write_part(
    scan: Scan,
    index: int,
    out: str | Path,
    name: str,
    calibrated: Calibrated,
    *,
    before: PartDone | None = None,
) -> PartDone:
    """Write one part into a folder, unless it is there, made from the same input.

    Args:
        scan: the predictions that are calibrated.
        index: position of the part.
        out: the folder, or a URL.
        name: of the file in it.
        calibrated: computes the probabilities of a batch.
        before: how an earlier run left it.
    """
    folder, checksum = OutFolder.of(out), scan.checksum(index)
    known = None if before is None else (before.checksum, before.n_bytes)
    if before is not None and known == (checksum, folder.size_of(name)):
        return before
    suffix, counts = suffix_of(Path(name)), list[int]()
    _check_writable(scan, index, folder.path / name)

    def pair(given: Predictions) -> tuple[Predictions, NDArray[Any]]:
        like, probs = calibrated(given)
        counts.append(like.n_rows)
        return like, np.ascontiguousarray(probs, dtype=like.scores.dtype)

    try:
        with folder.writing(name) as temporary:
            if suffix in BATCH_WRITERS:
                pairs = (pair(batch) for batch in scan.batches(index, keep=True))
                BATCH_WRITERS[suffix](temporary, pairs)
            else:
                like, probs = pair(scan.read_part(index))
                WRITERS[suffix](temporary, iter([probs]), like)
            n_bytes = temporary.stat().st_size
    except OSError as error:
        raise could_not_write(folder.path / name, error) from error
    return PartDone(checksum, n_bytes, sum(counts))


def _check_writable(scan: Scan, index: int, target: Path) -> None:
    """Raise where a part cannot be written in the format of its input."""
    suffix = suffix_of(target)
    if suffix not in WRITERS:
        raise file_error(
            target,
            f"cannot be written in the format {suffix!r} of its input. Write all parts to one "
            f"file, such as -o calibrated.npz: {', '.join(WRITERS)}.",
        )
    if suffix not in BATCH_WRITERS:
        scan.check_one_file(index)
