"""The sample of rows to fit on, drawn here or by workers: the same rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.engines import Backend
from focalibrate.io import Scan
from focalibrate.pipeline.chunks import Chunk, batches_of, placed_chunks
from focalibrate.pipeline.part_tasks import outcomes_of, scan_of
from focalibrate.pipeline.sampling import (
    LARGEST_HASH,
    Drawn,
    Positions,
    can_look_up,
    draw,
    draw_from,
)


@dataclass(frozen=True, kw_only=True)
class DrawTask:
    """What a worker needs to draw rows of a chunk."""

    chunk: Chunk
    n_keep: int
    limit: int
    """the largest hash of a row to keep"""
    class_names: tuple[str, ...] | None


def draw_rows(
    scan: Scan,
    n_keep: int,
    class_names: tuple[str, ...] | None,
    *,
    backend: Backend | None = None,
) -> Drawn:
    """Return the `n_keep` rows with the smallest hashes.

    Workers know how many rows there are, and so about how large the hash of the last row kept
    is: each sends its share of the sample, not as many rows as the sample has.

    Args:
        scan: all rows, with labels.
        n_keep: most rows to keep.
        class_names: the order to put the classes in, by name.
        backend: where the rows are read in parallel; None: in this process.
    """
    if backend is None or can_look_up(scan):
        return draw(scan, n_keep, class_names)
    chunks = placed_chunks(scan, backend)
    wanted = n_keep + 6 * math.sqrt(n_keep) + 16  # so that they are almost surely enough
    share = wanted / max(sum(chunk.n_rows for chunk in chunks), 1)
    while True:
        limit = min(LARGEST_HASH, int(share * LARGEST_HASH))
        found = _drawn_elsewhere(chunks, n_keep, limit, class_names, backend)
        n_used = sum(drawn.n_rows for drawn in found)
        if not n_used:
            raise ValueError(f"{scan.source}: has no rows with a weight above 0.")
        if sum(len(drawn.hashes) for drawn in found) >= min(n_keep, n_used):
            return _smallest(found, n_keep)
        share = max(2 * share, wanted / n_used)  # many rows have a weight of 0


def _drawn_elsewhere(
    chunks: Sequence[Chunk],
    n_keep: int,
    limit: int,
    class_names: tuple[str, ...] | None,
    backend: Backend,
) -> list[Drawn]:
    calls = [
        (DrawTask(chunk=chunk, n_keep=n_keep, limit=limit, class_names=class_names),)
        for chunk in chunks
    ]
    outcomes = outcomes_of(backend, draw_chunk, calls, [chunk.name for chunk in chunks])
    return [drawn for _, drawn in sorted(outcomes, key=lambda pair: pair[0]) if drawn is not None]


def draw_chunk(task: DrawTask) -> Drawn | None:
    """Return the rows of a chunk that have small hashes."""
    batches = batches_of(scan_of(task.chunk.at[0]), task.chunk.at)
    found = Positions(task.chunk.first).of(batches, task.class_names)
    return draw_from(found, task.n_keep, limit=task.limit)


def _smallest(found: Sequence[Drawn], n_keep: int) -> Drawn:
    """Return the rows with the smallest hashes of all."""
    hashes = np.concatenate([drawn.hashes for drawn in found])
    order = np.argsort(hashes)[:n_keep]
    given = [drawn.examples for drawn in found]

    def joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(arrays)[order]

    weights = [one.weights for one in given if one.weights is not None]
    examples = replace(
        given[0],
        scores=joined([one.scores for one in given]),
        labels=joined([one.labels for one in given]),
        weights=joined(weights) if weights else None,
        groups={name: joined([one.groups[name] for one in given]) for name in given[0].groups},
    )
    return Drawn(
        examples,
        hashes[order],
        sum(drawn.n_rows for drawn in found),
        sum(drawn.n_zero_rows for drawn in found),
        min(drawn.least_positive for drawn in found),
    )
