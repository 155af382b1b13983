"""A data set cut into chunks, each a part, a piece or several, worked on here or by workers."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from focalibrate.engines import Backend, EngineError, InThisProcess, reason_of, versions
from focalibrate.io import PredictionFileError, Predictions, Scan, url_of
from focalibrate.io.first_rows import Piece

Progress = Callable[[int, int], None]
Outcome = TypeVar("Outcome")

MAX_CHUNKS = 256
CHUNK_BYTES = 1 << 26
"""Pieces of a data set are put together to chunks of about so many bytes, or of more where that
would give more chunks: what is found in a chunk takes about 1 MB per method, whatever its rows."""


def used_versions() -> dict[str, str]:
    """Return the versions that decide the numbers."""
    return versions(["numpy", "pyarrow"])


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some pieces of a data set, one after another: what a worker reads at a time."""

    data: Scan = field(repr=False)
    pieces: tuple[Piece, ...]
    """under their full names"""
    first: int = 0
    """position of the first row"""
    version: str = field(default_factory=lambda: used_versions()["focalibrate"])
    """of this package where the command runs"""

    @classmethod
    def of(cls, scan: Scan, pieces: Sequence[Piece], first: int = 0) -> "Chunk":
        """Return a chunk of these pieces, which workers may read from another folder."""
        named = tuple(replace(piece, name=absolute(piece.name)) for piece in pieces)
        return cls(data=scan, pieces=named, first=first)

    @property
    def name(self) -> str:
        """Return what messages call it: its first part."""
        return self.pieces[0].name

    def scan(self) -> Scan:
        """Return the data set.

        Raises:
            EngineError: the worker has another version of this package.
            PredictionFileError: a part is not the same file as where the command runs.
        """
        if not self.data.is_copy:
            return self.data
        own = used_versions()["focalibrate"]
        if own != self.version:
            raise EngineError(
                f"a worker has focalibrate {own}, but the command {self.version}. Install "
                "the same version for all workers."
            )
        for piece in self.pieces:
            size = self.data.parts[piece.part].n_bytes
            if url_of(piece.name) is None and _stat(piece.name, "st_size") != size:
                raise PredictionFileError(
                    f"{piece.name}: is not the same file here as where the command runs, or has "
                    "changed since. Every worker needs the files under the same names."
                )
        return self.data

    def batches(
        self, pieces: Sequence[Piece] | None = None, *, half: bool = False
    ) -> Iterator[Predictions]:
        """Yield the rows, or those of some pieces; `half` leaves logits in float16 as they are."""
        scan = self.scan()
        for piece in self.pieces if pieces is None else pieces:
            yield from scan.batches(piece.part, piece=piece.number, half=half)


def chunks_of(scan: Scan, rows: Sequence[int]) -> list[Chunk]:
    """Return pieces put together by their sizes; `rows` of each are counted before."""
    n_pieces = Counter(piece.part for piece in scan.pieces)
    sizes = [scan.parts[p.part].n_bytes / n_pieces[p.part] for p in scan.pieces]
    least = max(CHUNK_BYTES, sum(sizes) / MAX_CHUNKS)
    found, start, held = [], 0, 0.0
    for end, size in enumerate(sizes, start=1):
        held += size
        if held >= least or end == len(sizes):
            found.append(Chunk.of(scan, scan.pieces[start:end], first=sum(rows[:start])))
            start, held = end, 0.0
    return found


def rows_of_pieces(scan: Scan, backend: Backend) -> list[int]:
    """Return the number of rows of each piece, which workers count where it is not stored."""
    rows = [piece.n_rows for piece in scan.pieces]
    unknown = [i for i, n in enumerate(rows) if n is None]
    calls = [(Chunk.of(scan, [scan.pieces[i]]),) for i in unknown]
    for place, n in outcomes_of(backend, count_rows, calls):
        rows[unknown[place]] = n
    return [n or 0 for n in rows]


def count_rows(chunk: Chunk) -> int:
    """Return how many rows a chunk gives."""
    return sum(batch.n_rows for batch in chunk.batches())


def outcomes_of(
    backend: Backend | None, function: Callable[..., Outcome], calls: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[int, Outcome]]:
    """Yield the place and outcome of each call as it comes; raise in the end if some failed.

    Args:
        backend: where the calls are made; None: in this process, where an error ends them.
        function: what is called; workers must be able to import it.
        calls: its arguments, of which the first is a chunk.

    Raises:
        EngineError: workers failed, after all other calls are done.
    """
    failed: list[str] = []
    where = InThisProcess() if backend is None else backend
    with closing(where.map(function, calls)) as outcomes:
        for place, outcome in outcomes:
            if isinstance(outcome, BaseException):
                lost = isinstance(outcome, EngineError)  # which does not know the part
                name = f"{calls[place][0].name}: " if lost else ""
                failed.append(f"{name}{reason_of(outcome)}")
                continue
            yield place, outcome
    if failed:
        raise EngineError(
            f"{len(failed)} of {len(calls)} parts failed; the first: {failed[0].rstrip('.')}."
        )


def in_order(outcomes: Iterator[tuple[int, Outcome]]) -> Iterator[Outcome]:
    """Yield outcomes in the order of their calls, in whatever order they come."""
    early: dict[int, Outcome] = {}
    due = 0
    for place, outcome in outcomes:
        early[place] = outcome
        while due in early:
            yield early.pop(due)
            due += 1


def options_of(scan: Scan) -> str:
    """Return what the caller says about a data set, the same from any folder."""
    request = scan.reading.request
    labels = None if request.labels_path is None else absolute(request.labels_path)
    told = replace(request, path=Path(), labels_path=labels, max_memory=None)
    return f"{told} {None if labels is None else _stat(labels, 'st_mtime_ns')}"


def key_of(scan: Scan, piece: Piece, *settings: Any) -> str:
    """Return a short name for what is made of a piece: another one means other results.

    It follows from the options, the versions, the part's size and time, and from the settings.
    """
    part = scan.parts[piece.part]
    changed = part.changed or _stat(part.name, "st_mtime_ns")
    at = [piece.part, piece.number, absolute(part.name), part.n_bytes, changed]
    known = json.dumps([options_of(scan), used_versions(), at, settings], sort_keys=True)
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def absolute(place: str | Path) -> str:
    """Return what names a file from any folder: `Path` has turned ``s3://b`` into ``s3:/b``."""
    return url_of(place) or ("-" if str(place) == "-" else os.path.abspath(place))


def _stat(name: str, field: str) -> int | None:
    """Return a file's size or time; None where it cannot be known."""
    try:
        found: int = getattr(os.stat(name), field)
    except OSError:
        return None
    return found
