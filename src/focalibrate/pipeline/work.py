"""A data set cut into tasks: one per part, piece or chunk of pieces, made here or by workers."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from focalibrate.engines import Backend, EngineError, InThisProcess, reason_of, versions
from focalibrate.io import (
    PredictionFileError,
    Predictions,
    Scan,
    url_of,
)

Progress = Callable[[int, int], None]
Outcome = TypeVar("Outcome")

MAX_CHUNKS = 256
CHUNK_BYTES = 1 << 26
"""Pieces of a data set are put together to chunks of about so many bytes, or of more where that
would give more chunks: what is found in a chunk takes about 1 MB per method, whatever its rows."""


@dataclass(frozen=True, kw_only=True)
class PartTask:
    """Which part of which data set is read."""

    data: Scan = field(repr=False)
    part: int
    piece: int | None
    """which piece of a large part; None: all of it"""
    name: str
    """of the part"""
    n_bytes: int
    version: str
    """of this package where the command runs"""
    stamp: str
    """of the options, versions and the part's size and time: another one means other results"""

    def scan(self) -> Scan:
        """Return the data set.

        Raises:
            EngineError: the worker has another version of this package.
            PredictionFileError: the part is not the same file as where the command runs.
        """
        if not self.data.is_copy:
            return self.data
        own = used_versions()["focalibrate"]
        if own != self.version:
            raise EngineError(
                f"a worker has focalibrate {own}, but the command {self.version}. Install "
                "the same version for all workers."
            )
        if url_of(self.name) is None and _size(self.name) != self.n_bytes:
            raise PredictionFileError(
                f"{self.name}: is not the same file here as where the command runs, or has "
                "changed since. Every worker needs the files under the same names."
            )
        return self.data

    def batches(self, *, half: bool = False) -> Iterator[Predictions]:
        """Yield the rows; `half` leaves logits in float16 as they are."""
        return self.scan().batches(self.part, piece=self.piece, half=half)


def part_tasks(scan: Scan, *, whole_parts: bool = False) -> list[PartTask]:
    """Return one task per piece of a data set, or per part.

    Args:
        scan: the data set.
        whole_parts: one task per part, also where a part has pieces.
    """
    found, common = used_versions(), options_of(scan)
    pieces = [(p.part, p.number, p.name) for p in scan.pieces]
    if whole_parts:
        pieces = [(i, None, part.name) for i, part in enumerate(scan.parts)]
    tasks = []
    for index, number, name in pieces:
        part = scan.parts[index]
        changed = part.changed or _changed(part.name)
        at = [absolute(part.name), part.n_bytes, changed]
        task = PartTask(
            data=scan,
            part=index,
            piece=number,
            name=absolute(name),
            n_bytes=part.n_bytes,
            version=found["focalibrate"],
            stamp=digest([common, found, index, number, at]),
        )
        tasks.append(task)
    return tasks


def options_of(scan: Scan) -> str:
    """Return what the caller says about a data set, the same from any folder."""
    request = scan.reading.request
    labels = None if request.labels_path is None else absolute(request.labels_path)
    told = replace(request, path=Path(), labels_path=labels, max_memory=None)
    return f"{told} {None if labels is None else _changed(labels)}"


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some pieces of a data set, one after another."""

    at: tuple[PartTask, ...]
    first: int
    """position of the first row"""
    n_rows: int

    @property
    def name(self) -> str:
        """Return what messages call it."""
        return self.at[0].name

    def batches(self, *, half: bool = False) -> Iterator[Predictions]:
        """Yield the rows; `half` leaves logits in float16 as they are."""
        for task in self.at:
            yield from task.batches(half=half)


def chunks_of(scan: Scan, rows: Sequence[int]) -> list[Chunk]:
    """Return the pieces of a data set, put together; this depends on their sizes only.

    Args:
        scan: the data set.
        rows: of each piece, as `rows_of_pieces` or a pass over them has counted.
    """
    tasks = part_tasks(scan)
    n_pieces = Counter(piece.part for piece in scan.pieces)
    sizes = [task.n_bytes / n_pieces[task.part] for task in tasks]
    least = max(CHUNK_BYTES, sum(sizes) / MAX_CHUNKS)
    ends, held = [], 0.0
    for i, size in enumerate(sizes):
        held += size
        if held >= least or i == len(sizes) - 1:
            ends.append(i + 1)
            held = 0.0
    found, first = [], 0
    for start, end in zip([0, *ends], ends, strict=False):
        n_rows = sum(rows[start:end])
        found.append(Chunk(at=tuple(tasks[start:end]), first=first, n_rows=n_rows))
        first += n_rows
    return found


def rows_of_pieces(scan: Scan, backend: Backend) -> list[int]:
    """Return the number of rows of each piece, which workers count where it is not stored."""
    rows = [piece.n_rows for piece in scan.pieces]
    unknown = [i for i, n in enumerate(rows) if n is None]
    if unknown:
        tasks = part_tasks(scan)
        chosen = [tasks[i] for i in unknown]
        for place, n in outcomes_of(backend, count_rows, chosen, [task.name for task in chosen]):
            rows[unknown[place]] = n
    return [n or 0 for n in rows]


def count_rows(task: PartTask) -> int:
    """Return how many rows a piece gives."""
    return sum(batch.n_rows for batch in task.batches())


def outcomes_of(
    backend: Backend | None,
    function: Callable[[Any], Outcome],
    tasks: Sequence[Any],
    names: Sequence[str],
) -> Iterator[tuple[int, Outcome]]:
    """Yield the place and outcome of each task as it comes; raise in the end if some failed.

    Args:
        backend: where the tasks are made; None: in this process, where an error ends them.
        function: what is called; workers must be able to import it.
        tasks: its argument.
        names: of the part of each task.

    Raises:
        EngineError: workers failed, after all other tasks are done.
    """
    failed: list[str] = []
    where = InThisProcess() if backend is None else backend
    with closing(where.map(function, [(task,) for task in tasks])) as outcomes:
        for place, outcome in outcomes:
            if isinstance(outcome, BaseException):
                lost = isinstance(outcome, EngineError)  # which does not know the part
                failed.append(f"{f'{names[place]}: ' if lost else ''}{reason_of(outcome)}")
                continue
            yield place, outcome
    if failed:
        raise EngineError(
            f"{len(failed)} of {len(names)} parts failed; the first: {failed[0].rstrip('.')}."
        )


def in_order(outcomes: Iterator[tuple[int, Outcome]]) -> Iterator[Outcome]:
    """Yield outcomes in the order of their tasks, in whatever order they come."""
    early: dict[int, Outcome] = {}
    due = 0
    for place, outcome in outcomes:
        early[place] = outcome
        while due in early:
            yield early.pop(due)
            due += 1


def used_versions() -> dict[str, str]:
    """Return the versions that decide the numbers."""
    return versions(["numpy", *(["pyarrow"] if find_spec("pyarrow") else [])])


def digest(value: Any) -> str:
    """Return a short name for something that can be written as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def absolute(place: str | Path) -> str:
    """Return what names a file from any folder: `Path` has turned ``s3://b`` into ``s3:/b``."""
    return url_of(place) or ("-" if str(place) == "-" else os.path.abspath(place))


def _size(name: str) -> int | None:
    try:
        return os.path.getsize(name)
    except OSError:
        return None


def _changed(name: str) -> int | None:
    try:
        return os.stat(name).st_mtime_ns
    except OSError:
        return None
