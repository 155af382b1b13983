"""Methods fitted to all rows of a data set, by passes over them, and cross-fitted in halves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from focalibrate.calibrate import (
    METHODS,
    STREAMED,
    RowCounts,
    RowStream,
    ScoredRows,
    collected_warnings,
    fit_streamed,
    log_probabilities,
)
from focalibrate.comparison import Comparison
from focalibrate.io import Scan
from focalibrate.pipeline.sampling import Positions, row_hash

N_FOLDS = 2
"""Halves: each is evaluated by calibrators fitted on the other."""
DEFAULT = ("temperature", "focal_temperature", "structured_vector", "structured_matrix")


def fold_of(hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the half of each row, by a bit of its hash that nothing else uses."""
    return ((hashes >> np.uint64(3)) % np.uint64(N_FOLDS)).astype(np.intp)


def exact_methods(methods: Sequence[str] | None, choose: str | None) -> list[str]:
    """Return the methods to fit to all rows.

    Raises:
        ValueError: a requested method needs the rows in memory.
    """
    names = list(DEFAULT if methods is None else methods)
    if choose is not None and choose not in names:
        names.append(choose)
    other = [name for name in names if name not in (*STREAMED, "identity")]
    if other:
        raise ValueError(
            f"`methods`: {', '.join(other)} needs all rows in memory, and they are too many. "
            f"By passes over all rows (--fit-rows all) {', '.join(STREAMED)} can be fitted; leave "
            "out --fit-rows to fit any method on a sample of the rows."
        )
    return names


def fit_exactly(
    comparison: Comparison,
    scan: Scan,
    mix: float,
    *,
    cross_fit: bool,
    say: Callable[[str], None],
) -> Comparison:
    """Return the comparison with every method fitted to all rows of `scan`.

    Args:
        comparison: the methods, fitted to some of the rows.
        scan: the rows.
        mix: weight of the uniform distribution that is mixed into probabilities with zeros.
        cross_fit: also fit each to the rows outside of each half.
        say: called with what is being done.
    """
    whole, *parts = _streams(scan, mix, N_FOLDS if cross_fit else 0)
    rows, skipped = [], list(comparison.skipped)
    for row in comparison.rows:
        if row.method == "identity":
            calibrators = (row.calibrator,) * len(parts)
            rows.append(replace(row, fold_calibrators=calibrators))
            continue
        say(f"fitting {METHODS[row.method].label} to {whole.n_rows:,} rows")
        try:
            with collected_warnings() as messages:
                found = fit_streamed(row.method, whole)
            with collected_warnings():
                others = tuple(fit_streamed(row.method, part, near=whole) for part in parts)
        except ValueError as error:
            skipped.append((row.method, str(error)))
            continue
        made = replace(row, calibrator=found, fold_calibrators=others, notes=tuple(messages))
        rows.append(made)
    return replace(comparison, rows=tuple(rows), skipped=tuple(skipped), n_fitted=whole.n_rows)


def _streams(scan: Scan, mix: float, n_folds: int) -> list[RowStream]:
    """Return the stream of all rows, then those of the rows outside of each fold."""
    folds: list[int | None] = [None, *range(n_folds)]
    counts = {fold: RowCounts() for fold in folds}
    for hashes, batch in _scored(scan, mix):
        for fold in folds:
            kept = batch if fold is None else batch.take(fold_of(hashes) != fold)
            if kept.n_rows:
                counts[fold].add(kept.n_rows, kept.weights)
    if not all(found.n_rows for found in counts.values()):
        raise ValueError(f"{scan.source}: has too few rows to fit on one half of them.")
    itemsize = scan.first.scores.itemsize
    return [
        RowStream(partial(_batches, scan, mix, fold), counts[fold], scan.n_classes, itemsize)
        for fold in folds
    ]


def _batches(scan: Scan, mix: float, fold: int | None) -> Iterator[ScoredRows]:
    for hashes, batch in _scored(scan, mix):
        kept = batch if fold is None else batch.take(fold_of(hashes) != fold)
        if kept.n_rows:
            yield kept


def _scored(scan: Scan, mix: float) -> Iterator[tuple[NDArray[np.uint64], ScoredRows]]:
    for positions, batch in Positions().of(scan.batches(), scan.class_names):
        hashes = row_hash(positions)
        if batch.labels is None:
            raise ValueError(f"{batch.source}: no labels found. Pass --labels FILE.")
        logits: NDArray[Any] = batch.scores
        if batch.kind == "probs":
            logits = log_probabilities(batch.scores, mix)
        rows = ScoredRows(logits, batch.labels.astype(np.intp, copy=False), batch.weights, mix)
        if batch.weights is not None and not batch.weights.all():
            is_used = batch.weights > 0
            rows, hashes = rows.take(is_used), hashes[is_used]
        if rows.n_rows:
            yield hashes, rows
