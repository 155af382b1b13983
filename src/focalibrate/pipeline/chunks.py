"""A data set cut into chunks whose rows have known positions, as tasks of workers."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from focalibrate.engines import Backend
from focalibrate.io import Predictions, Scan
from focalibrate.pipeline.part_tasks import PartTask, outcomes_of, part_tasks, scan_of

MAX_CHUNKS = 256
CHUNK_BYTES = 1 << 26
"""Pieces of a data set are put together to chunks of about so many bytes, or of more where that
would give more chunks: what is found in a chunk takes about 1 MB per method, whatever its rows."""


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


def chunks_of(scan: Scan) -> list[tuple[PartTask, ...]]:
    """Return the pieces of a data set, put together; this depends on their sizes only."""
    tasks = part_tasks(scan)
    n_pieces = Counter(piece.part for piece in scan.pieces)
    sizes = [task.n_bytes / n_pieces[task.part] for task in tasks]
    least = max(CHUNK_BYTES, sum(sizes) / MAX_CHUNKS)
    found: list[list[PartTask]] = []
    held = least
    for task, size in zip(tasks, sizes, strict=True):
        if held >= least:
            found.append([])
            held = 0.0
        found[-1].append(task)
        held += size
    return [tuple(chunk) for chunk in found]


def placed_chunks(scan: Scan, backend: Backend) -> list[Chunk]:
    """Return the chunks with the positions of their rows, which workers count where needed."""
    chunks = chunks_of(scan)
    tasks = [task for chunk in chunks for task in chunk]
    rows = [piece.n_rows for piece in scan.pieces]
    unknown = [i for i, n in enumerate(rows) if n is None]
    calls, names = [(tasks[i],) for i in unknown], [tasks[i].name for i in unknown]
    for place, n in outcomes_of(backend, count_rows, calls, names) if calls else ():
        rows[unknown[place]] = n
    found, start, first = [], 0, 0
    for chunk in chunks:
        n_rows = sum(n or 0 for n in rows[start : start + len(chunk)])
        found.append(Chunk(at=chunk, first=first, n_rows=n_rows))
        start, first = start + len(chunk), first + n_rows
    return found


def count_rows(task: PartTask) -> int:
    """Return how many rows a piece gives."""
    return sum(batch.n_rows for batch in scan_of(task).batches(task.part, piece=task.piece))


def batches_of(scan: Scan, at: Sequence[PartTask], *, half: bool = False) -> Iterator[Predictions]:
    """Yield the rows of pieces of a data set."""
    for task in at:
        yield from scan.batches(task.part, piece=task.piece, half=half)
