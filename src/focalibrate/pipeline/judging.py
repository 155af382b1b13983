"""Fitted methods evaluated on all rows of a data set, chunk by chunk, here or by workers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from focalibrate.calibrate import Calibrator
from focalibrate.comparison import Sums, judge
from focalibrate.engines import Backend
from focalibrate.io import Scan
from focalibrate.metrics.sketch import MAX_CLASSWISE
from focalibrate.pipeline.sample import EvaluatedRows
from focalibrate.pipeline.work import Chunk, chunks_of, in_order, outcomes_of


@dataclass(frozen=True, kw_only=True)
class JudgeTask:
    """What is needed to evaluate all methods on the rows of a chunk."""

    chunk: Chunk
    rows: EvaluatedRows
    fitted: Mapping[str, Calibrator]
    n_classes: int
    n_bins: int


def judge_scan(
    fitted: Mapping[str, Calibrator],
    scan: Scan,
    rows: EvaluatedRows,
    counts: Sequence[int],
    *,
    n_bins: int,
    backend: Backend | None = None,
) -> dict[str, Sums]:
    """Return the sums over rows of a data set for each method.

    Every chunk of the data is summed by itself and the sums are added in order, so that the
    result is the same to the last bit for any number of workers.

    Args:
        fitted: the calibrator of each method, fitted on other rows.
        scan: the data set.
        rows: which of its rows are evaluated on.
        counts: the rows of each piece of the data set.
        n_bins: bins of the binned errors.
        backend: where chunks are evaluated in parallel; None: in this process, one by one.

    Raises:
        EngineError: chunks failed, or the workers were lost.
    """
    tasks = [
        JudgeTask(
            chunk=chunk,
            rows=rows,
            fitted=fitted,
            n_classes=scan.n_classes,
            n_bins=n_bins,
        )
        for chunk in chunks_of(scan, counts)
    ]
    names = [task.chunk.name for task in tasks]
    found = in_order(outcomes_of(backend, judge_chunk, tasks, names))
    total = next(found)
    for sums in found:
        for method, one in sums.items():
            total[method].merge(one)
    return total


def judge_chunk(task: JudgeTask) -> dict[str, Sums]:
    """Evaluate all methods on the rows of a chunk."""
    batches = task.chunk.batches(half=task.n_classes > MAX_CLASSWISE)
    return judge(
        task.fitted,
        task.rows.of(batches, task.chunk.first),
        n_bins=task.n_bins,
    )
