"""Fitted methods evaluated on all rows of a data set, chunk by chunk, here or by workers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from focalibrate.calibrate import Calibrator
from focalibrate.calibrate.rows import log_probabilities
from focalibrate.comparison import N_UNITS, Batch, Sums, judge
from focalibrate.engines import Backend
from focalibrate.io import Scan, align
from focalibrate.metrics.sketch import MAX_CLASSWISE
from focalibrate.pipeline.sample import ChosenRows, row_hash
from focalibrate.pipeline.work import Chunk, chunks_of, in_order, outcomes_of


@dataclass(frozen=True, kw_only=True)
class JudgeTask:
    """What is needed to evaluate all methods on the rows of a chunk."""

    chunk: Chunk
    limit: int | None
    """rows with a larger hash are evaluated on; None: all"""
    zero_mix: float
    class_names: tuple[str, ...] | None
    fitted: Mapping[str, Calibrator]
    n_classes: int
    n_bins: int

    def batches(self) -> Iterator[Batch]:
        """Yield the rows to evaluate on."""
        first = self.chunk.first
        for given in self.chunk.batches(half=self.n_classes > MAX_CLASSWISE):
            batch = align(given, self.class_names)
            hashes = row_hash(np.arange(first, first + batch.n_rows, dtype=np.int64))
            first += batch.n_rows
            kept = np.ones(batch.n_rows, bool)
            if self.limit is not None:
                kept = hashes > np.uint64(self.limit)
            if batch.weights is not None:
                kept &= batch.weights > 0
            if batch.labels is None or not kept.any():
                continue
            logits = batch.scores if kept.all() else batch.scores[kept]
            if batch.kind == "probs":
                logits = log_probabilities(logits, self.zero_mix)
            yield Batch(
                logits=logits,
                labels=batch.labels[kept].astype(np.intp, copy=False),
                unit=(hashes[kept] >> np.uint64(7)).astype(np.int64) % N_UNITS,
                weights=None if batch.weights is None else batch.weights[kept],
                groups={name: np.asarray(c)[kept] for name, c in batch.groups.items()},
            )


def judge_scan(
    fitted: Mapping[str, Calibrator],
    scan: Scan,
    rows: ChosenRows,
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
        n_bins: bins of the binned errors.
        backend: where chunks are evaluated in parallel; None: in this process, one by one.

    Raises:
        EngineError: chunks failed, or the workers were lost.
    """
    tasks = [
        JudgeTask(
            chunk=chunk,
            limit=rows.limit,
            zero_mix=rows.fitted.zero_mix,
            class_names=rows.fitted.class_names,
            fitted=fitted,
            n_classes=scan.n_classes,
            n_bins=n_bins,
        )
        for chunk in chunks_of(scan, rows.rows)
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
    return judge(task.fitted, task.batches(), n_bins=task.n_bins)
