"""Fitted methods evaluated on all rows of a data set, chunk by chunk, here or by workers."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from focalibrate.calibrate import Calibrator
from focalibrate.comparison import Comparison, JudgedSums, fitted_methods, judged_by, judged_sums
from focalibrate.engines import Backend
from focalibrate.io import Scan
from focalibrate.metrics.sketch import MAX_CLASSWISE
from focalibrate.pipeline.chosen_rows import EvaluatedRows
from focalibrate.pipeline.chunks import Chunk, batches_of, chunks_of, placed_chunks
from focalibrate.pipeline.part_tasks import outcomes_of, scan_of
from focalibrate.pipeline.sampling import Positions


@dataclass(frozen=True, kw_only=True)
class JudgeTask:
    """What a worker needs to evaluate all methods on the rows of a chunk."""

    chunk: Chunk
    rows: EvaluatedRows
    fitted: str
    """the calibrators of each method, as JSON"""
    n_bins: int


def judge_scan(
    comparison: Comparison, scan: Scan, rows: EvaluatedRows, *, backend: Backend | None = None
) -> Comparison:
    """Return the comparison with every method evaluated on rows of a data set instead.

    Every chunk of the data is summed by itself and the sums are added in order, so that the
    result is the same to the last bit for any number of workers.

    Args:
        comparison: the methods, fitted on other rows.
        scan: the data set.
        rows: which of its rows are evaluated on.
        backend: where chunks are evaluated in parallel; None: in this process, one by one.

    Raises:
        EngineError: chunks failed, or the workers were lost.
    """
    found = _here(comparison, scan, rows)
    if backend is not None:
        found = _elsewhere(comparison, scan, rows, backend)
    total = next(found)
    for sums in found:
        total.merge(sums)
    return judged_by(comparison, total)


def _here(comparison: Comparison, scan: Scan, rows: EvaluatedRows) -> Iterator[JudgedSums]:
    positions = Positions()
    half = scan.n_classes > MAX_CLASSWISE
    for at in chunks_of(scan):
        batches = rows.of(positions.of(batches_of(scan, at, half=half), rows.class_names))
        yield judged_sums(
            fitted_methods(comparison),
            batches,
            n_classes=scan.n_classes,
            n_bins=comparison.n_bins,
        )


def _elsewhere(
    comparison: Comparison, scan: Scan, rows: EvaluatedRows, backend: Backend
) -> Iterator[JudgedSums]:
    """Yield the sums of the chunks in their order, in whatever order they come."""
    fitted = {m: [c.to_dict() for c in those] for m, those in fitted_methods(comparison).items()}
    text = json.dumps(fitted)
    chunks = placed_chunks(scan, backend)
    calls = [
        (JudgeTask(chunk=chunk, rows=rows, fitted=text, n_bins=comparison.n_bins),)
        for chunk in chunks
    ]
    early: dict[int, JudgedSums] = {}
    due = 0
    for place, sums in outcomes_of(backend, judge_chunk, calls, [c.name for c in chunks]):
        early[place] = sums
        while due in early:
            yield early.pop(due)
            due += 1


def judge_chunk(task: JudgeTask) -> JudgedSums:
    """Evaluate all methods on the rows of a chunk."""
    at = task.chunk.at
    scan = scan_of(at[0])
    half = scan.n_classes > MAX_CLASSWISE
    found = Positions(task.chunk.first).of(batches_of(scan, at, half=half), task.rows.class_names)
    fitted = {
        method: tuple(Calibrator.from_dict(record) for record in those)
        for method, those in json.loads(task.fitted).items()
    }
    return judged_sums(fitted, task.rows.of(found), n_classes=scan.n_classes, n_bins=task.n_bins)
